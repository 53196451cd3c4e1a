"""An arena: what a graph container takes from a pool, kept until the container goes.

Segments of one container run in order on one stream, so they may share scratch among themselves,
and with nobody else. A block that one part gives back serves the next part of the same arena.
"""

from __future__ import annotations

from collections import defaultdict

from capturegate.backend import Backend
from capturegate_reference.pool import Block, DevicePool


class Arena:
    """Blocks of a pool that only one user shares out among its own parts."""

    def __init__(self, pool: DevicePool) -> None:
        self._pool = pool
        self._held: list[Block] = []
        self._free: defaultdict[int, list[Block]] = defaultdict(list)

    def require_backend(self, backend: Backend) -> None:
        """Refuse a caller that works on another backend.

        Raises:
            PoolError: the pool's blocks live on another backend.
        """
        self._pool.require_backend(backend)

    def get(self, nbytes: int) -> Block:
        """Take a block that another part has given back, else one of the pool."""
        free = self._free[self._pool.class_of(nbytes)]
        if free:
            return free.pop()
        block = self._pool.get(nbytes)
        self._held.append(block)
        return block

    def put(self, block: Block) -> None:
        """Give a block back to the other parts."""
        self._free[block.charged_class].append(block)

    def release(self) -> None:
        """Give everything back to the pool."""
        self._free.clear()
        while self._held:
            self._pool.put(self._held.pop())
