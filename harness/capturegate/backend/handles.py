"""What a backend hands out: pointers, streams, events, graphs. Identities without behaviour."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

ITEM_BYTES = {"float32": 4, "int32": 4, "uint8": 1, "int64": 8}


class Space(enum.Enum):
    """Where memory lives."""

    DEVICE = "device"
    PINNED = "pinned"
    PAGEABLE = "pageable"
    MANAGED = "managed"


class StreamKind(enum.Enum):
    """How a stream orders itself against the legacy stream."""

    BLOCKING = "blocking"
    NON_BLOCKING = "nonblocking"
    LEGACY = "legacy"
    PER_THREAD = "per_thread"


class CaptureMode(enum.Enum):
    """Which threads' potentially unsafe calls a capture refuses."""

    GLOBAL = "global"
    THREAD_LOCAL = "thread_local"
    RELAXED = "relaxed"


class CaptureStatus(enum.Enum):
    """State of the capture that a stream belongs to.

    NONE --begin--> ACTIVE --end--> NONE; ACTIVE --illegal call--> INVALIDATED --end--> NONE.
    """

    NONE = "None"
    ACTIVE = "Active"
    INVALIDATED = "Invalidated"


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address inside one allocation.

    `allocation` is the generation: an address that is handed out again carries another one.
    `nbytes` counts from `address` to the end of what this pointer may touch. `offset` is the
    distance in bytes from the allocation's first byte.
    """

    address: int
    nbytes: int
    allocation: int
    space: Space = Space.DEVICE
    offset: int = 0

    def at(self, offset_bytes: int, nbytes: int | None = None) -> Pointer:
        """A pointer into the same allocation, `offset_bytes` further on."""
        left = self.nbytes - offset_bytes
        return Pointer(
            self.address + offset_bytes,
            left if nbytes is None else nbytes,
            self.allocation,
            self.space,
            self.offset + offset_bytes,
        )

    def array(self, shape: tuple[int, ...], dtype: str = "float32") -> Array:
        """This memory seen as an array argument of a kernel."""
        return Array(self, shape, dtype)


@dataclass(frozen=True, slots=True)
class Array:
    """A kernel argument: memory with a shape and an item type (a name of `ITEM_BYTES`)."""

    pointer: Pointer
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        count = ITEM_BYTES[self.dtype]
        for extent in self.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream; `id` is unique in its backend, 0 is the legacy stream, 1 the per-thread one."""

    id: int
    kind: StreamKind
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """An event; `id` is unique in its backend."""

    id: int
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph; `id` is unique in its backend."""

    id: int
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GraphExec:
    """An executable made from a graph; `id` is unique in its backend, `graph` is its source's."""

    id: int
    graph: int
    native: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CaptureInfo:
    """What a stream answers about its capture; `capture` is 0 when there is none."""

    status: CaptureStatus
    capture: int = 0


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node of a graph, as recorded.

    `kind` is CUDA's node type in lower case (kernel, memcpy, memset, host, graph, empty,
    event_record, wait_event, mem_alloc, mem_free). `reads` and `writes` are spans
    (allocation, offset in bytes, length in bytes) as they stood when the node was baked. `inner`
    holds the nodes of the graph that a node of kind graph embeds.
    """

    id: int
    kind: str
    name: str = ""
    dependencies: tuple[int, ...] = ()
    reads: tuple[tuple[int, int, int], ...] = ()
    writes: tuple[tuple[int, int, int], ...] = ()
    native: Any = field(default=None, compare=False, repr=False)
    inner: tuple[GraphNode, ...] = ()
