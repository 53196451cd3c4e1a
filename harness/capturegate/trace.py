"""The trace of one case: events as they came, and the capture windows among them.

Events are stored as tuples while recording and read as `Event` objects afterwards.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from capturegate.host_threads import HostThread
from capturegate.sites import DEPTH_MAX, Frame, SiteTable
from capturegate.status import SUCCESS, Outcome, Span, Status

ENGINE = "engine"
HARNESS = "harness"

BEGIN_TO_GRAPH_API = "cudaStreamBeginCaptureToGraph"
BEGIN_APIS = frozenset({"cudaStreamBeginCapture", BEGIN_TO_GRAPH_API})
END_API = "cudaStreamEndCapture"
ADD_CHILD_API = "cudaGraphAddChildGraphNode"
INSTANTIATE_API = "cudaGraphInstantiate"
UPDATE_API = "cudaGraphExecUpdate"
LAUNCH_API = "cudaGraphLaunch"
_ABOUT_WINDOWS = frozenset({"cudaStreamDestroy", ADD_CHILD_API})
"""Calls that change a window without being in one."""
ALLOCATING_APIS = frozenset(
    {"cudaMalloc", "cudaMallocAsync", "cudaMallocHost", "cudaMallocManaged", "cudaHostRegister"}
)
FREEING_APIS = frozenset({"cudaFree", "cudaFreeAsync", "cudaFreeHost", "cudaHostUnregister"})
BLOCKING_APIS = frozenset(
    {
        "cudaStreamSynchronize",
        "cudaEventSynchronize",
        "cudaDeviceSynchronize",
        "cudaMemcpy",
        "cudaMemset",
    }
)
WORK_APIS = frozenset(
    {
        "cudaLaunchKernel",
        "cudaLaunchHostFunc",
        "cudaMemcpyAsync",
        "cudaMemcpyBatchAsync",
        "cudaMemsetAsync",
        LAUNCH_API,
    }
)
_FULL_STACK = ALLOCATING_APIS | FREEING_APIS | BLOCKING_APIS | BEGIN_APIS | {END_API}
_OWN_FILES = frozenset(
    str(path)
    for path in (
        Path(__file__),
        Path(__file__).with_name("notes.py"),
        *(Path(__file__).parent / "backend").glob("*.py"),
    )
)

CAPABILITIES = frozenset(
    {"sites", "allocations", "accesses", "nodes", "node-arguments", "host-accesses", "pool"}
)
"""What a trace may be able to show. `pool` is there when the engine tells its pool events."""


class Event(NamedTuple):
    """One recorded call or note; a named tuple, for a trace has many and makes them quickly.

    Attributes:
        seq: position in the trace, from 0.
        api: CUDA's name of the call, or the name of a note (`pool.get`).
        thread: small number of the calling host thread, 0 is the first seen.
        stream: stream id, -1 for calls without one.
        capture: id of the capture that the call belongs to, 0 for none.
        phase: label of the step that ran, such as `3:capture_step`.
        error: CUDA's error name; a note has cudaSuccess.
        nbytes: bytes asked for, freed, copied or set.
        address: device or host address, 0 for none.
        allocation: allocation id of that address.
        handle: event, graph, executable or kernel name the call is about.
        node: id of the node that the call added to a graph, 0 for none.
        reads: spans read now; a recorded call reads nothing.
        writes: spans written now.
        site: interned call site, see `Trace.stack`.
        actor: `engine` or `harness` (the harness's own reads and writes).
        detail: facts of a note.
    """

    seq: int
    api: str
    thread: int
    stream: int
    capture: int
    phase: str
    error: str
    nbytes: int
    address: int
    allocation: int
    handle: int | str
    node: int
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]
    site: int
    actor: str
    detail: Mapping[str, Any] | None

    @property
    def refused(self) -> bool:
        """Whether the call returned an error."""
        return self.error not in (SUCCESS, "cudaErrorNotReady")

    @property
    def allocates(self) -> bool:
        """Whether this asks the driver for memory; a refused attempt counts."""
        return self.api in ALLOCATING_APIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One capture from begin to end.

    `end` is the sequence number of the end call, or None when nobody ended it before the case
    was over. `end_error` is what the end returned. `nodes` counts those that it added, None when
    there is no graph. The destroy of the stream that it began on takes a capture with it: such a
    window is `destroyed`, and that call is its end.
    """

    capture: int
    stream: int
    thread: int
    mode: str
    phase: str
    begin: int
    end: int | None
    end_error: str
    nodes: int | None
    destroyed: bool = False

    def spans(self, event: Event) -> bool:
        """Whether the event falls between begin and end, whoever made it."""
        return self.begin < event.seq and (self.end is None or event.seq < self.end)

    def inside(self, event: Event) -> bool:
        """Whether the capturing thread made the event, or a stream of the capture carries it."""
        return (
            self.spans(event)
            and event.actor == ENGINE
            and (event.thread == self.thread or event.capture == self.capture)
        )

    def beside(self, event: Event) -> bool:
        """Whether somebody else made the event in that time."""
        return self.spans(event) and event.actor == ENGINE and not self.inside(event)


class CallBudgetExceeded(BaseException):
    """An engine made more calls than it may.

    Not an `Exception`, so that an engine's own handlers let it through.
    """


class Recorder:
    """Collects the events of one backend.

    Attributes:
        phase: label put on events; the runner sets it at every step.
        actor: `engine`, or `harness` while the harness reads and writes memory itself.
        keeps_sites: whether events have a call site; for a trace that nobody shows, they need none.
        calls_max: how many calls one recorder takes; the deterministic end of an endless loop.
        overran: whether any recorder of this process was asked for more.
    """

    calls_max: ClassVar[int] = sys.maxsize
    overran: ClassVar[bool] = False

    def __init__(self) -> None:
        self.phase = ""
        self.actor = ENGINE
        self.keeps_sites = True
        self.sites = SiteTable(_OWN_FILES)
        self.refusals: list[Status[Any]] = []
        self.open_captures = 0
        self._events: list[tuple[Any, ...]] = []
        self._read: list[Event] = []
        self._next = count().__next__
        self._thread = HostThread(count().__next__)

    def call(
        self,
        api: str,
        outcome: Outcome[Any],
        stream: int = -1,
        nbytes: int = 0,
        address: int = 0,
        allocation: int = 0,
        handle: int | str = 0,
        detail: Mapping[str, Any] | None = None,
    ) -> Status[Any]:
        """Record one backend call; returns the caller's status."""
        error, value, capture, node, reads, writes = outcome
        refused = error != SUCCESS
        site = 0
        if self.keeps_sites:
            full = refused or self.open_captures > 0 or api in _FULL_STACK
            site = self.sites.take(DEPTH_MAX if full else 1)
        seq = self._next()
        if seq >= self.calls_max:
            Recorder.overran = True
            raise CallBudgetExceeded(f"more than {self.calls_max} calls on one backend")
        self._events.append(
            (
                seq,
                api,
                self.thread,
                stream,
                capture,
                self.phase,
                error,
                nbytes,
                address,
                allocation,
                handle,
                node,
                reads,
                writes,
                site,
                self.actor,
                detail,
            )
        )
        if capture:
            if api in BEGIN_APIS and not refused:
                self.open_captures += 1
            elif api == END_API and self.open_captures:
                self.open_captures -= 1
        status: Status[Any] = Status(api, error, value, seq)
        if refused:
            self.refusals.append(status)
        return status

    def note(self, name: str, detail: Mapping[str, Any], allocation: int = 0) -> None:
        """Record something that an engine tells of itself, such as `pool.get`."""
        self.call(name, _NOTED, allocation=allocation, detail=detail)

    @property
    def count(self) -> int:
        """How many events there are so far."""
        return len(self._events)

    def since(self, count: int) -> list[Event]:
        """The events after the first `count`, as they came; each of them is made once."""
        self._read.extend(map(_event, repeat(Event), self._events[len(self._read) :]))
        return self._read[count:]

    @property
    def thread(self) -> int:
        """The number of the calling thread."""
        return self._thread.number

    @contextmanager
    def as_harness(self) -> Iterator[None]:
        """Mark what happens meanwhile as the harness's own doing."""
        before, self.actor = self.actor, HARNESS
        try:
            yield
        finally:
            self.actor = before

    def trace(self, capabilities: frozenset[str]) -> Trace:
        """The trace so far."""
        events = sorted(self.since(0), key=itemgetter(0))
        unlooked = frozenset(status.event for status in self.refusals if not status.looked_at)
        return Trace(events, capabilities, self.sites, unlooked)


_NOTED: Outcome[Any] = Outcome(SUCCESS)
_event = tuple.__new__
"""Makes an event of the fields that were stored: they have the right number and order."""


@dataclass(slots=True)
class Trace:
    """All events of a case in order, and what can be read off them.

    `unlooked` holds the sequence numbers of refused calls whose code nobody looked at.
    """

    events: list[Event]
    capabilities: frozenset[str]
    sites: SiteTable
    unlooked: frozenset[int] = frozenset()
    _windows: list[Window] | None = field(default=None, init=False)
    _phases: dict[str, list[Event]] | None = field(default=None, init=False)
    _by_api: dict[str, list[Event]] | None = field(default=None, init=False)

    @property
    def windows(self) -> list[Window]:
        """The captures in order of their begin."""
        if self._windows is None:
            self._windows = windows_of(
                [event for event in self.events if event.capture or event.api in _ABOUT_WINDOWS]
            )
        return self._windows

    def of(self, apis: Iterable[str]) -> list[Event]:
        """The events of some calls and notes, whoever made them, in order."""
        if self._by_api is None:
            self._by_api = {}
            for event in self.events:
                self._by_api.setdefault(event.api, []).append(event)
        found = [self._by_api[api] for api in apis if api in self._by_api]
        return sorted(chain.from_iterable(found), key=itemgetter(0))

    def spanned(self, window: Window) -> list[Event]:
        """The events between a window's begin and end, whoever made them."""
        return self.events[window.begin + 1 : window.end]

    def inside(self, window: Window) -> list[Event]:
        """The events inside a window."""
        return [event for event in self.spanned(window) if window.inside(event)]

    def phase(self, label: str) -> list[Event]:
        """The engine's events of one step."""
        if self._phases is None:
            self._phases = {}
            for event in self.events:
                if event.actor == ENGINE:
                    self._phases.setdefault(event.phase, []).append(event)
        return self._phases.get(label, [])

    def stack(self, event: Event) -> tuple[Frame, ...]:
        """Where an event came from, innermost frame first."""
        return self.sites.resolve(event.site)


def windows_of(events: list[Event]) -> list[Window]:
    """Pair begins with ends by capture id; a capture that nobody ended stays open."""
    ends = {e.capture: e for e in events if e.api == END_API and e.capture}
    gone = {e.stream: e for e in events if e.api == "cudaStreamDestroy" and not e.refused}
    nodes = _nodes_added(events)
    found = []
    for event in events:
        # A begin that opened nothing, as on a backend that cannot capture, has no capture id.
        if event.api not in BEGIN_APIS or event.refused or not event.capture:
            continue
        ended, destroy = ends.get(event.capture), gone.get(event.stream)
        end = ended or destroy
        found.append(
            Window(
                capture=event.capture,
                stream=event.stream,
                thread=event.thread,
                mode=str((event.detail or {}).get("mode", "")),
                phase=event.phase,
                begin=event.seq,
                end=end.seq if end else None,
                end_error=ended.error if ended else "",
                nodes=nodes.get(event.capture),
                destroyed=end is not None and end is destroy,
            )
        )
    return found


def _nodes_added(events: list[Event]) -> dict[int, int]:
    """How many nodes each ended capture added to its graph.

    An end tells how many the graph has. Those that were there before are not its own, nor are
    child graphs, which no capture adds, nor what other captures into the same graph have added
    and not yet ended.
    """
    graphs: dict[int, int | str] = {}
    open_nodes: dict[int, set[int]] = {}
    settled: Counter[int | str] = Counter()
    found: dict[int, int] = {}
    for event in events:
        if event.refused:
            continue
        capture, detail = event.capture, event.detail or {}
        if event.api == BEGIN_TO_GRAPH_API and capture:
            graphs[capture], open_nodes[capture] = event.handle, set()
        elif event.api == ADD_CHILD_API:
            settled[event.handle] += 1
        elif event.api == END_API and capture and detail.get("nodes") is not None:
            graph = event.handle
            open_nodes.pop(capture, None)
            others = sum(len(own) for c, own in open_nodes.items() if graphs[c] == graph)
            found[capture] = detail["nodes"] - settled[graph] - others
            settled[graph] += found[capture]
        elif event.node and capture in open_nodes:
            open_nodes[capture].add(event.node)
    return found
