"""Graphs as they were recorded, and executables made from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from capturegate.backend import Graph, GraphExec, GraphNode, Space, Span
from capturegate_backends.fake.kernels import KernelCall
from capturegate_backends.fake.memory import Memory, Region
from capturegate_backends.fake.operations import Allocate, Copy, EventMark, Operation, Release

if TYPE_CHECKING:
    import random

    from capturegate_backends.fake.operations import World
    from capturegate_backends.fake.scheduler import Work
    from capturegate_backends.fake.state import EventState

_HOST = (Space.PINNED, Space.PAGEABLE)
UPDATED = "cudaGraphExecUpdateSuccess"
TOPOLOGY_CHANGED = "cudaGraphExecUpdateErrorTopologyChanged"
NODE_TYPE_CHANGED = "cudaGraphExecUpdateErrorNodeTypeChanged"
PARAMETERS_CHANGED = "cudaGraphExecUpdateErrorParametersChanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node: what it does, after which nodes, and what stood at its addresses when baked."""

    id: int
    kind: str
    operation: Operation
    dependencies: tuple[int, ...]
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]

    @property
    def shown(self) -> GraphNode:
        """The node as the interface shows it."""
        return GraphNode(
            id=self.id,
            kind=self.kind,
            name=self.operation.name,
            dependencies=self.dependencies,
            reads=self.reads,
            writes=self.writes,
            inner=tuple(node.shown for node in self.inner),
        )

    @property
    def inner(self) -> tuple[Node, ...]:
        """The nodes of the graph that this one embeds."""
        return self.operation.nodes if isinstance(self.operation, Program) else ()


@dataclass(slots=True, eq=False)
class GraphState:
    """A graph; nodes stand in the order in which they were added, which is topological."""

    handle: Graph
    nodes: dict[int, Node] = field(default_factory=dict)

    def ancestors(self, nodes: Iterable[int]) -> set[int]:
        """These nodes and everything that they depend on."""
        found: set[int] = set()
        left = list(nodes)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left.extend(self.nodes[node].dependencies)
        return found

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of node ids, from and to."""
        return tuple(
            (before, node.id) for node in self.nodes.values() for before in node.dependencies
        )

    def forgo_memory(self, memory: Memory) -> None:
        """Drop the reservations of what the nodes would have allocated."""
        for node in self.nodes.values():
            if isinstance(node.operation, Allocate):
                memory.forgo(node.operation.address)

    @property
    def owns_memory(self) -> bool:
        """Whether some node makes or frees an allocation."""
        return any(isinstance(n.operation, Allocate | Release) for n in self.nodes.values())


class Program:
    """What an executable does: operations in order, baked, nothing of the engine.

    It is an operation itself: a launch puts it into a stream. It never changes; an update of the
    executable makes another one, and launches that were made keep theirs. A child graph is one too:
    the node's operation is the program that the child was when it was added.

    Attributes:
        nodes: what it consists of.
        records: events that a launch records.
        waits: events that a launch waits for.
    """

    def __init__(self, nodes: tuple[Node, ...], draws: random.Random) -> None:
        self.kind = "graph"
        self.name = ""
        self._draws = draws
        self.nodes = nodes
        operations = [node.operation for node in nodes]
        self.reads: tuple[Region, ...] = tuple(r for op in operations for r in op.reads)
        self.writes: tuple[Region, ...] = tuple(r for op in operations for r in op.writes)
        self.allocates = [op for op in operations if isinstance(op, Allocate)]
        self.owns_memory = any(isinstance(op, Allocate | Release) for op in operations)
        made = {op.address for op in self.allocates}
        self.frees = [
            op.address for op in operations if isinstance(op, Release) and op.address not in made
        ]
        marks = [op for op in operations if isinstance(op, EventMark)]
        children = [op for op in operations if isinstance(op, Program)]
        self.records: list[EventState] = [
            *(mark.event for mark in marks if mark.kind == "event_record"),
            *(event for child in children for event in child.records),
        ]
        self.waits: list[EventState] = [
            *(mark.event for mark in marks if mark.kind == "wait_event"),
            *(event for child in children for event in child.waits),
        ]
        self._line = all(node.dependencies == (before.id,) for before, node in pairwise(nodes))
        self._spans_version = -1
        self._spans: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())

    def spans(self, memory: Memory) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """What a launch now reads and writes."""
        if self._spans_version != memory.version:
            self._spans = (memory.spans(self.reads), memory.spans(self.writes))
            self._spans_version = memory.version
        return self._spans

    def run(self, world: World) -> None:
        """Execute exactly what was baked, in a legal order."""
        for node in self.nodes if self._line else self._drawn_order():
            node.operation.run(world)

    def has_kernel(self, node_id: int) -> bool:
        """Whether this is one of its kernel nodes."""
        return any(n.id == node_id and isinstance(n.operation, KernelCall) for n in self.nodes)

    def with_kernel(self, node_id: int, call: KernelCall) -> Program:
        """The same with another call baked into one kernel node."""
        nodes = tuple(replace(n, operation=call) if n.id == node_id else n for n in self.nodes)
        return Program(nodes, self._draws)

    def updated(self, graph: GraphState) -> Program:
        """The same with the parameters of a graph that `compare` accepts."""
        pairs = zip(self.nodes, graph.nodes.values(), strict=True)
        nodes = tuple(replace(mine, operation=theirs.operation) for mine, theirs in pairs)
        return Program(nodes, self._draws)

    def compare(self, graph: GraphState) -> str:
        """Whether an update from this graph is possible; CUDA's name of the result."""
        return _compare(self.nodes, tuple(graph.nodes.values()))

    def _drawn_order(self) -> Iterable[Node]:
        left = {node.id: set(node.dependencies) for node in self.nodes}
        waiting = list(self.nodes)
        while waiting:
            node = self._draws.choice([n for n in waiting if not left[n.id] & left.keys()])
            waiting.remove(node)
            del left[node.id]
            yield node


@dataclass(slots=True, eq=False)
class ExecState:
    """An executable under its handle; launches of it are ordered."""

    handle: GraphExec
    graph: GraphState
    program: Program
    last_launch: Work | None = None


def memory_in_use(
    graph: GraphState, executables: Iterable[ExecState], besides: ExecState | None = None
) -> bool:
    """Whether the memory of a graph's nodes belongs to some other executable of it."""
    return graph.owns_memory and any(
        e.graph is graph and e is not besides and e.program.owns_memory for e in executables
    )


def _compare(former: tuple[Node, ...], latter: tuple[Node, ...]) -> str:
    """CUDA's name of what comes of an update of nodes from others, also inside child graphs."""
    if len(latter) != len(former) or _shape(latter) != _shape(former):
        return TOPOLOGY_CHANGED
    # The driver names what is wrong with the last of several pairs.
    for mine, theirs in reversed(list(zip(former, latter, strict=True))):
        if mine.kind != theirs.kind:
            return NODE_TYPE_CHANGED
        if _route(mine.operation) != _route(theirs.operation):
            return PARAMETERS_CHANGED
        found = _compare(mine.inner, theirs.inner)
        if found != UPDATED:
            return found
    return UPDATED


def _shape(nodes: tuple[Node, ...]) -> list[tuple[int, ...]]:
    """The dependencies as positions."""
    at = {node.id: position for position, node in enumerate(nodes)}
    return [tuple(sorted(at[before] for before in node.dependencies)) for node in nodes]


def _route(operation: Operation) -> object:
    """The kinds of memory that a copy goes between: on the host, pinned or not is one."""
    if not isinstance(operation, Copy):
        return None
    return tuple("host" if space in _HOST else space for space in operation.route)
