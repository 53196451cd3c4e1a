"""Comparing what an engine wrote with what its oracle wrote."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

from capturegate.gates.base import Comparison
from capturegate.run.drive import Snapshot
from capturegate.status import Span

_FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
_INTEGERS = {"uint8": "B", "int32": "i", "int64": "q"}


def compare(
    subject: Iterable[Snapshot], oracle: Iterable[Snapshot], phases: Iterable[str]
) -> list[Comparison]:
    """Every output that either side has in these step runs, in the order of the runs."""
    mine = {(snapshot.phase, snapshot.output.name): snapshot for snapshot in subject}
    theirs = {(snapshot.phase, snapshot.output.name): snapshot for snapshot in oracle}
    order = {phase: number for number, phase in enumerate(phases)}
    keys = sorted(
        (key for key in mine.keys() | theirs.keys() if key[0] in order),
        key=lambda key: (order[key[0]], key[1]),
    )
    return [_compare(*key, mine.get(key), theirs.get(key)) for key in keys]


def _compare(
    phase: str, name: str, snapshot: Snapshot | None, reference: Snapshot | None
) -> Comparison:
    output = snapshot.output if snapshot else None
    return Comparison(
        phase=phase,
        output=name,
        rows=output.rows if output else 0,
        span=snapshot.span if snapshot else (0, 0, 0),
        difference=_difference(snapshot, reference) if reference else "",
        expected_digest=reference.digest if reference else "",
        poisoned=snapshot is not None and snapshot.poisoned,
        unmatched=reference is None,
        degenerate=_degenerate(reference) if reference else "",
        pad_span=_pad_span(snapshot) if snapshot else (0, 0, 0),
    )


def _difference(snapshot: Snapshot | None, reference: Snapshot) -> str:
    """The first difference in words; empty when there is none."""
    if snapshot is None:
        return "is missing, the oracle has it"
    mine, theirs = snapshot.output, reference.output
    for what in ("rows", "row_bytes", "dtype"):
        if getattr(mine, what) != getattr(theirs, what):
            return f"has {what} {getattr(mine, what)}, the oracle's has {getattr(theirs, what)}"
    if snapshot.data == reference.data:
        return ""
    rows = [row for row in range(mine.rows) if snapshot.row(row) != reference.row(row)]
    at = next(
        i for i, (a, b) in enumerate(zip(snapshot.data, reference.data, strict=True)) if a != b
    )
    row, column = divmod(at, mine.row_bytes)
    return (
        f"differs from the oracle in {len(rows)} of {mine.rows} row(s), first at row {row}, "
        f"byte {column}: {_told(snapshot, at)}, the oracle has {_told(reference, at)}"
    )


def _told(snapshot: Snapshot, at: int) -> str:
    """The item that a byte belongs to, as its type says."""
    code = (_FLOATS | _INTEGERS).get(snapshot.output.dtype)
    if code is None:
        return f"0x{snapshot.data[at]:02x}"
    size = struct.calcsize(code)
    at -= at % size
    return repr(struct.unpack_from(f"<{code}", snapshot.data, at)[0])


def _degenerate(reference: Snapshot) -> str:
    """Why these rows could not show a difference."""
    if not any(reference.data):
        return "all zero"
    code = _FLOATS.get(reference.output.dtype)
    if code is not None:
        usable = len(reference.data) // struct.calcsize(code) * struct.calcsize(code)
        values = struct.iter_unpack(f"<{code}", reference.data[:usable])
        if not all(math.isfinite(value) for (value,) in values):
            return "not finite"
    return ""


def _pad_span(snapshot: Snapshot) -> Span:
    output = snapshot.output
    padding = max(output.rows_padded - output.rows, 0)
    start = output.pointer.offset + output.rows * output.row_bytes
    return output.pointer.allocation, start, padding * output.row_bytes
