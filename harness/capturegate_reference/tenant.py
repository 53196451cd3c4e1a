"""A tenant: somebody else who takes blocks of a pool and expects to find them as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from capturegate.backend import (
    Backend,
    CaptureMode,
    Device,
    Outcome,
    Pointer,
    Stream,
)

if TYPE_CHECKING:
    from capturegate_reference.pool import Block, DevicePool

CANARY = 0x5A

NBYTES_MAX = 1 << 20
"""The largest block that a tenant takes; he fills every byte of it."""

BLOCKS_MAX = 64


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


class VisitedDevice:
    """A device on which somebody else gets a turn right before an engine's next call of a kind.

    Attributes:
        before_upload: what happens before the next asynchronous copy, once.
        before_window: what happens before the next capture begins, once.
    """

    def __init__(self, device: Device) -> None:
        self.before_upload: Callable[[], None] | None = None
        self.before_window: Callable[[], None] | None = None
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def memcpy_async(
        self, dst: Pointer, src: Pointer, nbytes: int, stream: Stream
    ) -> Outcome[None]:
        """The device's own answer, after the visit."""
        visit, self.before_upload = self.before_upload, None
        if visit is not None:
            visit()
        return self._device.memcpy_async(dst, src, nbytes, stream)

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:
        """The device's own answer, after the visit."""
        visit, self.before_window = self.before_window, None
        if visit is not None:
            visit()
        return self._device.stream_begin_capture(stream, mode)
