"""What a body of programs covers, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from capturegate.programs import OPS, Observation

BIG_GRAPH_NODES = 3


def triples(program: list[list[Any]], seen: Observation) -> Iterator[str]:
    """For each call made: `call error before>after`.

    The states before and after are the kinds of capture that were open then: `A` active, `I`
    invalidated, `AI` both, nothing for none.
    """
    before = ""
    for call, one in zip(program, seen.calls, strict=True):
        if one.error == "absent":
            continue
        after = "".join(sorted({label[0] for label in one.captures.values()}))
        yield f"{call[0]} {one.error} {before}>{after}"
        before = after


def count(program: list[list[Any]], seen: Observation, totals: Counter[str]) -> None:
    """Add one program to the totals: `programs`, features, and `triple ...` for each triple."""
    totals["programs"] += 1
    totals["calls"] += len(program)
    closes = any(
        call[0] == "end" and one.value and one.value[0] >= BIG_GRAPH_NODES
        for call, one in zip(program, seen.calls, strict=True)
    )
    totals["closes a capture of 3 nodes or more"] += closes
    totals["2 threads or more"] += len({call[1] for call in program}) > 1
    streams = {
        value
        for call in program
        for kind, value in zip(OPS[call[0]].args, call[2:], strict=True)
        if "stream" in kind and kind != "streamkind"
    }
    totals["3 streams or more"] += len(streams) >= 3
    totals["bytes compared"] += seen.blocks is not None
    for triple in triples(program, seen):
        totals[f"triple {triple}"] += 1
