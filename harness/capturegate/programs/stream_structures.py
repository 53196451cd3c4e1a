"""Systematic call programs about streams that are destroyed while they capture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from capturegate.programs.ops import MODES, STREAM_KINDS
from capturegate.programs.sweeps import Calls

_RUN: Calls = [["instantiate", 0, "g5", "x5"], ["graph_launch", 0, "x5", "n2"]]
_AFTER: dict[str, Calls] = {
    "nothing": [],
    "malloc": [["malloc", 0, "m1", 4096]],
    "malloc-thread": [["malloc", 1, "m1", 4096]],
    "device-sync": [["device_sync", 0]],
    "query-event": [["event_query", 0, "e1"]],
    "wait-event": [["wait", 0, "b2", "e1", 0], ["launch", 0, "add", "d3", 1, "b2"]],
    "legacy": [["launch", 0, "add", "d3", 1, "legacy"]],
    "record-again": [["record", 0, "e1", "b2", 0], ["event_sync", 0, "e1"]],
    "free-node": [["free_async", 0, "m5", "n1"], ["free", 0, "m5"]],
    "begin": [["begin", 0, "b2", "relaxed"], ["wait", 0, "b2", "e1", 0], ["end", 0, "b2", "g4"]],
    "create": [["stream_create", 0, "t1", "blocking"], ["launch", 0, "add", "d3", 1, "t1"]],
}


def destroyed_streams() -> Iterator[tuple[str, Calls]]:
    """All of them, named."""
    for kind, mode, thread in product(STREAM_KINDS, MODES, (0, 1)):
        destroy: list[object] = ["stream_destroy", thread, "t1"]
        for name, after in _AFTER.items():
            where = f"{kind}/{mode}/{thread}"
            yield (
                f"destroyed-origin/{where}/{name}",
                [
                    ["stream_create", 0, "t1", kind],
                    ["begin", 0, "t1", mode],
                    ["launch", 0, "add", "d1", 1, "t1"],
                    ["malloc_async", 0, "m5", 4096, "t1"],
                    ["record", 0, "e1", "t1", 0],
                    ["wait", 0, "n1", "e1", 0],
                    ["launch", 0, "mix", "d2", 1, "n1"],
                    destroy,
                    *after,
                    ["launch", 0, "add", "d2", 3, "n1"],
                    ["end", 0, "n1", "g5"],
                    *_RUN,
                ],
            )
            forked: Calls = [
                ["stream_create", 0, "t1", kind],
                ["begin", 0, "n1", mode],
                ["malloc_async", 0, "m5", 4096, "n1"],
                ["launch", 0, "add", "d1", 1, "n1"],
                ["record", 0, "e1", "n1", 0],
                ["wait", 0, "t1", "e1", 0],
            ]
            work: list[object] = ["launch", 0, "mix", "d2", 1, "t1"]
            join: Calls = [["record", 0, "e2", "t1", 0], ["wait", 0, "n1", "e2", 0]]
            ways: dict[str, Calls] = {
                "idle": [destroy],
                "joined": [work, *join, destroy],
                "joined-later": [work, join[0], destroy, join[1]],
                "unjoined": [work, destroy],
                "poisoned": [work, *join, ["stream_sync", 0, "n1"], destroy],
            }
            for way, middle in ways.items():
                yield (
                    f"destroyed-fork/{where}/{way}/{name}",
                    [
                        *forked,
                        *middle,
                        *after,
                        ["launch", 0, "mix", "d1", 3, "n1"],
                        ["end", 0, "n1", "g5"],
                        *_RUN,
                    ],
                )
