"""Streams, events, the device and errors of a real device."""

from __future__ import annotations

import itertools

from capturegate.backend.handles import (
    Event,
    Stream,
    StreamKind,
)
from capturegate.status import SUCCESS, Outcome
from capturegate_backends.cupy.context import Context


class StreamCalls:
    """The calls of one device about streams, events and the device itself."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next_stream = itertools.count(2).__next__
        self._next_event = itertools.count(1).__next__

    def stream_create(self, kind: StreamKind) -> Outcome[Stream]:
        """A new stream."""
        rt = self._context.rt
        flags = rt.cudaStreamNonBlocking if kind is StreamKind.NON_BLOCKING else 0
        error, native = rt.cudaStreamCreateWithFlags(flags)
        if int(error) != 0:
            return Outcome(self._context.error(error))
        return Outcome(SUCCESS, Stream(self._next_stream(), kind, native))

    def stream_destroy(self, stream: Stream) -> Outcome[None]:
        """Destroy a stream; a capture that began on it is gone with it."""
        self._context.open.pop(self._context.slot(stream), None)
        return self._context.plain(self._context.rt.cudaStreamDestroy(stream.native))

    def stream_synchronize(self, stream: Stream) -> Outcome[None]:
        """Wait until the stream is idle."""
        (code,) = self._context.rt.cudaStreamSynchronize(stream.native)
        return self._context.on(stream, code, records=False)

    def stream_query(self, stream: Stream) -> Outcome[None]:
        """Ask whether the stream is idle."""
        (code,) = self._context.rt.cudaStreamQuery(stream.native)
        return self._context.on(stream, code, records=False)

    def stream_wait_event(self, stream: Stream, event: Event, external: bool) -> Outcome[None]:
        """Make the stream wait; an event of a capture takes the stream into it."""
        rt = self._context.rt
        flags = rt.cudaEventWaitExternal if external else 0
        (code,) = rt.cudaStreamWaitEvent(stream.native, event.native, flags)
        return self._context.on(stream, code, None, "wait_event", records=external)

    def event_create(self) -> Outcome[Event]:
        """A new event."""
        error, native = self._context.rt.cudaEventCreate()
        if int(error) != 0:
            return Outcome(self._context.error(error))
        return Outcome(SUCCESS, Event(self._next_event(), native))

    def event_destroy(self, event: Event) -> Outcome[None]:
        """Destroy an event."""
        return self._context.plain(self._context.rt.cudaEventDestroy(event.native))

    def event_record(self, event: Event, stream: Stream, external: bool) -> Outcome[None]:
        """Record an event."""
        rt = self._context.rt
        if external:
            (code,) = rt.cudaEventRecordWithFlags(
                event.native, stream.native, rt.cudaEventRecordExternal
            )
        else:
            (code,) = rt.cudaEventRecord(event.native, stream.native)
        return self._context.on(stream, code, None, "event_record", records=external)

    def event_query(self, event: Event) -> Outcome[None]:
        """Ask whether the event was reached."""
        return self._context.plain(self._context.rt.cudaEventQuery(event.native))

    def event_synchronize(self, event: Event) -> Outcome[None]:
        """Wait until the event is reached."""
        return self._context.plain(self._context.rt.cudaEventSynchronize(event.native))

    def device_synchronize(self) -> Outcome[None]:
        """Wait until the device is idle."""
        return self._context.plain(self._context.rt.cudaDeviceSynchronize())

    def device_get_attribute(self, attribute: str) -> Outcome[int]:
        """An attribute by CUDA's name."""
        kind = getattr(self._context.rt.cudaDeviceAttr, attribute, None)
        if kind is None:
            return Outcome("cudaErrorInvalidValue")
        error, value = self._context.rt.cudaDeviceGetAttribute(kind, self._context.ordinal)
        return Outcome(self._context.error(error), value)

    def set_device(self, ordinal: int) -> Outcome[None]:
        """Make a device the thread's current one."""
        return self._context.plain(self._context.rt.cudaSetDevice(ordinal))

    def get_last_error(self) -> Outcome[str]:
        """The thread's last error, then forgotten."""
        return Outcome(SUCCESS, self._context.error(self._context.rt.cudaGetLastError()[0]))

    def peek_at_last_error(self) -> Outcome[str]:
        """The thread's last error."""
        return Outcome(SUCCESS, self._context.error(self._context.rt.cudaPeekAtLastError()[0]))
