"""Streams, events, the device, and errors."""

from __future__ import annotations

from capturegate.backend import SUCCESS, Event, Outcome, Stream, StreamKind
from capturegate_backends.fake.context import (
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_READY,
    Context,
    runtime_call,
)
from capturegate_backends.fake.operations import EventMark, Nothing
from capturegate_backends.fake.scheduler import Work
from capturegate_backends.fake.state import EventState, StreamState

INVALID_DEVICE = "cudaErrorInvalidDevice"

ATTRIBUTES = {
    "cudaDevAttrMaxThreadsPerBlock": 1024,
    "cudaDevAttrWarpSize": 32,
    "cudaDevAttrMultiProcessorCount": 132,
    "cudaDevAttrComputeCapabilityMajor": 9,
    "cudaDevAttrComputeCapabilityMinor": 0,
    "cudaDevAttrMemoryPoolsSupported": 1,
    "cudaDevAttrManagedMemory": 1,
}

_NOTHING = Nothing()


class StreamCalls:
    """The calls of one device about streams, events and the device itself."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @runtime_call
    def stream_create(self, kind: StreamKind) -> Outcome[Stream]:
        """A new stream of a kind that can be created."""
        context = self.context
        if kind in (StreamKind.LEGACY, StreamKind.PER_THREAD):
            return context.fail("stream_create", INVALID_VALUE)
        state = StreamState(Stream(context.new_id(), kind))
        context.streams[state.handle.id] = state
        return context.answer("stream_create", state.handle)

    @runtime_call
    def stream_destroy(self, stream: Stream) -> Outcome[None]:
        """The handle goes; work that stands in the stream is still done.

        A capture that began on the stream is gone with it.
        """
        context = self.context
        state = context.streams.get(stream.id)
        if state is None or state.handle is not stream or state.legacy:
            return context.fail("stream_destroy", INVALID_HANDLE)
        capture = state.capture
        refused = self._judged("stream_destroy", state)
        if refused is not None:
            return refused
        if capture is not None and capture.ended:
            capture.graph.forgo_memory(context.memory)
        state.destroyed = True
        del context.streams[stream.id]
        return Outcome(SUCCESS)

    @runtime_call
    def stream_synchronize(self, stream: Stream) -> Outcome[None]:
        """Wait until the stream is idle."""
        return self._wait("stream_synchronize", stream, block=True)

    @runtime_call
    def stream_query(self, stream: Stream) -> Outcome[None]:
        """Ask whether the stream is idle; asking often enough makes it so."""
        return self._wait("stream_query", stream, block=False)

    @runtime_call
    def stream_wait_event(self, stream: Stream, event: Event, external: bool) -> Outcome[None]:
        """Make a stream wait; an event of a capture takes the stream into it."""
        context = self.context
        state, marked = context.stream(stream), context.event(event)
        if state is None or marked is None:
            return context.fail("stream_wait_event", INVALID_HANDLE)
        if external:
            mark = EventMark(event=marked, kind="wait_event")
            return context.enqueue("stream_wait_event_external", stream, mark, event=marked)
        refused = self._judged("stream_wait_event", state, marked)
        if refused is not None:
            return refused
        if marked.capture is not None:
            marked.capture.join(state, marked.tails)
            return Outcome(SUCCESS, None, marked.capture.id)
        if marked.work is not None and not marked.work.done:
            context.submit(state, _NOTHING, (marked.work,))
        return Outcome(SUCCESS)

    @runtime_call
    def event_create(self) -> Outcome[Event]:
        """A new event, reached from the start."""
        context = self.context
        handle = Event(context.new_id())
        context.events[handle.id] = EventState(handle)
        return context.answer("event_create", handle)

    @runtime_call
    def event_destroy(self, event: Event) -> Outcome[None]:
        """The handle goes."""
        context = self.context
        if context.event(event) is None:
            return context.fail("event_destroy", INVALID_HANDLE)
        del context.events[event.id]
        return context.answer("event_destroy")

    @runtime_call
    def event_record(self, event: Event, stream: Stream, external: bool) -> Outcome[None]:
        """Mark what the stream holds now; in a capture, the nodes that it ends in."""
        context = self.context
        state, marked = context.stream(stream), context.event(event)
        if state is None or marked is None:
            return context.fail("event_record", INVALID_HANDLE)
        if external:
            mark = EventMark(event=marked, kind="event_record")
            return context.enqueue("event_record_external", stream, mark)
        refused = self._judged("event_record", state, marked)
        if refused is not None:
            return refused
        marked.capture = state.capture
        marked.recorded = True
        if state.capture is not None:
            marked.tails = state.capture.tails[state]
            return Outcome(SUCCESS, None, state.capture.id)
        marked.work = None if context.scheduler.idle else context.submit(state, _NOTHING)
        return Outcome(SUCCESS)

    @runtime_call
    def event_query(self, event: Event) -> Outcome[None]:
        """Ask whether the event was reached; asking often enough makes it so."""
        return self._wait_event("event_query", event, block=False)

    @runtime_call
    def event_synchronize(self, event: Event) -> Outcome[None]:
        """Wait until the event is reached."""
        return self._wait_event("event_synchronize", event, block=True)

    @runtime_call
    def device_synchronize(self) -> Outcome[None]:
        """Wait until nothing is left."""
        context = self.context
        out: Outcome[None] = context.answer("device_synchronize")
        if out.error != SUCCESS:
            return out
        context.scheduler.finish_all()
        return self._survived("device_synchronize")

    @runtime_call
    def device_get_attribute(self, attribute: str) -> Outcome[int]:
        """An attribute by CUDA's name; the device has those of an H200 that are listed here."""
        if attribute not in ATTRIBUTES:
            return self.context.fail("device_get_attribute", INVALID_VALUE)
        return Outcome(SUCCESS, ATTRIBUTES[attribute])

    @runtime_call
    def set_device(self, ordinal: int) -> Outcome[None]:
        """There is one device."""
        if ordinal != 0:
            return self.context.fail("set_device", INVALID_DEVICE)
        return Outcome(SUCCESS)

    def get_last_error(self) -> Outcome[str]:
        """The thread's last error, then forgotten; a lost device is not forgotten."""
        with self.context.lock:
            thread = self.context.thread
            name, thread.last_error = self._last_error, SUCCESS
            return Outcome(SUCCESS, name)

    def peek_at_last_error(self) -> Outcome[str]:
        """The thread's last error."""
        with self.context.lock:
            return Outcome(SUCCESS, self._last_error)

    @property
    def _last_error(self) -> str:
        return self.context.world.refusal or self.context.thread.last_error

    def _judged(
        self, call: str, stream: StreamState, event: EventState | None = None
    ) -> Outcome[None] | None:
        """The refusal of a call, None when it may go ahead."""
        context = self.context
        capture = stream.capture
        error = context.machine.judge(call, context.thread, stream, event)
        if error == SUCCESS:
            return None
        return context.fail(call, error, capture.id if capture else 0)

    def _wait(self, call: str, stream: Stream, *, block: bool) -> Outcome[None]:
        context = self.context
        state = context.stream(stream)
        if state is None:
            return context.fail(call, INVALID_HANDLE)
        refused = self._judged(call, state)
        if refused is not None:
            return refused
        return self._reach(call, self._unfinished(state), block=block)

    def _wait_event(self, call: str, event: Event, *, block: bool) -> Outcome[None]:
        context = self.context
        state = context.event(event)
        if state is None:
            return context.fail(call, INVALID_HANDLE)
        error = context.machine.judge(call, context.thread, None, state)
        if error != SUCCESS:
            return context.fail(call, error)
        return self._reach(call, [state.work] if state.work else [], block=block)

    def _unfinished(self, stream: StreamState) -> list[Work]:
        """The last work of a stream; of the legacy one, also of the streams that it waits for."""
        own = [stream.queue.tail] if stream.queue.tail is not None else []
        return own + self.context.scheduler.blocking_tails if stream.legacy else own

    def _reach(self, call: str, works: list[Work], *, block: bool) -> Outcome[None]:
        scheduler = self.context.scheduler
        for work in works:
            if block:
                scheduler.finish(work)
            elif not scheduler.poll(work):
                return self.context.fail(call, NOT_READY)
        return self._survived(call)

    def _survived(self, call: str) -> Outcome[None]:
        """What a waiting call says of the work that it waited for."""
        refusal = self.context.world.refusal
        return self.context.fail(call, refusal) if refusal else Outcome(SUCCESS)
