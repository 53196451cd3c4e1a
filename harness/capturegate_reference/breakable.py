"""A graph container: captured segments, and breaks between them that run eagerly.

NEW -> OPEN -> CLOSED
^------'            a capture that fails leaves its container as if it had never begun, and so
                    does one that is inert: its work and its breaks just ran, in their order
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from capturegate.backend import Backend, CaptureMode, Event, Stream, StreamKind
from capturegate_reference.captures import CapturedGraph, StreamCapture, destroy, instantiate
from capturegate_reference.errors import EngineError, SeamError

_open = threading.local()


class GraphMode(enum.StrEnum):
    """Whether a container is one graph or may be broken into several."""

    FULL = "full"
    PIECEWISE = "piecewise"


class ContainerState(enum.StrEnum):
    """Where a container stands."""

    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


class BreakableGraph:
    """Segments and breaks of one pass, captured once and replayed in turn.

    Attributes:
        state: see above.
        counts: begins, ends, breaks, joined (forks that were still open at a close), replays.
    """

    def __init__(
        self, backend: Backend, stream: Stream, *, mode: GraphMode, capture_mode: CaptureMode
    ) -> None:
        self.state = ContainerState.NEW
        self.counts: Counter[str] = Counter()
        self._backend = backend
        self._stream = stream
        self._mode = mode
        self._captures = StreamCapture(backend, stream, mode=capture_mode, counts=self.counts)
        self._segments: list[CapturedGraph] = []
        self._breaks: list[Callable[[], None]] = []
        self._forks: list[tuple[Stream, Event]] = []
        self._sides: list[tuple[Stream, Event]] = []

    @property
    def segments(self) -> int:
        """How many graphs there are: one more than breaks."""
        return len(self._segments)

    @contextmanager
    def capture(self) -> Iterator[None]:
        """Capture what is submitted meanwhile; nothing of it runs.

        Where the begin is inert, all of it just runs, and the container is new again.

        Raises:
            SeamError: this container was captured before, or another one is open in this thread;
                no call of the backend was made.
            CudaError: a call was refused; the stream is idle and the container new.
            EngineError: a later segment was inert, so that what came before it did not run.
        """
        if self.state is not ContainerState.NEW:
            raise SeamError(f"a container that is {self.state} cannot be captured again")
        if getattr(_open, "container", None) is not None:
            raise SeamError("a capture was opened inside another one")
        _open.container = self
        self.state = ContainerState.OPEN
        try:
            self._begin()
            yield
            self._end()
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            _open.container = None
        self.state = ContainerState.CLOSED if self._segments else ContainerState.NEW

    def break_here(self, work: Callable[[], None]) -> None:
        """Keep work out of the graphs: it runs at every replay, between two segments.

        Raises:
            SeamError: the container is to be one graph; no call of the backend was made.
        """
        if self.state is not ContainerState.OPEN:
            work()
            return
        if self._mode is GraphMode.FULL:
            raise SeamError("a graph that has to be whole was to be broken")
        if self._captures.inert:
            work()
            return
        self._end()
        self._breaks.append(work)
        self.counts["breaks"] += 1
        self._begin()

    def fork(self) -> Stream:
        """A side stream of the open capture; joined when its segment ends, if not before.

        Raises:
            SeamError: nothing is being captured.
        """
        if self.state is not ContainerState.OPEN:
            raise SeamError(f"a container that is {self.state} cannot be forked")
        backend = self._backend
        if not self._sides:
            side = backend.stream_create(StreamKind.NON_BLOCKING)
            self._sides.append((side, backend.event_create()))
        side, event = self._sides.pop()
        backend.event_record(event, self._stream)
        backend.stream_wait_event(side, event)
        self._forks.append((side, event))
        return side

    def join(self, side: Stream) -> None:
        """Let what comes next wait for a side stream.

        Raises:
            SeamError: it is none of this capture's.
        """
        for fork in self._forks:
            if fork[0] is side:
                self._backend.event_record(fork[1], side)
                self._backend.stream_wait_event(self._stream, fork[1])
                self._forks.remove(fork)
                self._sides.append(fork)
                return
        raise SeamError("a stream was joined that this capture did not fork")

    def replay(self) -> None:
        """Launch the segments and run the breaks, in the order in which they were captured.

        Raises:
            SeamError: nothing was captured.
        """
        if self.state is not ContainerState.CLOSED:
            raise SeamError(f"a container that is {self.state} cannot be replayed")
        for number, segment in enumerate(self._segments):
            if number:
                self._breaks[number - 1]()
            self._backend.graph_launch(segment.executable, self._stream)
        self.counts["replays"] += 1

    def close(self) -> None:
        """Drop the graphs and the side streams."""
        self._drop()
        for side, event in self._sides:
            self._backend.event_destroy(event)
            self._backend.stream_destroy(side)
        self._sides.clear()
        self.state = ContainerState.NEW

    def _begin(self) -> None:
        self._captures.begin()
        if self._captures.inert and self._segments:
            raise EngineError("a segment was inert behind segments that were captured")

    def _end(self) -> None:
        while self._forks:
            self.join(self._forks[-1][0])
            self.counts["joined"] += 1
        graph = self._captures.end()
        if graph is not None:
            self._segments.append(instantiate(self._backend, graph))

    def _abandon(self, cause: BaseException) -> None:
        """Go back to new, whatever was captured so far."""
        self._captures.abandon(cause)
        self._sides += self._forks
        self._forks.clear()
        self._drop()
        self.state = ContainerState.NEW

    def _drop(self) -> None:
        for segment in self._segments:
            destroy(self._backend, segment)
        self._segments.clear()
        self._breaks.clear()
