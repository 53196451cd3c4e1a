"""The recorded legality table: which calls a real device takes while a stream captures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalityRow:
    """One program: begin on a `cap` stream in `mode`, a kernel, `call`, end.

    `rel` says from which thread and on which stream the call was made. `err` is what it
    returned, `status` the capture's status after it, `end` what the end returned, `nodes` the
    graph's nodes, None without a graph.
    """

    cap: str
    mode: str
    rel: str
    call: str
    err: str
    status: str
    end: str
    nodes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalityTable:
    """All rows of one device, driver and CUDA version."""

    device: str
    driver: str
    cuda: str
    rows: tuple[LegalityRow, ...]


def load_legality(name: str = "legality-h200") -> LegalityTable:
    """The table that ships under this name."""
    text = files("capturegate_backends.truth").joinpath(f"{name}.json").read_text("utf-8")
    table = json.loads(text)
    return LegalityTable(
        device=table["device"],
        driver=table["driver"],
        cuda=table["cuda"],
        rows=tuple(LegalityRow(**row) for row in table["rows"]),
    )


def shipped_rows() -> tuple[LegalityRow, ...]:
    """Every row of the table that comes with the package."""
    return load_legality().rows
