"""Results in a file, a line each, written as they come; what a resumed run reads.

A line is `{"schema": 1, "fingerprint": ..., "result": ...}`. The fingerprint is a hash over the
request of the case (scenario, lane, arm, backend, seed) and Capturegate's version. It does not
cover the engine's code: who changed that starts a new file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import capturegate
from capturegate.errors import InputError, Location
from capturegate.run.result import CaseResult

SCHEMA = 1


def fingerprint_of(request: Mapping[str, Any]) -> str:
    """The fingerprint of a case's request."""
    facts = [capturegate.__version__, request]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def read_results(path: Path) -> dict[str, CaseResult]:
    """The results in a file by fingerprint; the later of two wins.

    A last line without its end was torn by a kill, and is passed over. Results that the harness
    failed to get are left out, so that a resumed run tries them again.

    Raises:
        InputError: the file cannot be read, or is not one of results.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(f"the results cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines[:-1], start=1):
        try:
            data = json.loads(line)
            if data["schema"] != SCHEMA:
                raise ValueError(f"schema {data['schema']!r}")
            result = CaseResult.from_json(data["result"])
            fingerprint = str(data["fingerprint"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"the line is no result: {type(error).__name__}: {error}",
                where=Location(str(path), number),
                expected=f"a file that --results wrote, schema {SCHEMA}",
            ) from error
        if not result.harness_error:
            found[fingerprint] = result
    return found


class ResultWriter:
    """Appends results to a file."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("ab+")
        except OSError as error:
            raise InputError(f"the results cannot be written: {error}") from error
        self._cut_torn_line()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, fingerprint: str, result: CaseResult) -> None:
        """Write one result; what is written survives the death of this process."""
        data = {"schema": SCHEMA, "fingerprint": fingerprint, "result": result.to_json()}
        self._file.write(json.dumps(data).encode() + b"\n")
        self._file.flush()

    def _cut_torn_line(self) -> None:
        self._file.seek(0)
        end = self._file.read().rfind(b"\n") + 1
        self._file.truncate(end)
        self._file.seek(end)
