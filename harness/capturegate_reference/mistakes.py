"""A small engine that makes, when it is asked to, one of the mistakes that captures are known for.

All of them capture without an error and are wrong at some replay, so that only a comparison with
an engine that never captures can tell. A step adds what it is given to a state that lives on.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, GraphExec, Pointer, StreamKind
from capturegate_reference.configuration import at_least, choice

LANES = 8
NBYTES = 4 * LANES
CONSTANT_MAX = 1 << 10


class Mistake(enum.StrEnum):
    """What goes wrong."""

    NONE = "none"
    SKIPPED_UPLOAD = "skipped_upload"
    """An upload is left out of a capture, since the device holds the same value at that time."""
    ZEROED_ONCE = "zeroed_once"
    """What a step sums up in is zeroed right before the capture, and not by the graph."""
    BAKED_POSITION = "baked_position"
    """The host decides inside the capture where to write; replays write there for good."""
    RECYCLED_SOURCE = "recycled_source"
    """The host memory of an upload is somebody else's once the capture is over."""
    OVERWRITTEN_SOURCE = "overwritten_source"
    """The graph downloads its result to where it uploads from."""
    STALE_LANES = "stale_lanes"
    """A smaller batch leaves the lanes of the larger one before it as they were."""
    WARMED_UP = "warmed_up"
    """The capture is preceded by runs that nobody asked for, and that move the state."""


class MistakenEngine:
    """Sums up its input, a constant, the last two inputs and its state; one graph a constant.

    Attributes:
        result: what the last step computed, lane by lane.
    """

    def __init__(self, backend: Backend, mistake: Mistake, *, captures: bool) -> None:
        self._backend = backend
        self._mistake = mistake
        self._captures = captures
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._blocks = [backend.malloc(NBYTES) for _ in range(5)]
        self._given, self._constant, self._total, self._state, self.result = self._blocks
        self._history = [backend.malloc(NBYTES) for _ in range(2)]
        for block in (*self._blocks, *self._history):
            backend.memset(block, 0, NBYTES)
        self._host = [backend.malloc_host(NBYTES) for _ in range(4)]
        self._source, self._other_source, self._told, self._constants = self._host
        self._executables: dict[int, GraphExec] = {}
        self._warm: set[int] = set()
        self._written = 0
        self._uploaded = 0
        self._steps = 0

    def step(self, constant: int, rows: int) -> str:
        """Run one step of so many rows: the first of a constant is eager, the second captures."""
        self._steps += 1
        self._refresh(constant, rows)
        position = self._history[self._steps % 2]
        if self._mistake is not Mistake.BAKED_POSITION:
            self._backend.memcpy_async(position, self._source, NBYTES, self._stream)
        executable = self._executables.get(constant)
        state = "replay"
        if constant not in self._warm or not self._captures:
            self._warm.add(constant)
            self._body(constant)
            state = "cold"
        elif executable is None:
            executable = self._executables[constant] = self._capture(constant)
            state = "capture"
        if executable is not None:
            self._backend.graph_launch(executable, self._stream)
        self._backend.stream_synchronize(self._stream)
        if self._mistake is Mistake.RECYCLED_SOURCE and state == "capture":
            self._source, self._other_source = self._other_source, self._source
        return state

    def close(self) -> None:
        """Let go of everything."""
        for executable in self._executables.values():
            self._backend.graph_exec_destroy(executable)
        for block in (*self._blocks, *self._history):
            self._backend.free(block)
        for block in self._host:
            self._backend.free_host(block)
        self._backend.stream_destroy(self._stream)

    def _refresh(self, constant: int, rows: int) -> None:
        lanes = [float(self._steps + lane) for lane in range(rows)]
        if self._mistake is not Mistake.STALE_LANES:
            lanes += [0.0] * (LANES - rows)
        self._backend.host_write(self._source, struct.pack(f"<{len(lanes)}f", *lanes))
        if constant != self._written:
            constants = struct.pack(f"<{LANES}f", *[float(constant)] * LANES)
            self._backend.host_write(self._constants, constants)
            self._written = constant

    def _body(self, constant: int, *, captured: bool = False) -> None:
        """The work of a step, eager or captured."""
        backend, stream, mistake = self._backend, self._stream, self._mistake
        backend.memcpy_async(self._given, self._source, NBYTES, stream)
        if mistake is Mistake.BAKED_POSITION:
            position = self._history[self._steps % 2]
            backend.memcpy_async(position, self._source, NBYTES, stream)
        if mistake is not Mistake.SKIPPED_UPLOAD or constant != self._uploaded:
            backend.memcpy_async(self._constant, self._constants, NBYTES, stream)
            self._uploaded = constant
        if mistake is not Mistake.ZEROED_ONCE or not captured:
            backend.memset_async(self._total, 0, NBYTES, stream)
        self._add(self._state, self._given)
        for term in (self._given, self._constant, *self._history, self._state):
            self._add(self._total, term)
        backend.memcpy_async(self.result, self._total, NBYTES, stream)
        overwrites = mistake is Mistake.OVERWRITTEN_SOURCE and captured
        told = self._constants if overwrites else self._told
        backend.memcpy_async(told, self._total, NBYTES, stream)

    def _add(self, total: Pointer, term: Pointer) -> None:
        from capturegate_reference.kernels import ADD

        arrays = total.array((LANES,)), term.array((LANES,))
        self._backend.launch(ADD, (*arrays, LANES), self._stream, LANES)

    def _capture(self, constant: int) -> GraphExec:
        backend = self._backend
        if self._mistake is Mistake.WARMED_UP:
            for _ in range(2):
                self._body(constant)
        if self._mistake is Mistake.ZEROED_ONCE:
            backend.memset_async(self._total, 0, NBYTES, self._stream)
        backend.stream_begin_capture(self._stream, CaptureMode.THREAD_LOCAL)
        self._body(constant, captured=True)
        graph = backend.stream_end_capture(self._stream)
        executable = backend.graph_instantiate(graph)
        backend.graph_destroy(graph)
        return executable


class MistakesAdapter:
    """Shows the engine; the oracle makes no mistake."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {"mistake": (str, "none")}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = False

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        mistake = choice("mistake", config, {mistake.value: mistake for mistake in Mistake})
        self._engine = MistakenEngine(
            backend, Mistake.NONE if oracle else mistake, captures=not oracle
        )
        self._ran = False

    @verb
    def step(self, constant: int = 1, rows: int = LANES) -> Facts:
        """Run the next step."""
        # 0 is what no constant was uploaded for yet.
        at_least("constant", {"constant": constant}, 1, CONSTANT_MAX)
        at_least("rows", {"rows": rows}, 1, LANES)
        self._ran = True
        return {"state": self._engine.step(constant, rows)}

    def counters(self) -> Mapping[str, int]:
        """It counts nothing of its own."""
        return {}

    def outputs(self) -> Sequence[Output]:
        """The vector that a step computes."""
        if not self._ran:
            return ()
        return (
            Output(
                name="result",
                pointer=self._engine.result,
                row_bytes=NBYTES,
                rows=1,
                rows_padded=1,
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The same vector."""
        return (self._engine.result,)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
