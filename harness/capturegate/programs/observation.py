"""What can be seen of a program: per call, and of memory at its end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from capturegate.backend.handles import GraphNode

ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call showed.

    Attributes:
        error: what it returned, or `absent` when it was not made.
        value: what came back with it, in a form that both sides share.
        last: the calling thread's last error after it.
        captures: per capturing stream `A<n>` (active) or `I` (invalidated), where streams of
            one capture share n, numbered by first appearance; other streams are left out.
    """

    error: str
    value: Any
    last: str
    captures: Mapping[str, str]

    def as_data(self) -> list[Any]:
        """Plain data for a recording."""
        return [self.error, self.value, self.last, dict(self.captures)]


@dataclass(frozen=True, slots=True)
class Observation:
    """What one program showed.

    Attributes:
        calls: one `Seen` for each call.
        blocks: bytes of each block at the end in hexadecimal; None when the program raced with
            itself inside a graph, so that no single answer is right.
        host: tags of the host functions that ran, sorted.
    """

    calls: tuple[Seen, ...]
    blocks: Mapping[str, str] | None
    host: tuple[int, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data for a recording."""
        return {
            "calls": [seen.as_data() for seen in self.calls],
            "blocks": None if self.blocks is None else dict(self.blocks),
            "host": list(self.host),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Observation:
        """Read what `as_data` wrote."""
        return cls(
            tuple(Seen(*seen) for seen in data["calls"]),
            data["blocks"],
            tuple(data["host"]),
        )


def first_difference(expected: Observation, actual: Observation) -> tuple[int, str] | None:
    """Where two observations of one program part: the call's index and the field.

    The index is -1 for memory and host functions at the end. None when they agree.
    """
    for index, (one, other) in enumerate(zip(expected.calls, actual.calls, strict=True)):
        for name in ("error", "captures", "value", "last"):
            if getattr(one, name) != getattr(other, name):
                return index, name
    if expected.host != actual.host:
        return -1, "host"
    if expected.blocks != actual.blocks:
        return -1, "blocks"
    return None


def graph_form(nodes: Iterable[GraphNode]) -> list[Any]:
    """A graph as data that does not depend on the order in which its nodes are listed.

    Nodes fall into classes by kind and by their neighbours' classes, refined until nothing
    changes; the form is `[count, [[kind, members] per class], [[from, to, edges] per pair]]`.
    The kind of a node that embeds a graph carries that graph's form.
    """
    listed = [replace(node, kind=_kind(node)) for node in nodes]
    after: dict[int, list[int]] = {node.id: [] for node in listed}
    for node in listed:
        for dependency in node.dependencies:
            after[dependency].append(node.id)
    colours: dict[int, Any] = {node.id: (node.kind,) for node in listed}
    classes: list[Any] = []
    for _ in range(len(listed) + 1):
        finer = {
            node.id: (
                node.kind,
                colours[node.id],
                tuple(sorted(colours[d] for d in node.dependencies)),
                tuple(sorted(colours[a] for a in after[node.id])),
            )
            for node in listed
        }
        order = sorted(set(finer.values()))
        stable = len(order) == len(classes)
        classes = order
        number = {colour: index for index, colour in enumerate(order)}
        colours = {ident: (number[colour],) for ident, colour in finer.items()}
        if stable:
            break
    members: dict[int, int] = {}
    kinds: dict[int, str] = {}
    edges: dict[tuple[int, int], int] = {}
    for node in listed:
        own = colours[node.id][0]
        members[own] = members.get(own, 0) + 1
        kinds[own] = node.kind
        for dependency in node.dependencies:
            pair = (colours[dependency][0], own)
            edges[pair] = edges.get(pair, 0) + 1
    return [
        len(listed),
        [[kinds[c], members[c]] for c in sorted(members)],
        [[a, b, n] for (a, b), n in sorted(edges.items())],
    ]


def _kind(node: GraphNode) -> str:
    if node.kind != "graph":
        return node.kind
    return f"graph {json.dumps(graph_form(node.inner), separators=(',', ':'))}"
