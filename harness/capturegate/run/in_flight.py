"""What a host has not awaited, as when a capture begins, read from the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from capturegate.backend import StreamKind
from capturegate.status import SUCCESS
from capturegate.trace import (
    BEGIN_APIS,
    END_API,
    INSTANTIATE_API,
    LAUNCH_API,
    UPDATE_API,
    WORK_APIS,
    Event,
)

LEGACY, PER_THREAD = 0, 1
"""The ids of the default streams; the second is another stream in each thread."""
CREATE_API = "cudaStreamCreateWithFlags"
_BUILDS = frozenset({INSTANTIATE_API, UPDATE_API})
FOLLOWED = (
    BEGIN_APIS
    | WORK_APIS
    | {
        "cudaMemset",
        "cudaMemcpy",
        "cudaEventRecord",
        "cudaStreamWaitEvent",
        "cudaStreamSynchronize",
        "cudaStreamQuery",
        "cudaEventSynchronize",
        "cudaEventQuery",
        "cudaDeviceSynchronize",
        END_API,
    }
    | _BUILDS
)
"""The calls that `Flight` takes into account; it passes over all others."""

_Records = dict[int | str, bool]
"""Events that a capture records, each with whether no work was captured after that."""


def blocking_streams(events: Iterable[Event]) -> set[int | str]:
    """The streams among those made here that the legacy stream orders itself against."""
    return {
        event.handle
        for event in events
        if event.api == CREATE_API
        and event.error == SUCCESS
        and (event.detail or {}).get("kind") == StreamKind.BLOCKING.value
    }


def in_flight_at_begin(events: Sequence[Event], blocking: Iterable[int | str] = ()) -> int:
    """Work of a step that a capture's stream was behind, unawaited, when the capture began.

    `Flight` says what a stream is behind, and by what the host awaits it.
    """
    flight = Flight({*blocking, *blocking_streams(events)})
    return sum(flight.see(event) for event in events)


class Flight:
    """What is in flight, and what each stream is behind, event by event.

    A stream is behind its own work, and behind what lay before an event that it waits for. The
    legacy stream is also behind the blocking ones, and each of them behind it, from the next work
    or record on; per-thread streams are blocking, and one in each thread. The host awaits work by
    synchronizing with, or finding ready, a stream or an event that is behind it, and by
    cudaDeviceSynchronize. A cudaMemcpy awaits what the legacy stream is behind, unless it copies
    within the device; that, and a cudaMemset, may return before they are done, and are work of the
    legacy stream. Frees await nothing: that they wait is not promised for all of them. A launch
    records the events that its graph records, behind all of it where no work was captured after
    the record, and else behind what lay before the launch. What a graph waits for, and what child
    graphs record, is not followed.

    `blocking` are the blocking streams, those that are yet to be made too.
    """

    def __init__(self, blocking: Iterable[int | str]) -> None:
        self._blocking = set(blocking)
        self._flying: set[int] = set()
        self._streams: defaultdict[int, set[int]] = defaultdict(set)
        self._recorded: dict[int | str, set[int]] = {}
        self._captured: defaultdict[int, _Records] = defaultdict(dict)
        self._graphs: dict[int | str, _Records] = {}
        self._executables: dict[int | str, _Records] = {}

    def see(self, event: Event) -> int:
        """Take an event into account; what a capture that it begins has in flight."""
        api = event.api
        if api not in FOLLOWED or event.error != SUCCESS:
            return 0
        stream = self._key(event)
        if api in BEGIN_APIS:
            return len(self._streams[stream] & self._flying)
        if event.capture or api in _BUILDS:
            self._build(event)
        elif api in WORK_APIS:
            self._launch(event, stream)
        elif api == "cudaMemset" or (api == "cudaMemcpy" and _within_device(event)):
            self._work(event.seq, LEGACY)
        elif api == "cudaMemcpy":
            self._land(self._behind(LEGACY))
        elif api == "cudaEventRecord":
            if stream in self._blocking:
                self._streams[stream] |= self._streams[LEGACY]
            self._recorded[event.handle] = self._behind(stream)
        elif api == "cudaStreamWaitEvent":
            self._streams[stream] |= self._recorded.get(event.handle, set())
        elif api in ("cudaStreamSynchronize", "cudaStreamQuery"):
            self._land(self._behind(stream))
        elif api == "cudaDeviceSynchronize":
            self._land(self._flying)
        else:
            self._land(self._recorded.pop(event.handle, set()))
        return 0

    def still(self, works: Iterable[int]) -> set[int]:
        """Those of the works, by sequence number, that the host has not awaited."""
        return self._flying.intersection(works)

    def _key(self, event: Event) -> int:
        if event.stream != PER_THREAD:
            return event.stream
        key = -2 - event.thread
        self._blocking.add(key)
        return key

    def _build(self, event: Event) -> None:
        """Follow the records of a capture to its graph, and to the executables made of that."""
        records = self._captured[event.capture]
        if event.api == END_API:
            self._graphs[event.handle] = self._captured.pop(event.capture)
        elif event.api in _BUILDS:
            made_of = (event.detail or {}).get("graph", 0)
            self._executables[event.handle] = self._graphs.get(made_of, {})
        elif event.api == "cudaEventRecord":
            records[event.handle] = True
        elif event.api in WORK_APIS:
            records.update(dict.fromkeys(records, False))

    def _launch(self, event: Event, stream: int) -> None:
        """Take work into account, and what the graph of a launch records."""
        before = self._behind(stream)
        self._work(event.seq, stream)
        records = self._executables.get(event.handle, {}) if event.api == LAUNCH_API else {}
        for recorded, is_last in records.items():
            self._recorded[recorded] = before | {event.seq} if is_last else before

    def _work(self, seq: int, stream: int) -> None:
        behind = self._streams[stream]
        if stream == LEGACY:
            behind |= self._behind(LEGACY)
        elif stream in self._blocking:
            behind |= self._streams[LEGACY]
        behind.add(seq)
        self._flying.add(seq)

    def _behind(self, stream: int) -> set[int]:
        """What a stream is behind; the legacy one, of every blocking one as well."""
        behind = set(self._streams[stream])
        if stream == LEGACY:
            for other in self._blocking:
                behind |= self._streams[int(other)]
        return behind & self._flying

    def _land(self, awaited: set[int]) -> None:
        # It may be the very set that is made smaller here.
        landed = set(awaited)
        for behind in (self._flying, *self._streams.values()):
            behind -= landed


def _within_device(event: Event) -> bool:
    return bool((event.detail or {}).get("within_device"))
