"""What the fake remembers of threads, streams, events and captures."""

from __future__ import annotations

from dataclasses import dataclass, field

from capturegate.backend import SUCCESS, CaptureMode, CaptureStatus, Event, Stream, StreamKind
from capturegate_backends.fake.graphs import GraphState
from capturegate_backends.fake.scheduler import Queue, Work


@dataclass(slots=True, eq=False)
class ThreadState:
    """One host thread: its own capture mode, its last error, its own default stream."""

    stream: StreamState
    mode: CaptureMode = CaptureMode.GLOBAL
    last_error: str = SUCCESS


@dataclass(slots=True, eq=False)
class StreamState:
    """One stream; `capture` is the capture that it belongs to, `destroyed` says that it is gone."""

    handle: Stream
    capture: Capture | None = None
    destroyed: bool = False
    queue: Queue = field(init=False)

    def __post_init__(self) -> None:
        self.queue = Queue(blocking=self.blocking)

    @property
    def legacy(self) -> bool:
        """Whether this is the stream that orders itself against blocking ones."""
        return self.handle.kind is StreamKind.LEGACY

    @property
    def blocking(self) -> bool:
        """Whether the legacy stream orders itself against this one."""
        return self.handle.kind in (StreamKind.BLOCKING, StreamKind.PER_THREAD)


@dataclass(slots=True, eq=False)
class EventState:
    """One event: the work that reaches it, or the nodes of the capture that it was recorded in.

    `recorded` says that it was ever recorded.
    """

    handle: Event | None = None
    recorded: bool = False
    work: Work | None = None
    capture: Capture | None = None
    tails: tuple[int, ...] = ()


@dataclass(slots=True, eq=False, kw_only=True)
class Capture:
    """One capture: where it began, how it stands, and the last nodes of each of its streams."""

    id: int
    origin: StreamState
    thread: ThreadState
    mode: CaptureMode
    graph: GraphState
    status: CaptureStatus = CaptureStatus.ACTIVE
    ended: bool = False
    tails: dict[StreamState, tuple[int, ...]] = field(default_factory=dict)

    @property
    def blocking(self) -> bool:
        """Whether a blocking stream that still exists belongs to it."""
        return any(stream.blocking and not stream.destroyed for stream in self.tails)

    def join(self, stream: StreamState, nodes: tuple[int, ...]) -> None:
        """Let what comes on `stream` depend on `nodes` too; a new stream enters the capture."""
        former = self.tails.get(stream, ())
        self.tails[stream] = former + tuple(node for node in nodes if node not in former)
        stream.capture = self

    def close(self) -> None:
        """Let all streams out."""
        for stream in self.tails:
            stream.capture = None
        self.ended = True

    @property
    def unjoined(self) -> bool:
        """Whether a forked stream ends in work that the origin does not wait for."""
        joined = self.graph.ancestors(self.tails[self.origin])
        return any(not joined.issuperset(nodes) for nodes in self.tails.values())
