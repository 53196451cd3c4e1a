"""An engine with the fault that capture gates are about: it takes memory inside its window.

Its temporary comes straight from the driver wherever it runs, also between the begin and the end
of a capture. It serves scenarios that expect the allocation gate to be broken.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, GraphExec, Pointer, StreamKind
from capturegate_reference.captures import StreamCapture
from capturegate_reference.configuration import capture_mode

WIDTH = 8


class AllocatingEngine:
    """Adds a vector to itself by way of a temporary that nobody prepared.

    Attributes:
        result: what the last step computed.
    """

    def __init__(self, backend: Backend, mode: CaptureMode, *, captures: bool) -> None:
        self._backend = backend
        self._captures = captures
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._seam = StreamCapture(backend, self._stream, mode=mode, counts=Counter())
        nbytes = 4 * WIDTH
        self._input = backend.malloc_host(nbytes)
        self.result = backend.malloc(nbytes)
        self._temporaries: list[Pointer] = []
        self._captured: list[Pointer] = []
        self._executable: GraphExec | None = None
        self._steps = 0

    def step(self) -> str:
        """Run one step: the first is eager, the second captures, later ones replay."""
        self._steps += 1
        values = [float(self._steps + column) for column in range(WIDTH)]
        self._backend.host_write(self._input, struct.pack(f"<{WIDTH}f", *values))
        state = "replay"
        if self._steps == 1 or not self._captures:
            self._double(self._temporaries)
            state = "cold"
        elif self._executable is None:
            self._executable = self._capture()
            state = "inert" if self._executable is None else "capture"
        if self._executable is not None:
            self._backend.graph_launch(self._executable, self._stream)
        self._backend.stream_synchronize(self._stream)
        return state

    def drain(self) -> int:
        """Give the temporaries of eager steps back; their size in bytes."""
        freed_bytes = sum(temporary.nbytes for temporary in self._temporaries)
        for temporary in self._temporaries:
            self._backend.free(temporary)
        self._temporaries.clear()
        return freed_bytes

    def close(self) -> None:
        """Let go of everything."""
        if self._executable is not None:
            self._backend.graph_exec_destroy(self._executable)
        for pointer in (*self._temporaries, *self._captured, self.result):
            self._backend.free(pointer)
        self._backend.free_host(self._input)
        self._backend.stream_destroy(self._stream)

    def _double(self, kept: list[Pointer]) -> None:
        from capturegate_reference.kernels import ADD

        backend, nbytes = self._backend, 4 * WIDTH
        temporary = backend.malloc(nbytes)
        kept.append(temporary)
        backend.memcpy_async(temporary, self._input, nbytes, self._stream)
        backend.memcpy_async(self.result, self._input, nbytes, self._stream)
        arrays = self.result.array((WIDTH,)), temporary.array((WIDTH,))
        backend.launch(ADD, (*arrays, WIDTH), self._stream, WIDTH)

    def _capture(self) -> GraphExec | None:
        with self._seam.window():
            self._double(self._captured)
        graph = self._seam.graph
        if graph is None:
            return None
        executable = self._backend.graph_instantiate(graph)
        self._backend.graph_destroy(graph)
        return executable


class AllocatingAdapter:
    """Shows the allocating engine; it tells no pool events, since it has no pool."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {"capture_mode": (str, "thread_local")}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = False

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        self._engine = AllocatingEngine(backend, capture_mode(config), captures=not oracle)
        self._ran = False

    @verb
    def step(self) -> Facts:
        """Run the next step, whatever it comes to."""
        self._ran = True
        return {"state": self._engine.step()}

    @verb
    def drain(self) -> Facts:
        """Give the temporaries of eager steps back to the driver."""
        return {"freed_bytes": self._engine.drain()}

    def counters(self) -> Mapping[str, int]:
        """It counts nothing of its own."""
        return {}

    def outputs(self) -> Sequence[Output]:
        """The one vector that a step computes."""
        if not self._ran:
            return ()
        pointer = self._engine.result
        return (Output(name="result", pointer=pointer, row_bytes=4 * WIDTH, rows=1, rows_padded=1),)

    def buffers(self) -> Sequence[Pointer]:
        """The same vector."""
        return (self._engine.result,)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
