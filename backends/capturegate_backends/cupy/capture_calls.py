"""Captures on a real device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capturegate.backend.handles import (
    CaptureInfo,
    CaptureMode,
    CaptureStatus,
    Graph,
    Stream,
)
from capturegate.status import SUCCESS, Outcome
from capturegate_backends.cupy.context import Context

_STATUS = (CaptureStatus.NONE, CaptureStatus.ACTIVE, CaptureStatus.INVALIDATED)


class CaptureCalls:
    """The calls of one device that begin, end and ask about captures."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:
        """Begin a capture into a new graph."""
        (code,) = self._context.rt.cudaStreamBeginCapture(stream.native, self._context.modes[mode])
        return self._begun(stream, code)

    def stream_begin_capture_to_graph(
        self, stream: Stream, graph: Graph, dependencies: Sequence[int], mode: CaptureMode
    ) -> Outcome[None]:
        """Begin a capture that adds to a graph."""
        nodes = [self._context.graphs.native_node(graph.id, node) for node in dependencies]
        (code,) = self._context.rt.cudaStreamBeginCaptureToGraph(
            stream.native, graph.native, nodes, None, len(nodes), self._context.modes[mode]
        )
        return self._begun(stream, code)

    def stream_end_capture(self, stream: Stream) -> Outcome[Graph]:
        """End a capture; the id in the answer is that of a capture that is over now."""
        slot = self._context.slot(stream)
        capture = self._context.capture_of(stream)[0] if self._context.open else 0
        native_graph = self._context.open.get(slot, (0, 0))[1] if capture else 0
        error, native = self._context.rt.cudaStreamEndCapture(stream.native)
        over = bool(capture) and self._ended(stream)
        if over:
            self._context.captures = {
                k: c for k, c in self._context.captures.items() if c != capture
            }
            for other in [s for s, (c, _) in list(self._context.open.items()) if c == capture]:
                del self._context.open[other]
        graph = None
        if int(error) == 0 and native is not None and int(native):
            graph = self._context.graphs.graph(native)
        elif native_graph and slot not in self._context.open:
            self._context.graphs.forget_native(native_graph)
        return Outcome(self._context.error(error), graph, capture if over else 0)

    def stream_is_capturing(self, stream: Stream) -> Outcome[CaptureStatus]:
        """The status alone."""
        error, status = self._context.rt.cudaStreamIsCapturing(stream.native)
        value = _STATUS[int(status)] if int(error) == 0 else None
        capture = self._context.capture_of(stream)[0] if self._context.open else 0
        return Outcome(self._context.error(error), value, capture)

    def stream_get_capture_info(self, stream: Stream) -> Outcome[CaptureInfo]:
        """Status and id."""
        answer = self._context.rt.cudaStreamGetCaptureInfo(stream.native)
        if int(answer[0]) != 0:
            return Outcome(self._context.error(answer[0]))
        status = _STATUS[int(answer[1])]
        capture = self._context.number(answer[2]) if status is CaptureStatus.ACTIVE else 0
        return Outcome(SUCCESS, CaptureInfo(status, capture), capture)

    def thread_exchange_stream_capture_mode(self, mode: CaptureMode) -> Outcome[CaptureMode]:
        """Set the calling thread's own mode; answers the former."""
        error, before = self._context.rt.cudaThreadExchangeStreamCaptureMode(
            self._context.modes[mode]
        )
        if int(error) != 0:
            return Outcome(self._context.error(error))
        return Outcome(
            SUCCESS, next(m for m, code in self._context.modes.items() if code == before)
        )

    def _begun(self, stream: Stream, code: Any) -> Outcome[None]:
        if int(code) == 0:
            # The runtime's id comes again when a later capture adds to the same graph.
            ident = int(self._context.rt.cudaStreamGetCaptureInfo(stream.native)[2])
            self._context.captures.pop(ident, None)
            self._context.open[self._context.slot(stream)] = (self._context.number(ident), 0)
        capture = self._context.capture_of(stream)[0] if self._context.open else 0
        return Outcome(self._context.error(code), None, capture)

    def _ended(self, stream: Stream) -> bool:
        answer = self._context.rt.cudaStreamGetCaptureInfo(stream.native)
        return int(answer[0]) == 0 and int(answer[1]) == 0
