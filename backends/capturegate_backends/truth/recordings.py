"""Recorded call programs: what a real device showed for each, in one compressed file.

The first line says which device, driver and CUDA; each further line is one case.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from capturegate.errors import InputError, message_of
from capturegate.programs import Observation

FORMAT = "capturegate call programs 1"
SUFFIX = ".jsonl.gz"
_HINT = "`capturegate conform --record FILE` writes one; fetch a damaged one anew"
_DAMAGE = (
    OSError,
    EOFError,
    zlib.error,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCase:
    """One program and what the device showed."""

    name: str
    program: list[list[Any]]
    observation: Observation

    def line(self) -> str:
        """The case as one line of a recording."""
        data = {"name": self.name, "program": self.program, **self.observation.as_data()}
        return json.dumps(data, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """All cases of one device, driver and CUDA version."""

    description: Mapping[str, str]
    cases: tuple[RecordedCase, ...]


def parse_case(line: str) -> RecordedCase:
    """Read one line of a recording."""
    data = json.loads(line)
    return RecordedCase(
        name=data["name"], program=data["program"], observation=Observation.from_data(data)
    )


def write_recording(
    path: Path, description: Mapping[str, str], cases: Iterable[RecordedCase]
) -> None:
    """Write a recording; the same cases give the same bytes."""
    head = json.dumps({"format": FORMAT, **description})
    text = "\n".join([head, *(case.line() for case in cases)]) + "\n"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read_recording(path: Path) -> Recording:
    """Read a recording.

    Raises:
        InputError: the file is no recording.
    """
    try:
        head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        description = dict(json.loads(head))
        cases = tuple(parse_case(line) for line in lines)
    except _DAMAGE as error:
        said = message_of(error) or type(error).__name__
        raise InputError(
            f"not a recording of call programs: {said}", where=str(path), hint=_HINT
        ) from error
    if description.pop("format", None) != FORMAT:
        raise InputError(
            "not a recording of call programs", where=str(path), expected=FORMAT, hint=_HINT
        )
    return Recording(description=description, cases=cases)


def shipped() -> tuple[Path, ...]:
    """The recordings that come with the package."""
    root = Path(str(files("capturegate_backends.truth")))
    return tuple(sorted(root.glob(f"*{SUFFIX}")))


def shipped_cases() -> Iterator[RecordedCase]:
    """Every recorded program that comes with the package."""
    for path in shipped():
        yield from read_recording(path).cases
