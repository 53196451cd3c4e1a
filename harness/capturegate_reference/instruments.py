"""Devices with a fault on purpose, for scenarios that say what an engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from capturegate.adapter import Facts
from capturegate.backend import (
    SUCCESS,
    CaptureMode,
    CudaError,
    Device,
    Graph,
    Outcome,
    Stream,
    StreamKind,
)
from capturegate.errors import InputError
from capturegate_reference.errors import ScratchRefused

Refusals = dict[str, int | str]
"""What stood in the way of a step that was tried again."""


def retried(step: Callable[[], Facts], attempts: int) -> Facts:
    """Run a step, and again for as long as it is refused and attempts are left."""
    refusals: Refusals = {"refused_by": "", "refusals": 0}
    for left in reversed(range(attempts)):
        try:
            return {**refusals, **step()}
        except (CudaError, ScratchRefused) as error:
            if not left:
                raise
            refusals = _refusal(error, attempts - left)
    return refusals


def refused(step: Callable[[], Facts]) -> Facts:
    """Run a step that is meant to be refused; who did so, and nobody when it was not."""
    try:
        step()
    except (CudaError, ScratchRefused) as error:
        return _refusal(error, 1)
    return {"refused_by": "", "refusals": 0}


def _refusal(error: CudaError | ScratchRefused, count: int) -> Refusals:
    """Who refused last, and how often somebody did."""
    if isinstance(error, CudaError):
        return {"refused_by": error.api, "error": error.error, "refusals": count}
    return {"refused_by": error.scratch, "error": type(error).__name__, "refusals": count}


class InertDevice:
    """A device that accepts the begin of a capture and captures nothing: work just runs."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:  # noqa: ARG002
        """Answered, and nothing more."""
        return Outcome(SUCCESS)

    def stream_begin_capture_to_graph(
        self,
        stream: Stream,  # noqa: ARG002
        graph: Graph,  # noqa: ARG002
        dependencies: Sequence[int],  # noqa: ARG002
        mode: CaptureMode,  # noqa: ARG002
    ) -> Outcome[None]:
        """Answered, and nothing more."""
        return Outcome(SUCCESS)


class ForkingDevice:
    """A device on which a stray stream joins a capture just before its end.

    Nobody waits for that stream, so the runtime itself refuses the end.

    Attributes:
        armed: which of the coming ends is to be refused, 1 for the next one; 0 for none.
    """

    def __init__(self, device: Device) -> None:
        self.armed = 0
        self._device = device
        self._side = device.stream_create(StreamKind.NON_BLOCKING)
        self._fork = device.event_create()
        self._memory = device.malloc(4)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream_end_capture(self, stream: Stream) -> Outcome[Graph]:
        """The runtime's own answer, with a fork left open where it is to be refused."""
        fork, side, memory = self._fork.value, self._side.value, self._memory.value
        chosen = self.armed == 1
        self.armed = max(0, self.armed - 1)
        if chosen and fork is not None and side is not None and memory is not None:
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


class RefusingDevice:
    """A device that refuses one call, as one without room or with its hands full would.

    Attributes:
        armed: which of the coming calls is to be refused, 1 for the next one; 0 for none.
    """

    def __init__(self, device: Device, call: str, error: str) -> None:
        self.armed = 0
        self._device = device
        self._call = call
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return self._refuse_or_pass if name == self._call else getattr(self._device, name)

    def _refuse_or_pass(self, *args: Any, **more: Any) -> Outcome[Any]:
        chosen = self.armed == 1
        self.armed = max(0, self.armed - 1)
        if chosen:
            return Outcome(self._error)
        outcome: Outcome[Any] = getattr(self._device, self._call)(*args, **more)
        return outcome


FAULTS = {
    "none": None,
    "inert": InertDevice,
    "refused_close": ForkingDevice,
    "refused_executable": partial(
        RefusingDevice, call="graph_instantiate", error="cudaErrorMemoryAllocation"
    ),
    "refused_begin": partial(
        RefusingDevice, call="stream_begin_capture_to_graph", error="cudaErrorMemoryAllocation"
    ),
}
"""The devices by the name that a configuration gives their fault."""

Faulty = InertDevice | ForkingDevice | RefusingDevice | None


def refuse(faulty: Faulty, number: int) -> None:
    """Let one of the coming calls be refused that the fault is about, 1 for the next one.

    Raises:
        InputError: the device has no such fault.
    """
    if not isinstance(faulty, ForkingDevice | RefusingDevice):
        raise InputError("no call can be refused", expected="a fault that refuses a call")
    faulty.armed = number
