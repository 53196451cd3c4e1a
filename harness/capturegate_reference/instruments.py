"""Devices with a fault on purpose, for scenarios that say what an engine makes of it."""

from __future__ import annotations

from typing import Any

from capturegate.backend import (
    SUCCESS,
    CaptureMode,
    Device,
    Graph,
    Outcome,
    Stream,
    StreamKind,
)


class InertDevice:
    """A device that accepts the begin of a capture and captures nothing: work just runs."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:  # noqa: ARG002
        """Answered, and nothing more."""
        return Outcome(SUCCESS)


class ForkingDevice:
    """A device on which a stray stream joins the next capture just before its end.

    Nobody waits for that stream, so the runtime itself refuses the end.

    Attributes:
        armed: whether the next end of a capture is to be refused.
    """

    def __init__(self, device: Device) -> None:
        self.armed = False
        self._device = device
        self._side = device.stream_create(StreamKind.NON_BLOCKING)
        self._fork = device.event_create()
        self._memory = device.malloc(4)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream_end_capture(self, stream: Stream) -> Outcome[Graph]:
        """The runtime's own answer, with a fork left open when armed."""
        fork, side, memory = self._fork.value, self._side.value, self._memory.value
        if self.armed and fork is not None and side is not None and memory is not None:
            self.armed = False
            self._device.event_record(fork, stream, external=False)
            self._device.stream_wait_event(side, fork, external=False)
            self._device.memset_async(memory, 0, 4, side)
        return self._device.stream_end_capture(stream)

    def dismiss(self) -> None:
        """Give back what the fault is made of."""
        if self._side.value and self._fork.value and self._memory.value:
            self._device.free(self._memory.value)
            self._device.event_destroy(self._fork.value)
            self._device.stream_destroy(self._side.value)
