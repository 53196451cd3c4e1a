"""A tenant: somebody else who takes blocks of a pool and expects to find them as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capturegate.backend import Backend

if TYPE_CHECKING:
    from capturegate_reference.pool import Block, DevicePool

CANARY = 0x5A


class Tenant:
    """Holds blocks full of canaries."""

    def __init__(self, backend: Backend, pool: DevicePool) -> None:
        self._backend = backend
        self._pool = pool
        self._blocks: list[Block] = []

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, nbytes: int, blocks: int) -> None:
        """Take blocks and fill them."""
        for _ in range(blocks):
            block = self._pool.get(nbytes)
            self._blocks.append(block)
            self._backend.memset(block.pointer, CANARY, block.pointer.nbytes)

    def intact_blocks(self) -> int:
        """How many of the blocks are as they were left."""
        intact = 0
        for block in self._blocks:
            nbytes = block.pointer.nbytes
            copy = self._backend.pageable(nbytes)
            self._backend.memcpy(copy, block.pointer, nbytes)
            intact += self._backend.host_read(copy, nbytes) == bytes([CANARY]) * nbytes
        return intact

    def leave(self) -> None:
        """Give the blocks back."""
        while self._blocks:
            self._pool.put(self._blocks.pop())
