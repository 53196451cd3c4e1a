"""Devices and caches with a fault on purpose, for scenarios that say what an engine makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from capturegate.adapter import Facts
from capturegate.backend import (
    SUCCESS,
    Array,
    Backend,
    CaptureMode,
    CaptureStatus,
    CudaError,
    Device,
    Graph,
    Outcome,
    Stream,
    StreamKind,
)
from capturegate.errors import InputError
from capturegate_reference.configuration import at_least
from capturegate_reference.errors import EngineError, ScratchRefused
from capturegate_reference.shape_caches import SIBLINGS, Caches, Key

EVERY_SIBLING = "every-sibling"
RETILABLE = {"none": ""} | {name: name for name in (*SIBLINGS, EVERY_SIBLING, "align", "reduction")}
"""The known mistake of `RetiledCaches` by its spelling in a configuration."""

RETILED_ROWS = 16

ATTEMPTS_MAX = 16
CALLS_AHEAD_MAX = 64

Refusals = dict[str, int | str]
"""What stood in the way of a step that was tried again."""


def retried(step: Callable[[], Facts], attempts: int) -> Facts:
    """Run a step, and again for as long as it is refused and attempts are left.

    Raises:
        InputError: no attempts, or more than anybody waits for.
    """
    at_least("attempts", {"attempts": attempts}, 1, ATTEMPTS_MAX)
    refusals: Refusals = {"refused_by": "", "refusals": 0}
    for left in reversed(range(attempts)):
        try:
            return {**refusals, **step()}
        except (CudaError, EngineError) as error:
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


def _refusal(error: CudaError | EngineError, count: int) -> Refusals:
    """Who refused last, and how often somebody did."""
    if isinstance(error, CudaError):
        return {"refused_by": error.api, "error": error.error, "refusals": count}
    by = error.scratch if isinstance(error, ScratchRefused) else "engine"
    return {"refused_by": by, "error": type(error).__name__, "refusals": count}


class InertDevice:
    """A device that accepts the begin of a capture and captures nothing: work just runs.

    Attributes:
        left: how many captures it still makes before it turns so.
    """

    def __init__(self, device: Device, captures: int = 0) -> None:
        self.left = captures
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:
        """Answered, and nothing more where none is left."""
        if self._is_inert():
            return Outcome(SUCCESS)
        return self._device.stream_begin_capture(stream, mode)

    def stream_begin_capture_to_graph(
        self, stream: Stream, graph: Graph, dependencies: Sequence[int], mode: CaptureMode
    ) -> Outcome[None]:
        """Answered, and nothing more where none is left."""
        if self._is_inert():
            return Outcome(SUCCESS)
        return self._device.stream_begin_capture_to_graph(stream, graph, dependencies, mode)

    def _is_inert(self) -> bool:
        self.left -= 1
        return self.left < 0


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
            # A refusal is the thread's last error as well. Which one it is cannot be chosen, so
            # the device is asked for another that it does not have.
            self._device.set_device(-1)
            return Outcome(self._error)
        outcome: Outcome[Any] = getattr(self._device, self._call)(*args, **more)
        return outcome


FAULTS = {
    "none": None,
    "inert": InertDevice,
    "inert_after_two": partial(InertDevice, captures=2),
    "refused_close": ForkingDevice,
    "refused_end": partial(
        RefusingDevice, call="stream_end_capture", error="cudaErrorMemoryAllocation"
    ),
    "refused_executable": partial(
        RefusingDevice, call="graph_instantiate", error="cudaErrorMemoryAllocation"
    ),
    "refused_begin": partial(
        RefusingDevice, call="stream_begin_capture_to_graph", error="cudaErrorMemoryAllocation"
    ),
    "refused_launch": partial(
        RefusingDevice, call="launch_kernel", error="cudaErrorLaunchOutOfResources"
    ),
}
"""The devices by the name that a configuration gives their fault."""

Faulty = InertDevice | ForkingDevice | RefusingDevice | None


def refuse(faulty: Faulty, number: int) -> None:
    """Let one of the coming calls be refused that the fault is about, 1 for the next one.

    Raises:
        InputError: the device has no such fault, or no case makes so many calls.
    """
    at_least("number", {"number": number}, 1, CALLS_AHEAD_MAX)
    if not isinstance(faulty, ForkingDevice | RefusingDevice):
        raise InputError("no call can be refused", expected="a fault that refuses a call")
    faulty.armed = number


class RetiledCaches:
    """A model's caches, one of which is asked for rounded-up rows, but only in a capture.

    Attributes:
        retiled: its name (a sibling, every-sibling, align or reduction); empty for none.
        rows: what rows are rounded up to a multiple of.
    """

    def __init__(self, backend: Backend, caches: Caches, retiled: str) -> None:
        self.retiled = retiled
        self.rows = RETILED_ROWS
        self._backend = backend
        self._caches = caches

    def scratch(
        self, name: str, shape: Key, stream: Stream, *, also: Key = (), dtype: str = "float32"
    ) -> Array:
        """A sibling's array of a shape."""
        asked = name if self.retiled == EVERY_SIBLING else self.retiled
        kept = (self._rows(shape[0], stream) if asked == name else shape[0], *shape[1:])
        found = self._caches.scratch(name, kept, stream, also=also, dtype=dtype)
        return found.pointer.array(shape, dtype)

    def align_table(self, rows: int, stream: Stream) -> Array:
        """The table that sends so many rows to the one matrix."""
        asked = self._rows(rows, stream) if self.retiled == "align" else rows
        return self._caches.align_table(asked, stream).pointer.array((rows, 1), "int32")

    def reduction(self, shape: Key, stream: Stream) -> Array:
        """Room for a product of a shape."""
        rows = self._rows(shape[0], stream) if self.retiled == "reduction" else shape[0]
        return self._caches.reduction((rows, *shape[1:]), stream).pointer.array(shape)

    def close(self) -> None:
        """Give all of it to the driver."""
        self._caches.close()

    def _rows(self, rows: int, stream: Stream) -> int:
        """Rows rounded up while the stream captures."""
        if self._backend.stream_is_capturing(stream) is CaptureStatus.NONE:
            return rows
        return -(-rows // self.rows) * self.rows
