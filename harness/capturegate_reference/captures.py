"""Captures: what they leave behind, and how one that failed is ended."""

from __future__ import annotations

from dataclasses import dataclass

from capturegate.backend import Backend, CaptureStatus, Graph, GraphExec, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedGraph:
    """A graph and its executable."""

    graph: Graph
    executable: GraphExec


def instantiate(backend: Backend, graph: Graph) -> CapturedGraph:
    """Make a graph's executable.

    Raises:
        CudaError: it was refused; the graph is gone.
    """
    try:
        return CapturedGraph(graph=graph, executable=backend.graph_instantiate(graph))
    except BaseException:
        backend.graph_destroy(graph)
        raise


def destroy(backend: Backend, captured: CapturedGraph) -> None:
    """Drop an executable and its graph."""
    backend.graph_exec_destroy(captured.executable)
    backend.graph_destroy(captured.graph)


def abandon(backend: Backend, stream: Stream) -> None:
    """End a capture that failed, if it is still open, so that its stream is idle.

    What the end says is no news. The graph goes with it, also one that had pieces before: by our
    hand when the end hands it out, and by the runtime's when the capture was lost.
    """
    if backend.raw.stream_is_capturing(stream).value is CaptureStatus.NONE:
        return
    ended = backend.raw.stream_end_capture(stream)
    if ended.ok and ended.value is not None:
        backend.graph_destroy(ended.value)
    backend.get_last_error()


def leaves(backend: Backend, graph: Graph) -> tuple[int, ...]:
    """The nodes that nothing follows yet; what is added behind them runs after all the rest."""
    nodes = backend.graph_get_nodes(graph)
    followed = {number for node in nodes for number in node.dependencies}
    return tuple(node.id for node in nodes if node.id not in followed)
