"""What CUDA does not define about graphs: an answer here would be a guess, so it is an error.

No recording can show these, since a driver may crash on them.
"""

from __future__ import annotations

from collections.abc import Iterable

from capturegate.errors import CapturegateError
from capturegate_backends.fake.graphs import ExecState, GraphState, memory_in_use
from capturegate_backends.fake.state import Capture


class UndefinedCall(CapturegateError):
    """A call whose outcome CUDA does not define: a defect in the engine."""

    def __init__(self, done: str, instead: str) -> None:
        self.done = done
        self.instead = instead
        super().__init__(
            f"{done}: CUDA does not define what comes of it, and a driver may crash; {instead}"
        )


def check_capture_into(
    graph: GraphState, captures: Iterable[Capture], executables: Iterable[ExecState]
) -> None:
    """Let a capture begin only into a graph that is nobody else's at present.

    Raises:
        UndefinedCall: another capture adds to it, or an executable holds its memory nodes.
    """
    _check_alone("a capture began into", graph, captures, "end that capture before the next begins")
    _check_growth("a capture began into", graph, executables)


def check_embedding(graph: GraphState, child: GraphState, executables: Iterable[ExecState]) -> None:
    """Let a graph embed another one only where that may add a node to it.

    Raises:
        UndefinedCall: they are one graph, or an executable holds the memory nodes of the outer.
    """
    if graph is child:
        raise UndefinedCall(
            f"graph {graph.handle.id} was embedded in itself",
            "capture the work again into a graph of its own and embed that one",
        )
    _check_growth("a child graph was added to", graph, executables)


def check_destroy(graph: GraphState, captures: Iterable[Capture]) -> None:
    """Let a graph go only when no capture adds to it.

    Raises:
        UndefinedCall: one does.
    """
    _check_alone("somebody destroyed", graph, captures, "end that capture, then destroy the graph")


def _check_alone(done: str, graph: GraphState, captures: Iterable[Capture], instead: str) -> None:
    for capture in captures:
        if capture.graph is graph:
            raise UndefinedCall(
                f"{done} graph {graph.handle.id} while capture {capture.id} adds to it", instead
            )


def _check_growth(done: str, graph: GraphState, executables: Iterable[ExecState]) -> None:
    if memory_in_use(graph, executables):
        raise UndefinedCall(
            f"{done} graph {graph.handle.id}, whose memory nodes an executable holds",
            "destroy the executable first, or build another graph",
        )
