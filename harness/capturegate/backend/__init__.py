"""The backend interface: what engines call, and what an implementation provides."""

from capturegate.backend.api import Backend
from capturegate.backend.device import Copy, Device, Dim3
from capturegate.backend.handles import (
    ITEM_BYTES,
    Array,
    CaptureInfo,
    CaptureMode,
    CaptureStatus,
    Event,
    Graph,
    GraphExec,
    GraphNode,
    Pointer,
    Space,
    Stream,
    StreamKind,
)
from capturegate.backend.kernel import Access, Argument, Kernel, Param
from capturegate.status import SUCCESS, CudaError, Outcome, Span, Status

__all__ = [
    "ITEM_BYTES",
    "SUCCESS",
    "Access",
    "Argument",
    "Array",
    "Backend",
    "CaptureInfo",
    "CaptureMode",
    "CaptureStatus",
    "Copy",
    "CudaError",
    "Device",
    "Dim3",
    "Event",
    "Graph",
    "GraphExec",
    "GraphNode",
    "Kernel",
    "Outcome",
    "Param",
    "Pointer",
    "Space",
    "Span",
    "Status",
    "Stream",
    "StreamKind",
]
