"""Scratch that is kept by shape for as long as the model lives, instead of taken at every step.

All three kinds make memory on a miss. That is harmless in a capture only because the cold step
visits the same shapes before it; what they do when it did not is where they differ.
"""

from __future__ import annotations

import math
from typing import Protocol

from capturegate.backend import ITEM_BYTES, Array, Backend, CaptureStatus, Pointer, Stream
from capturegate_reference.errors import ScratchRefused

Key = tuple[int, ...]

SIBLINGS = (
    "attention-scratch",
    "attention-stats",
    "norm-squares",
    "router-scores",
    "expert-order",
    "expert-offsets",
)
"""The scratch that refuses to grow in a capture, in the order in which a pass asks for it."""


class ShapeKeyedScratch:
    """Buffers by shape that refuse, under their own name, to come into being in a capture.

    Attributes:
        name: what the refusal says.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self.name = name
        self._backend = backend
        self._buffers: dict[Key, Pointer] = {}

    def buffer(self, key: Key, nbytes: int, stream: Stream) -> Pointer:
        """The buffer of a shape.

        Raises:
            ScratchRefused: there is none yet, and the stream captures.
        """
        found = self._buffers.get(key)
        if found is None:
            if self._backend.stream_is_capturing(stream) is not CaptureStatus.NONE:
                raise ScratchRefused(self.name, key)
            found = self._buffers[key] = self._backend.malloc(nbytes)
        return found

    def close(self) -> None:
        """Give all of it to the driver."""
        while self._buffers:
            self._backend.free(self._buffers.popitem()[1])


class AlignTables:
    """For each number of rows a table that sends every row to the first of a stack of matrices.

    With it a plain product runs in the kernel of a routed one. A miss takes raw memory and waits
    for the table to be there, whatever the stream is doing.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tables: dict[int, Array] = {}
        self._made: list[Pointer] = []

    def table(self, rows: int, stream: Stream) -> Array:
        """The table for at least so many rows, one entry a row."""
        found = self._tables.get(rows)
        if found is None:
            pointer = self._backend.malloc(4 * rows)
            self._made.append(pointer)
            self._backend.memset_async(pointer, 0, 4 * rows, stream)
            self._backend.stream_synchronize(stream)
            found = self._tables[rows] = pointer.array((rows, 1), "int32")
        return found

    def close(self) -> None:
        """Give all of it to the driver."""
        self._tables.clear()
        while self._made:
            self._backend.free(self._made.pop())


class ReductionBuffer:
    """One buffer that a product is summed up in, as large as the largest so far.

    It grows in stream order, which a capture turns into a node of its graph without a word.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._pointer: Pointer | None = None
        self._outgrown: list[Pointer] = []

    def room(self, nbytes: int, stream: Stream) -> Pointer:
        """At least so many bytes; the next caller gets the same ones."""
        pointer = self._pointer
        if pointer is None or pointer.nbytes < nbytes:
            larger = self._backend.malloc_async(nbytes, stream)
            if pointer is not None:
                # Graphs that were captured with it still write there.
                self._outgrown.append(pointer)
            pointer = self._pointer = larger
        return pointer

    def close(self) -> None:
        """Give all of it to the driver."""
        for pointer in (*self._outgrown, *([self._pointer] if self._pointer else [])):
            self._backend.free(pointer)
        self._outgrown.clear()
        self._pointer = None


class Caches(Protocol):
    """What a pass asks for by shape instead of taking it from a pool."""

    def scratch(
        self, name: str, shape: Key, stream: Stream, *, also: Key = (), dtype: str = "float32"
    ) -> Array:
        """A sibling's array of a shape; `also` is what the key has beyond the shape.

        Raises:
            ScratchRefused: there is none yet, and the stream captures.
        """

    def align_table(self, rows: int, stream: Stream) -> Array:
        """The table that sends so many rows to the one matrix."""

    def reduction(self, shape: Key, stream: Stream) -> Array:
        """Room for a product of a shape; the next caller gets the same."""

    def close(self) -> None:
        """Give all of it to the driver."""


class ShapeCaches:
    """All that a model keeps by shape: six siblings that refuse, and two caches that do not."""

    def __init__(self, backend: Backend) -> None:
        self._siblings = {name: ShapeKeyedScratch(backend, name) for name in SIBLINGS}
        self._align = AlignTables(backend)
        self._reduction = ReductionBuffer(backend)

    def scratch(
        self, name: str, shape: Key, stream: Stream, *, also: Key = (), dtype: str = "float32"
    ) -> Array:
        """A sibling's array of a shape; `also` is what the key has beyond the shape.

        Raises:
            ScratchRefused: there is none yet, and the stream captures.
        """
        nbytes = ITEM_BYTES[dtype] * math.prod(shape)
        return self._siblings[name].buffer((*shape, *also), nbytes, stream).array(shape, dtype)

    def align_table(self, rows: int, stream: Stream) -> Array:
        """The table that sends so many rows to the one matrix."""
        return self._align.table(rows, stream)

    def reduction(self, shape: Key, stream: Stream) -> Array:
        """Room for a product of a shape; the next caller gets the same."""
        return self._reduction.room(4 * math.prod(shape), stream).array(shape)

    def close(self) -> None:
        """Give all of it to the driver."""
        for sibling in self._siblings.values():
            sibling.close()
        self._align.close()
        self._reduction.close()
