"""What all calls of one real device share: modules, errors, and the captures that are open."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

from capturegate.backend.handles import (
    CaptureMode,
    Graph,
    Pointer,
    Stream,
)
from capturegate.backend.kernel import Access, Argument, Kernel
from capturegate.errors import CapturegateError
from capturegate.status import SUCCESS, Outcome
from capturegate_backends.cupy.binding import Cuda
from capturegate_backends.cupy.graphs import Graphs
from capturegate_backends.cupy.kernels import Kernels
from capturegate_backends.cupy.ledger import Baked, Memory, place

Touched = tuple[tuple[Pointer, int], ...]
"""What a call reads or writes: pointer and length in bytes."""


class Context:
    """The state of one device.

    A capture is followed from its begin to its end: only while one is open does a call on a
    stream ask for the stream's capture and for the node that the call added.

    Attributes:
        open: per stream that captures, the number of its capture and the graph's native handle.
        captures: our number of each open capture by the runtime's id, which comes again when a
            later capture adds to the same graph.
    """

    def __init__(self, cuda: Cuda, ordinal: int) -> None:
        rt = cuda.runtime
        self.rt, self.driver, self.ordinal = rt, cuda.driver, ordinal
        self._names = {int(code): code.name for code in rt.cudaError_t}
        self.must(rt.cudaSetDevice(ordinal)[0], "cudaSetDevice")
        self.must(rt.cudaFree(0)[0], "the context's creation")
        _, self.properties = rt.cudaGetDeviceProperties(ordinal)
        self.memory = Memory()
        self.kernels = Kernels(cuda, f"sm_{self.properties.major}{self.properties.minor}")
        self.graphs = Graphs(cuda, self.memory, self.kernels)
        self.modes = {
            CaptureMode.GLOBAL: rt.cudaStreamCaptureMode.cudaStreamCaptureModeGlobal,
            CaptureMode.THREAD_LOCAL: rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal,
            CaptureMode.RELAXED: rt.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed,
        }
        self.open: dict[int, tuple[int, int]] = {}
        self.captures: dict[int, int] = {}
        self._next_capture = itertools.count(1).__next__

    def must(self, code: Any, doing: str) -> None:
        """Stop when a call failed without which there is no device."""
        if int(code) != 0:
            raise CapturegateError(f"{doing} returned {self.error(code)}")

    def error(self, code: Any) -> str:
        """The runtime's name of an error code; the driver's codes have the same numbers."""
        number = int(code)
        return self._names.get(number) or f"cudaError{number}"

    def plain(self, answer: Any) -> Outcome[Any]:
        """The outcome of a call that gives nothing back."""
        return Outcome(self.error(answer[0]))

    def on(
        self,
        stream: Stream,
        code: Any,
        value: Any = None,
        name: str = "",
        reads: Touched = (),
        writes: Touched = (),
        records: bool = True,
    ) -> Outcome[Any]:
        """The outcome of a call on a stream: executed now, or recorded into the open capture."""
        error = self.error(code)
        capture = node = 0
        if self.open:
            capture, graph, last = self.capture_of(stream)
            if capture and graph is not None and error == SUCCESS and records and last is not None:
                node = self.graphs.node(graph, last)
                self.graphs.bake(graph, node, self.baked(name, reads, writes))
        if capture or error != SUCCESS:
            return Outcome(error, value, capture, node)
        span = self.memory.span
        return Outcome(
            error,
            value,
            0,
            0,
            tuple(span(pointer, nbytes) for pointer, nbytes in reads),
            tuple(span(pointer, nbytes) for pointer, nbytes in writes),
        )

    def now(
        self,
        code: Any,
        reads: Touched,
        writes: Touched,
    ) -> Outcome[None]:
        """The outcome of a call that executes at once, whatever is captured."""
        error = self.error(code)
        if error != SUCCESS:
            return Outcome(error)
        span = self.memory.span
        return Outcome(
            error,
            None,
            0,
            0,
            tuple(span(p, n) for p, n in reads),
            tuple(span(p, n) for p, n in writes),
        )

    def baked(
        self,
        name: str,
        reads: Touched,
        writes: Touched,
    ) -> Baked:
        """What a recorded call bakes in: places by address, and what stands there now."""
        span = self.memory.span
        return Baked(
            name,
            tuple(place(p, n) for p, n in reads),
            tuple(place(p, n) for p, n in writes),
            tuple(span(p, n) for p, n in reads),
            tuple(span(p, n) for p, n in writes),
        )

    def capture_of(self, stream: Stream) -> tuple[int, Graph | None, Any]:
        """Capture id, graph and last node of a stream; the id alone for an invalidated one.

        The legacy stream is not asked: it never captures, and the question can be an error.
        """
        if stream.id == 0:
            return 0, None, None
        answer = self.rt.cudaStreamGetCaptureInfo(stream.native)
        if int(answer[0]) != 0 or int(answer[1]) == 0:
            return 0, None, None
        if int(answer[1]) == 1:
            graph = self.graphs.graph(answer[3])
            capture = self.number(answer[2])
            self.open[self.slot(stream)] = (capture, int(answer[3]))
            last = answer[4][0] if answer[4] else None
            return capture, graph, last
        return self.open.get(self.slot(stream), (0, 0))[0], None, None

    def number(self, ident: Any) -> int:
        """Our number of the open capture that the runtime calls so."""
        found = self.captures.get(int(ident))
        if found is None:
            found = self.captures[int(ident)] = self._next_capture()
        return found

    def slot(self, stream: Stream) -> int:
        """What tells streams apart; the per-thread stream is another one on each thread."""
        if stream.id != 1:
            return stream.id
        return -threading.get_ident()


def accesses(kernel: Kernel, args: Sequence[Argument]) -> tuple[Touched, Touched]:
    """What a kernel declares to read and to write, as (pointer, bytes)."""
    reads, writes = [], []
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(arg, (int, float)):
            continue
        if param.access in (Access.IN, Access.INOUT):
            reads.append((arg.pointer, arg.nbytes))
        if param.access in (Access.OUT, Access.INOUT):
            writes.append((arg.pointer, arg.nbytes))
    return tuple(reads), tuple(writes)
