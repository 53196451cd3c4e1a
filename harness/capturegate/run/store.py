"""Results in a file, a line each, written as they come; what a resumed run reads.

A line is `{"schema": 1, "fingerprint": ..., "result": ...}`; stores of other things have another
word for `result`. A result is valid for its fingerprint alone: a hash over the request of the case
(scenario, lane, arm, backend, seed), Capturegate's version, and the sources that the case runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import capturegate
from capturegate.errors import InputError, Location
from capturegate.run.result import CaseResult

SCHEMA = 1
_HEAD = b'{"schema": '

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Generic[T]):
    """Files of one kind of thing: `kind` is its key in a line, and its name in messages."""

    kind: str
    to_json: Callable[[T], dict[str, Any]]
    from_json: Callable[[dict[str, Any]], T]

    def read(self, path: Path) -> dict[str, T]:
        """The things in a file by fingerprint; the later of two wins.

        A last line without its end was torn by a kill, and is passed over.

        Raises:
            InputError: the file cannot be read, or is not one of this store.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"the {self.kind}s cannot be read: {error}") from error
        return self._parsed(path, data)

    def writer(self, path: Path) -> Writer[T]:
        """A writer that appends to a file, new or of this store.

        Raises:
            InputError: the file cannot be written, or is not one of this store.
        """
        return Writer(self, path)

    def line(self, fingerprint: str, thing: T) -> bytes:
        """One line of a file."""
        data = {"schema": SCHEMA, "fingerprint": fingerprint, self.kind: self.to_json(thing)}
        return json.dumps(data).encode() + b"\n"

    def whole_bytes(self, path: Path, data: bytes) -> int:
        """How many bytes of a file are whole lines; what follows is a torn one.

        Raises:
            InputError: a line is not one of this store.
        """
        self._parsed(path, data)
        return data.rfind(b"\n") + 1

    def _parsed(self, path: Path, data: bytes) -> dict[str, T]:
        *lines, torn = data.split(b"\n")
        found = {}
        for number, line in enumerate(lines, start=1):
            try:
                told = json.loads(line)
                if told["schema"] != SCHEMA:
                    raise ValueError(f"schema {told['schema']!r}")
                found[str(told["fingerprint"])] = self.from_json(told[self.kind])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problem = f"{type(error).__name__}: {error}"
                raise self._foreign(path, number, problem) from error
        if not _HEAD.startswith(torn[: len(_HEAD)]):
            raise self._foreign(path, len(lines) + 1, "it has no end and does not begin as one")
        return found

    def _foreign(self, path: Path, line: int, problem: str) -> InputError:
        return InputError(
            f"the line is no {self.kind}: {problem}",
            where=Location(str(path), line),
            expected=f"a file that --results wrote, schema {SCHEMA}",
        )


class Writer(Generic[T]):
    """Appends to a file of a store."""

    def __init__(self, store: Store[T], path: Path) -> None:
        self._store = store
        try:
            self._file = path.open("ab+")
        except OSError as error:
            raise InputError(f"the {store.kind}s cannot be written: {error}") from error
        self._file.seek(0)
        try:
            end = store.whole_bytes(path, self._file.read())
        except InputError:
            self._file.close()
            raise
        self._file.truncate(end)
        self._file.seek(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, fingerprint: str, thing: T) -> None:
        """Write one thing; what is written survives the death of this process."""
        self._file.write(self._store.line(fingerprint, thing))
        self._file.flush()


RESULTS: Store[CaseResult] = Store(
    kind="result", to_json=CaseResult.to_json, from_json=CaseResult.from_json
)


def fingerprint_of(request: Mapping[str, Any], sources: str) -> str:
    """The fingerprint of a case's request, run on sources of that digest."""
    facts = [capturegate.__version__, sources, request]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_results(path: Path) -> dict[str, CaseResult]:
    """The results in a file by fingerprint.

    Those that the harness failed to get are left out, so that a resumed run tries them again.

    Raises:
        InputError: the file cannot be read, or is not one of results.
    """
    found = RESULTS.read(path)
    return {mark: result for mark, result in found.items() if not result.harness_error}
