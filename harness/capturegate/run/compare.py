"""Comparing what an engine wrote with what its oracle wrote."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from capturegate.gates.base import Comparison
from capturegate.run.drive import Snapshot


def compare(subject: list[Snapshot], oracle: list[Snapshot]) -> list[Comparison]:
    """One comparison for each output that both have at the same step run."""
    wanted = {(snapshot.phase, snapshot.output.name): snapshot for snapshot in oracle}
    found = []
    for snapshot in subject:
        reference = wanted.get((snapshot.phase, snapshot.output.name))
        if reference is not None:
            found.append(_compare(snapshot, reference))
    return found


def _compare(snapshot: Snapshot, reference: Snapshot) -> Comparison:
    output = snapshot.output
    row_bytes = output.row_bytes
    mismatched = [
        row
        for row in range(output.rows)
        if snapshot.data[row * row_bytes : (row + 1) * row_bytes]
        != reference.data[row * row_bytes : (row + 1) * row_bytes]
    ]
    return Comparison(
        phase=snapshot.phase,
        output=output.name,
        rows=output.rows,
        mismatched_rows=tuple(mismatched),
        expected_digest=reference.digest,
        poisoned=snapshot.poisoned,
        degenerate=_degenerate(reference),
        first_difference=_first_difference(snapshot, reference) if mismatched else "",
        pad_spans=_pad_spans(snapshot),
    )


def _floats(data: bytes) -> Iterator[float]:
    return (value for (value,) in struct.iter_unpack("<f", data[: len(data) // 4 * 4]))


def _degenerate(reference: Snapshot) -> str:
    """Why these rows could not show a difference; outputs are float32."""
    if not any(reference.data):
        return "all zero"
    if any(value != value or abs(value) == float("inf") for value in _floats(reference.data)):
        return "not finite"
    return ""


def _first_difference(snapshot: Snapshot, reference: Snapshot) -> str:
    pairs = zip(snapshot.data, reference.data, strict=False)
    at = next((i for i, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
    if at is None:
        return f"{len(snapshot.data)} bytes against {len(reference.data)}"
    at -= at % 4
    row, column = divmod(at, snapshot.output.row_bytes)
    mine, theirs = (next(_floats(side.data[at : at + 4])) for side in (snapshot, reference))
    return f"first at row {row}, item {column // 4}: {mine!r}, the oracle has {theirs!r}"


def _pad_spans(snapshot: Snapshot) -> tuple[tuple[int, int, int], ...]:
    output = snapshot.output
    padding = output.rows_padded - output.rows
    if padding <= 0:
        return ()
    start = output.pointer.offset + output.rows * output.row_bytes
    return ((output.pointer.allocation, start, padding * output.row_bytes),)
