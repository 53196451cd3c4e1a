"""Scratch memory of a step: taken from a pool, given back when the block of code ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from capturegate.backend import ITEM_BYTES, Array, Backend, CudaError
from capturegate_reference.pool import Block

_scoped = threading.local()


class Source(Protocol):
    """What scratch comes from: a pool, or an arena on top of one."""

    def require_backend(self, backend: Backend) -> None:
        """Refuse a caller that works on another backend."""

    def get(self, nbytes: int) -> Block:
        """Take a block of at least `nbytes` bytes."""

    def put(self, block: Block) -> None:
        """Give a block back."""


@contextmanager
def scope(pool: Source) -> Iterator[None]:
    """Let this thread's scratch come from another pool meanwhile.

    A block still goes back to the pool that it came from, also after the scope has ended.
    """
    outer = getattr(_scoped, "pool", None)
    _scoped.pool = pool
    try:
        yield
    finally:
        _scoped.pool = outer


def active_pool(backend: Backend, default: Source) -> Source:
    """The pool that this thread's scratch comes from.

    Raises:
        PoolError: that pool belongs to another backend.
    """
    pool: Source = getattr(_scoped, "pool", None) or default
    pool.require_backend(backend)
    return pool


class Scratch:
    """Arrays that live until the `with` block ends."""

    def __init__(self, backend: Backend, default: Source) -> None:
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
                self._pool.put(block)
            except CudaError as late:
                refused = refused or late
        # What went wrong first is what the caller has to see.
        if refused is not None and error is None:
            raise refused
