"""Captures: the one place where drivers begin, end and abandon them, and what is left of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from capturegate.backend import (
    Backend,
    CaptureMode,
    CaptureStatus,
    CudaError,
    Graph,
    GraphExec,
    Stream,
)
from capturegate_reference.errors import EngineError


class StreamCapture:
    """Captures of one stream, one after another; every driver family opens its own through one.

    It makes no pre-grow. What a capture is going to take is known to its driver alone, which has
    measured it in a cold step and decides what is taken from where, so each driver prepares its
    pool itself before it begins. A driver that does not is told by the stack of the allocation in
    its window, which leads through that driver.

    It counts in the driver's own counts: `begins` are captures that began, `ends` those that came
    to an end, whatever the end said. Both leave out begins that were inert.

    Attributes:
        inert: whether the last begin was accepted and its stream captures nothing. Work that is
            submitted then just runs, which is no failure.
        graph: what the last window came to; None after one that was inert.
    """

    def __init__(
        self, backend: Backend, stream: Stream, *, mode: CaptureMode, counts: Counter[str]
    ) -> None:
        self._counts = counts
        self.inert = False
        self.graph: Graph | None = None
        self._backend = backend
        self._stream = stream
        self._mode = mode
        self._open = False
        self._into: Graph | None = None

    @contextmanager
    def window(self, into: Graph | None = None) -> Iterator[None]:
        """Capture what is submitted meanwhile, into a graph of its own or behind another's leaves.

        Raises:
            CudaError: a call was refused. The stream is idle and the graph is gone; what went
                wrong first is what is raised.
        """
        self.graph = None
        try:
            if into is None:
                self.begin()
            else:
                self.begin_into(into)
            yield
        except BaseException as error:
            self.abandon(error)
            raise
        self.graph = self.end()

    def begin(self) -> None:
        """Begin a capture that gets a graph of its own.

        Raises:
            CudaError: it was refused, or nobody can say whether it began.
        """
        self._into, self.inert = None, False
        self._backend.stream_begin_capture(self._stream, self._mode)
        self._look()

    def begin_into(self, graph: Graph) -> None:
        """Begin a capture into a graph, behind all that it holds; whatever fails, the graph goes.

        Raises:
            CudaError: it was refused, or nobody can say whether it began.
            EngineError: it was inert, and what the graph holds already did not run.
        """
        self._into, self.inert = graph, False
        behind = leaves(self._backend, graph)
        self._backend.stream_begin_capture_to_graph(self._stream, graph, behind, self._mode)
        self._look()
        if self.inert and behind:
            raise EngineError("a capture was inert behind pieces that were captured")

    def end(self) -> Graph | None:
        """End the capture; its graph, or None when it was inert.

        Raises:
            CudaError: it was refused. The stream is idle and the graph is gone, also one that had
                pieces before.
        """
        if self.inert:
            self.abandon()
            return None
        self._open, self._into = False, None
        self._counts["ends"] += 1
        try:
            return self._backend.stream_end_capture(self._stream)
        except BaseException as error:
            self._end_again(error)
            raise

    def abandon(self, cause: BaseException | None = None) -> None:
        """End a capture that is still open, so that its stream is idle, and drop its graph.

        What the end says is no news. The graph goes by our hand when the end hands it out, and by
        the runtime's when the capture was lost. A call that was refused, as the `cause` of it or
        at the end, is told by what is raised, and not once more to whoever looks at the last error.
        """
        refused = isinstance(cause, CudaError)
        doomed, self._into = self._into, None
        if self._open:
            self._open = False
            self._counts["ends"] += 1
            ended = self._backend.raw.stream_end_capture(self._stream)
            doomed = ended.value if ended.ok else None
            refused = refused or not ended.ok
        if doomed is not None:
            dropped = self._backend.raw.graph_destroy(doomed)
            if cause is None:
                dropped.unwrap()
            refused = refused or not dropped.ok
        if refused:
            self._backend.get_last_error()

    def _end_again(self, cause: BaseException) -> None:
        """Abandon a capture whose end was refused, unless it was lost with that end.

        It was one end, and counts as one.
        """
        looked = self._backend.raw.stream_is_capturing(self._stream)
        if looked.ok and looked.value is CaptureStatus.NONE:
            self._backend.get_last_error()
            return
        self._open = True
        self._counts["ends"] -= 1
        self.abandon(cause)

    def _look(self) -> None:
        """See whether the begin that was accepted captures anything."""
        self._open = True
        self._counts["begins"] += 1
        self.inert = self._backend.stream_is_capturing(self._stream) is CaptureStatus.NONE
        if self.inert:
            # Nothing began, after all.
            self._open = False
            self._counts["begins"] -= 1


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
        return CapturedGraph(graph=graph, executable=executable_of(backend, graph))
    except BaseException:
        backend.graph_destroy(graph)
        raise


def executable_of(backend: Backend, graph: Graph) -> GraphExec:
    """A graph's executable.

    Raises:
        CudaError: it was refused; that is no one's last error any more.
    """
    try:
        return backend.graph_instantiate(graph)
    except BaseException:
        backend.get_last_error()
        raise


def destroy(backend: Backend, captured: CapturedGraph) -> None:
    """Drop an executable and its graph."""
    backend.graph_exec_destroy(captured.executable)
    backend.graph_destroy(captured.graph)


def leaves(backend: Backend, graph: Graph) -> tuple[int, ...]:
    """The nodes that nothing follows yet; what is added behind them runs after all the rest."""
    nodes = backend.graph_get_nodes(graph)
    followed = {number for node in nodes for number in node.dependencies}
    return tuple(node.id for node in nodes if node.id not in followed)
