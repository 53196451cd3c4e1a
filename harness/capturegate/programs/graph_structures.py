"""Systematic call programs about graphs: updates, parameters, growth, memory nodes, lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from capturegate.programs.ops import MODES
from capturegate.programs.sweeps import Calls

SHAPES: dict[str, Calls] = {
    "empty": [],
    "add": [["launch", 0, "add", "d1", 2, "n1"]],
    "add-other-argument": [["launch", 0, "add", "d2", 9, "n1"]],
    "mix": [["launch", 0, "mix", "d1", 2, "n1"]],
    "move": [["launch", 0, "move", "d1", 2, "n1"]],
    "memset": [["memset_async", 0, "d1", 7, "n1"]],
    "memset-other": [["memset_async", 0, "d2", 8, "n1"]],
    "copy-pinned": [["memcpy_async", 0, "d1", "p1", "n1"]],
    "copy-pinned-other": [["memcpy_async", 0, "d1", "p2", "n1"]],
    "copy-pageable": [["memcpy_async", 0, "d1", "h1", "n1"]],
    "copy-device": [["memcpy_async", 0, "d1", "d2", "n1"]],
    "copy-down": [["memcpy_async", 0, "p1", "d1", "n1"]],
    "batch": [["memcpy_batch", 0, "d1", "p1", "n1"]],
    "host": [["host_func", 0, 2, "n1"]],
    "host-other": [["host_func", 0, 3, "n1"]],
    "record-external": [["record", 0, "e7", "n1", 1]],
    "wait-external": [["wait", 0, "n1", "e7", 1]],
    "allocate": [["malloc_async", 0, "m5", 4096, "n1"]],
    "allocate-and-free": [
        ["malloc_async", 0, "m5", 4096, "n1"],
        ["free_async", 0, "m5", "n1"],
    ],
    "chain": [["launch", 0, "add", "d1", 2, "n1"], ["launch", 0, "mix", "d1", 2, "n1"]],
    "chain-swapped": [["launch", 0, "mix", "d1", 2, "n1"], ["launch", 0, "add", "d1", 2, "n1"]],
    "fork": [
        ["record", 0, "e1", "n1", 0],
        ["wait", 0, "n2", "e1", 0],
        ["launch", 0, "add", "d1", 2, "n1"],
        ["launch", 0, "mix", "d2", 2, "n2"],
        ["record", 0, "e2", "n2", 0],
        ["wait", 0, "n1", "e2", 0],
    ],
}


def captured_shape(name: str, graph: str) -> Calls:
    """Capture one of the shapes into a graph of that name."""
    return [["begin", 0, "n1", "relaxed"], *SHAPES[name], ["end", 0, "n1", graph]]


def updates() -> Iterator[tuple[str, Calls]]:
    """Every shape updated from every other."""
    for one, other in product(SHAPES, SHAPES):
        calls = [
            *captured_shape(one, "g1"),
            ["instantiate", 0, "g1", "x1"],
            *captured_shape(other, "g2"),
            ["update", 0, "x1", "g2"],
            ["get_last_error", 0],
            ["graph_launch", 0, "x1", "n2"],
            ["graph_launch", 0, "x1", "n2"],
        ]
        yield f"update/{one}/{other}", calls


def parameters() -> Iterator[tuple[str, Calls]]:
    """New parameters for kernel nodes, also while a launch may be in flight."""
    for shape in ("add", "mix", "move", "memset", "chain", "fork"):
        for kernel, block, index in product(("add", "mix", "move"), ("d1", "d3"), (0, 1)):
            head: Calls = [*captured_shape(shape, "g1"), ["instantiate", 0, "g1", "x1"]]
            tail: Calls = [
                ["set_params", 0, "x1", "g1", index, kernel, block, 6],
                ["graph_launch", 0, "x1", "n2"],
                ["instantiate", 0, "g1", "x2"],
                ["graph_launch", 0, "x2", "n2"],
            ]
            name = f"parameters/{shape}/{kernel}/{block}/{index}"
            yield name, [*head, *tail]
            yield f"{name}/in-flight", [*head, ["graph_launch", 0, "x1", "n2"], *tail]


def growing_graphs() -> Iterator[tuple[str, Calls]]:
    """Captures that add to a graph."""
    for shape, which, mode in product(SHAPES, ("none", "leaves"), MODES):
        for stream in ("n1", "b1"):
            begin: list[object] = ["begin_to_graph", 0, stream, "g1", which, mode]
            work: list[object] = ["launch", 0, "add", "d3", 5, stream]
            head = captured_shape(shape, "g1")
            name = f"grow/{shape}/{which}/{mode}/{stream}"
            again: Calls = [["instantiate", 0, "g1", "x1"], ["graph_launch", 0, "x1", "n2"]]
            end: list[object] = ["end", 0, stream, "g2"]
            yield name, [*head, begin, work, end, ["nodes", 0, "g1"], *again]
            if shape in ("empty", "add", "fork"):
                yield (
                    f"{name}/poisoned",
                    [*head, begin, work, ["device_sync", 0], end, ["nodes", 0, "g1"], *again],
                )
                yield f"{name}/nothing", [*head, begin, end, ["nodes", 0, "g1"], *again]
                yield f"{name}/twice", [
                    *head, begin, ["begin_to_graph", 0, "n2", "g1", which, mode], work, end,
                    ["end", 0, "n2", "g3"], ["nodes", 0, "g1"], *again,
                ]  # fmt: skip
                yield f"{name}/unjoined", [
                    *head, begin, work, ["record", 0, "e1", stream, 0], ["wait", 0, "n2", "e1", 0],
                    ["launch", 0, "add", "d4", 1, "n2"], end, ["nodes", 0, "g1"], *again,
                ]  # fmt: skip
                yield f"{name}/inside", [
                    *head, begin, work, ["nodes", 0, "g1"], ["instantiate", 0, "g1", "x7"], end,
                    ["nodes", 0, "g1"], *again,
                ]  # fmt: skip


def memory_nodes() -> Iterator[tuple[str, Calls]]:
    """Graphs that allocate and free."""
    allocate: list[object] = ["malloc_async", 0, "m1", 4096, "n1"]
    tails: dict[str, Calls] = {
        "launch": [["graph_launch", 0, "x5", "n1"]],
        "launch-twice": [["graph_launch", 0, "x5", "n1"], ["graph_launch", 0, "x5", "n1"]],
        "launch-free-launch": [
            ["graph_launch", 0, "x5", "n1"],
            ["free_async", 0, "m1", "n1"],
            ["graph_launch", 0, "x5", "n1"],
        ],
        "launch-sync-free": [["graph_launch", 0, "x5", "n1"], ["free", 0, "m1"]],
        "free-unlaunched": [["free_async", 0, "m1", "n1"]],
        "sync-free-unlaunched": [["free", 0, "m1"]],
        "instantiate-again": [["instantiate", 0, "g5", "x6"]],
        "instantiate-destroy-instantiate": [
            ["exec_destroy", 0, "x5"],
            ["instantiate", 0, "g5", "x6"],
            ["graph_launch", 0, "x6", "n1"],
        ],
        "destroy-graph": [["graph_destroy", 0, "g5"], ["graph_launch", 0, "x5", "n1"]],
        "free-in-other": [
            ["graph_launch", 0, "x5", "n1"],
            ["begin", 0, "n2", "relaxed"],
            ["free_async", 0, "m1", "n2"],
            ["end", 0, "n2", "g6"],
            ["instantiate", 0, "g6", "x6"],
            ["graph_launch", 0, "x6", "n1"],
        ],
        "trim": [["graph_launch", 0, "x5", "n1"], ["pool_trim", 0, 0]],
    }
    for mode, freed, (name, tail) in product(MODES, (False, True), tails.items()):
        free: Calls = [["free_async", 0, "m1", "n1"]] if freed else []
        calls: Calls = [
            ["begin", 0, "n1", mode],
            ["launch", 0, "add", "d1", 1, "n1"],
            allocate,
            *free,
            ["end", 0, "n1", "g5"],
            ["instantiate", 0, "g5", "x5"],
            *tail,
            ["get_last_error", 0],
        ]
        yield f"memory/{mode}/{'freed' if freed else 'kept'}/{name}", calls


def lifetimes() -> Iterator[tuple[str, Calls]]:
    """Things destroyed and rewritten between and after launches."""
    launch: list[object] = ["graph_launch", 0, "x1", "n2"]
    tails: dict[str, Calls] = {
        "destroy-graph-first": [["graph_destroy", 0, "g1"], launch],
        "destroy-exec-in-flight": [launch, ["exec_destroy", 0, "x1"]],
        "destroy-graph-in-flight": [launch, ["graph_destroy", 0, "g1"], launch],
        "two-executables": [
            ["instantiate", 0, "g1", "x2"],
            launch,
            ["graph_launch", 0, "x2", "b1"],
        ],
        "pinned-rewritten": [launch, ["host_write", 0, "p1", 5], launch],
        "pageable-rewritten": [launch, ["host_write", 0, "h1", 6], launch],
        "upload": [["upload", 0, "x1", "n2"], launch],
        "upload-legacy": [["upload", 0, "x1", "legacy"], ["graph_launch", 0, "x1", "legacy"]],
        "own": [["graph_launch", 0, "x1", "own"], ["graph_launch", 1, "x1", "own"]],
        "update-after-graph-destroyed": [
            ["graph_destroy", 0, "g1"],
            *captured_shape("add", "g2"),
            ["update", 0, "x1", "g2"],
            launch,
        ],
        "set-params-foreign": [
            *captured_shape("mix", "g2"),
            ["set_params", 0, "x1", "g2", 0, "add", "d3", 1],
            launch,
        ],
        "event-destroyed": [["event_destroy", 0, "e7"], launch],
    }
    for shape, (name, tail) in product(SHAPES, tails.items()):
        if name == "event-destroyed" and shape in ("record-external", "wait-external"):
            continue  # a graph that names a destroyed event is not defined
        head: Calls = [*captured_shape(shape, "g1"), ["instantiate", 0, "g1", "x1"]]
        yield f"lifetime/{shape}/{name}", [*head, *tail]
