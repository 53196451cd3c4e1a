"""What a host had not awaited when a capture began, read from the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from capturegate.backend import StreamKind
from capturegate.status import SUCCESS
from capturegate.trace import BEGIN_APIS, WORK_APIS, Event

LEGACY = 0


def blocking_streams(events: Iterable[Event]) -> set[int | str]:
    """The streams among those made here that the legacy stream orders itself against."""
    return {
        event.handle
        for event in events
        if event.api == "cudaStreamCreateWithFlags"
        and event.error == SUCCESS
        and (event.detail or {}).get("kind") == StreamKind.BLOCKING.value
    }


def in_flight_at_begin(events: Sequence[Event], blocking: Iterable[int | str] = ()) -> int:
    """Work of a step that a capture's stream was behind, unawaited, when the capture began.

    A stream is behind its own work, and behind what lay before an event that it waits for. The
    legacy stream is also behind the `blocking` ones, and each of them behind it, from the next
    work on. The host awaits work by synchronizing with, or finding ready, a stream or an event
    that is behind it, by cudaDeviceSynchronize and by cudaFree. A cudaMemcpy awaits what the
    legacy stream is behind, unless it copies within the device; that, and a cudaMemset, may
    return before they are done, and are work of the legacy stream.
    """
    flight = _Flight({*blocking, *blocking_streams(events)})
    return sum(flight.see(event) for event in events if event.error == SUCCESS)


class _Flight:
    """What is in flight, and what each stream is behind, event by event."""

    def __init__(self, blocking: set[int | str]) -> None:
        self._blocking = blocking
        self._flying: set[int] = set()
        self._streams: defaultdict[int, set[int]] = defaultdict(set)
        self._recorded: dict[int | str, set[int]] = {}

    def see(self, event: Event) -> int:
        """Take an event into account; what a capture that it begins has in flight."""
        api, stream = event.api, event.stream
        if api in BEGIN_APIS:
            return len(self._streams[stream] & self._flying)
        if event.capture:
            return 0
        if api in WORK_APIS:
            self._work(event.seq, stream)
        elif api == "cudaMemset" or (api == "cudaMemcpy" and _within_device(event)):
            self._work(event.seq, LEGACY)
        elif api == "cudaMemcpy":
            self._flying -= self._behind(LEGACY)
        elif api == "cudaEventRecord":
            self._recorded[event.handle] = self._behind(stream) & self._flying
        elif api == "cudaStreamWaitEvent":
            self._streams[stream] |= self._recorded.get(event.handle, set())
        elif api in ("cudaStreamSynchronize", "cudaStreamQuery"):
            self._flying -= self._behind(stream)
        elif api in ("cudaEventSynchronize", "cudaEventQuery"):
            self._flying -= self._recorded.pop(event.handle, set())
        elif api in ("cudaDeviceSynchronize", "cudaFree"):
            self._flying.clear()
        return 0

    def _work(self, seq: int, stream: int) -> None:
        self._flying.add(seq)
        self._streams[stream] = self._behind(stream) | {seq}
        if stream in self._blocking:
            self._streams[stream] |= self._streams[LEGACY]

    def _behind(self, stream: int) -> set[int]:
        """What a stream is behind; the legacy one, of every blocking one as well."""
        behind = set(self._streams[stream])
        if stream == LEGACY:
            for other in self._blocking:
                behind |= self._streams[int(other)]
        return behind & self._flying


def _within_device(event: Event) -> bool:
    return bool((event.detail or {}).get("within_device"))
