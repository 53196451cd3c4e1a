"""Scratch memory of a step: taken from a pool, given back when the block of code ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from capturegate.backend import ITEM_BYTES, Array, Backend, CudaError
from capturegate_reference.pool import Block, DevicePool

_scoped = threading.local()


@contextmanager
def scope(pool: DevicePool) -> Iterator[None]:
    """Let this thread's scratch come from another pool meanwhile.

    A block still goes back to the pool that it came from, also after the scope has ended.
    """
    outer = getattr(_scoped, "pool", None)
    _scoped.pool = pool
    try:
        yield
    finally:
        _scoped.pool = outer


def active_pool(backend: Backend, default: DevicePool) -> DevicePool:
    """The pool that this thread's scratch comes from.

    Raises:
        PoolError: that pool belongs to another backend.
    """
    pool: DevicePool = getattr(_scoped, "pool", None) or default
    pool.require_backend(backend)
    return pool


class Scratch:
    """Arrays that live until the `with` block ends."""

    def __init__(self, backend: Backend, default: DevicePool) -> None:
        self._pool = active_pool(backend, default)
        self._blocks: list[Block] = []

    def array(self, shape: tuple[int, ...], dtype: str = "float32") -> Array:
        """A new array; its bytes are whatever the last tenant left."""
        block = self._pool.get(math.prod(shape) * ITEM_BYTES[dtype])
        self._blocks.append(block)
        return block.pointer.array(shape, dtype)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        refused: CudaError | None = None
        while self._blocks:
            block = self._blocks.pop()
            try:
                block.owner.put(block)
            except CudaError as late:
                refused = refused or late
        # What went wrong first is what the caller has to see.
        if refused is not None and error is None:
            raise refused
