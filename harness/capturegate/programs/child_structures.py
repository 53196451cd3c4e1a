"""Systematic call programs about child graphs: one graph embedded in another as one node."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from capturegate.programs.graph_structures import SHAPES, captured_shape
from capturegate.programs.ops import MODES
from capturegate.programs.sweeps import Calls

_WHICH = ("none", "leaves")
_UPDATED = (
    "empty", "add", "add-other-argument", "mix", "memset", "copy-pinned", "copy-pageable",
    "copy-device", "copy-down", "host", "record-external", "wait-external", "chain",
    "chain-swapped", "fork",
)  # fmt: skip
_TWICE: Calls = [["graph_launch", 0, "x1", "n2"], ["graph_launch", 0, "x1", "n2"]]
_RUN: Calls = [["nodes", 0, "g2"], ["instantiate", 0, "g2", "x1"], *_TWICE]
_PARENTS: dict[str, Calls] = {
    "made": [["graph_create", 0, "g2"]],
    "add": captured_shape("add", "g2"),
    "fork": captured_shape("fork", "g2"),
}


_AFTER: dict[str, Calls] = {
    "destroyed": [["graph_destroy", 0, "g1"], *_RUN],
    "destroyed-between": [_RUN[0], _RUN[1], ["graph_destroy", 0, "g1"], *_TWICE],
    "both-destroyed": [
        _RUN[1],
        ["graph_destroy", 0, "g2"],
        ["graph_destroy", 0, "g1"],
        *_TWICE,
    ],
    "grown": [
        ["begin_to_graph", 0, "n1", "g1", "leaves", "relaxed"],
        ["launch", 0, "mix", "d1", 6, "n1"],
        ["end", 0, "n1", "g4"],
        ["nodes", 0, "g1"],
        *_RUN,
    ],
    "grown-by-child": [
        *captured_shape("memset", "g5"),
        ["add_child", 0, "g1", "g5", "leaves"],
        ["nodes", 0, "g1"],
        *_RUN,
    ],
    "parent-grown": [
        ["begin_to_graph", 0, "n1", "g2", "leaves", "relaxed"],
        ["launch", 0, "mix", "d1", 6, "n1"],
        ["end", 0, "n1", "g4"],
        *_RUN,
    ],
    "parent-grown-beside": [
        ["begin_to_graph", 0, "n1", "g2", "none", "relaxed"],
        ["launch", 0, "add", "d3", 6, "n1"],
        ["end", 0, "n1", "g4"],
        *_RUN,
    ],
    "child-launched-too": [
        ["instantiate", 0, "g1", "x3"],
        ["graph_launch", 0, "x3", "n1"],
        *_RUN,
    ],
    "host-rewritten": [
        _RUN[1],
        _TWICE[0],
        ["host_write", 0, "p1", 5],
        ["host_write", 0, "h1", 6],
        _TWICE[0],
    ],
    "set-params-of-child": [_RUN[1], ["set_params", 0, "x1", "g1", 0, "add", "d3", 6], *_TWICE],
    "set-params-of-parent": [
        _RUN[1],
        ["set_params", 0, "x1", "g2", 0, "add", "d3", 6],
        *_TWICE,
    ],
    "update-from-child": [_RUN[1], ["update", 0, "x1", "g1"], *_TWICE],
    "added-again-then-update": [
        _RUN[1],
        ["add_child", 0, "g2", "g1", "leaves"],
        ["update", 0, "x1", "g2"],
        *_TWICE,
        ["nodes", 0, "g2"],
    ],
    "upload": [_RUN[1], ["upload", 0, "x1", "n2"], *_TWICE],
    "two-executables": [*_RUN, ["instantiate", 0, "g2", "x2"], ["graph_launch", 0, "x2", "b1"]],
}


def _embedding(child: str, parent: str = "made", which: str = "none") -> Calls:
    return [*captured_shape(child, "g1"), *_PARENTS[parent], ["add_child", 0, "g2", "g1", which]]


def child_graphs() -> Iterator[tuple[str, Calls]]:
    """All programs about child graphs, named."""
    for child, parent, which in product(SHAPES, _PARENTS, _WHICH):
        yield f"child/{child}/{parent}/{which}", [*_embedding(child, parent, which), *_RUN]
    yield from _copies()
    yield from _several()
    yield from _updates()
    yield from _beside_captures()


def _copies() -> Iterator[tuple[str, Calls]]:
    """What becomes of the embedding graph when the embedded one changes afterwards."""
    kinds = ("empty", "add", "copy-pinned", "copy-pageable", "host", "chain", "fork", "allocate")
    for child, (name, tail) in product(kinds, _AFTER.items()):
        for parent in ("made", "add"):
            yield (
                f"child-copied/{child}/{parent}/{name}",
                [
                    *_embedding(child, parent, "leaves"),
                    *tail,
                ],
            )


def _several() -> Iterator[tuple[str, Calls]]:
    """Several in one, one in another in a third."""
    for child, which in product(("empty", "add", "chain", "fork", "host", "allocate"), _WHICH):
        name = f"{child}/{which}"
        add: list[object] = ["add_child", 0, "g2", "g1", which]
        yield f"child-several/{name}/twice", [*_embedding(child, "made", which), add, *_RUN]
        yield (
            f"child-several/{name}/two",
            [
                *_embedding(child, "add", which),
                *captured_shape("memset", "g3"),
                ["add_child", 0, "g2", "g3", "leaves"],
                *_RUN,
            ],
        )
        nested: Calls = [
            *captured_shape(child, "g3"),
            *captured_shape("mix", "g1"),
            ["add_child", 0, "g1", "g3", which],
            ["graph_create", 0, "g2"],
            ["add_child", 0, "g2", "g1", "none"],
        ]
        yield f"child-several/{name}/nested", [*nested, *_RUN]
        yield (
            f"child-several/{name}/nested-destroyed",
            [
                *nested,
                ["graph_destroy", 0, "g3"],
                ["graph_destroy", 0, "g1"],
                *_RUN,
            ],
        )
        yield (
            f"child-several/{name}/other-thread",
            [
                *captured_shape(child, "g1"),
                ["graph_create", 1, "g2"],
                ["add_child", 1, "g2", "g1", which],
                *_RUN,
                ["get_last_error", 1],
            ],
        )


def _updates() -> Iterator[tuple[str, Calls]]:
    """An executable with a child graph updated from a graph with another child graph."""
    tail: Calls = [["update", 0, "x1", "g4"], ["get_last_error", 0], *_TWICE]
    for one, other in product(_UPDATED, _UPDATED):
        yield (
            f"child-update/{one}/{other}",
            [
                *_embedding(one),
                ["instantiate", 0, "g2", "x1"],
                *captured_shape(other, "g3"),
                ["graph_create", 0, "g4"],
                ["add_child", 0, "g4", "g3", "none"],
                *tail,
            ],
        )
    for one in _UPDATED:
        head = [*_embedding(one), ["instantiate", 0, "g2", "x1"]]
        yield f"child-update/{one}/plain", [*head, *captured_shape("add", "g4"), *tail]
        plain: Calls = [*captured_shape("add", "g2"), ["instantiate", 0, "g2", "x1"]]
        into: Calls = [["graph_create", 0, "g4"], ["add_child", 0, "g4", "g1", "none"]]
        yield f"child-update/plain/{one}", [*plain, *captured_shape(one, "g1"), *into, *tail]
    yield from _deciding(tail)


def _deciding(tail: Calls) -> Iterator[tuple[str, Calls]]:
    """Which of several pairs decides: what differs inside, beside and after."""
    for one, other, first, last in product(
        ("add", "memset", "copy-device"), ("mix", "copy-pinned", "chain"), *(("add", "host"),) * 2
    ):
        yield (
            f"child-update/beside/{one}/{other}/{first}/{last}",
            [
                *captured_shape(first, "g2"),
                *captured_shape(one, "g1"),
                ["add_child", 0, "g2", "g1", "leaves"],
                ["instantiate", 0, "g2", "x1"],
                *captured_shape(last, "g4"),
                *captured_shape(other, "g3"),
                ["add_child", 0, "g4", "g3", "leaves"],
                *tail,
            ],
        )
        yield (
            f"child-update/before/{one}/{other}/{first}/{last}",
            [
                *_embedding(one),
                ["begin_to_graph", 0, "n1", "g2", "leaves", "relaxed"],
                *SHAPES[first],
                ["end", 0, "n1", "g5"],
                ["instantiate", 0, "g2", "x1"],
                *captured_shape(other, "g3"),
                ["graph_create", 0, "g4"],
                ["add_child", 0, "g4", "g3", "none"],
                ["begin_to_graph", 0, "n1", "g4", "leaves", "relaxed"],
                *SHAPES[last],
                ["end", 0, "n1", "g6"],
                *tail,
            ],
        )


def _beside_captures() -> Iterator[tuple[str, Calls]]:
    """A child graph added to the graph that a capture adds to, and one of a graph in progress."""
    work: list[object] = ["launch", 0, "add", "d3", 5, "n1"]
    for mode, which, begun, poisoned in product(MODES, _WHICH, _WHICH, (False, True)):
        broken: Calls = [["device_sync", 0]] if poisoned else []
        name = f"{mode}/{which}/{begun}/{'poisoned' if poisoned else 'sound'}"
        begin: list[object] = ["begin_to_graph", 0, "n1", "g2", begun, mode]
        end: list[object] = ["end", 0, "n1", "g5"]
        head: Calls = [*captured_shape("mix", "g1"), *captured_shape("add", "g2"), begin]
        for when, thread in product(("first", "middle", "last"), (0, 1)):
            add: list[object] = ["add_child", thread, "g2", "g1", which]
            middle = {
                "first": [*broken, add, work],
                "middle": [work, *broken, add, work],
                "last": [work, *broken, add],
            }[when]
            yield f"child-capture/{name}/{when}/{thread}", [*head, *middle, end, *_RUN]
        yield (
            f"child-of-capture/{name}",
            [
                *head,
                work,
                *broken,
                ["graph_create", 0, "g3"],
                ["add_child", 0, "g3", "g2", which],
                ["nodes", 0, "g3"],
                end,
                *_RUN,
                ["nodes", 0, "g3"],
                ["instantiate", 0, "g3", "x3"],
                ["graph_launch", 0, "x3", "n2"],
            ],
        )
