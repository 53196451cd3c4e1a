"""Input cells: device memory with an address that graphs bake, refreshed before each replay."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

from capturegate.backend import Backend, Event, Pointer, Stream
from capturegate_reference.errors import SeamError
from capturegate_reference.pool import Block, DevicePool


class InputCell:
    """One input of a graph. Its address never moves from the bind on.

    Attributes:
        counts: binds, host refreshes, device refreshes, whatever their size.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self.counts: Counter[str] = Counter()
        self._backend = backend
        self._name = name
        self._block: Block | None = None
        self._nbytes = 0
        self._staging: Pointer | None = None
        self._staged: Event | None = None

    @property
    def pointer(self) -> Pointer:
        """Where graphs find it.

        Raises:
            SeamError: nothing is bound.
        """
        if self._block is None:
            raise SeamError(f"the input cell {self._name!r} is not bound")
        return self._block.pointer

    def bind(self, pool: DevicePool, nbytes: int) -> Pointer:
        """Take room for the largest input.

        Raises:
            SeamError: something is bound already; a graph may have baked its address.
        """
        if self._block is not None:
            raise SeamError(f"the input cell {self._name!r} is bound already")
        with ExitStack() as undo:
            block = pool.get(nbytes)
            undo.callback(pool.put, block)
            staging = self._backend.malloc_host(max(1, nbytes))
            undo.callback(self._backend.free_host, staging)
            self._staged = self._backend.event_create()
            undo.pop_all()
        self._block, self._staging, self._nbytes = block, staging, nbytes
        self.counts["binds"] += 1
        return block.pointer

    def refresh_host(self, data: bytes, stream: Stream) -> None:
        """Bring bytes of the host in; what lies behind them stays as it was.

        Raises:
            SeamError: nothing is bound, or it is too long; not a byte was moved.
        """
        target = self._room(len(data))
        self.counts["host_refreshes"] += 1
        if not data or self._staging is None or self._staged is None:
            return
        # The copy before this one may still be reading.
        self._backend.event_synchronize(self._staged)
        self._backend.host_write(self._staging, data)
        self._backend.memcpy_async(target, self._staging, len(data), stream)
        self._backend.event_record(self._staged, stream)

    def refresh_device(self, source: Pointer, nbytes: int, stream: Stream) -> None:
        """Bring bytes of the device in; what lies behind them stays as it was.

        Raises:
            SeamError: nothing is bound, or it is too long; not a byte was moved.
        """
        target = self._room(nbytes)
        self.counts["device_refreshes"] += 1
        if nbytes:
            self._backend.memcpy_async(target, source, nbytes, stream)

    def close(self) -> None:
        """Give the memory back."""
        if self._block is None or self._staging is None or self._staged is None:
            return
        self._backend.event_synchronize(self._staged)
        self._backend.event_destroy(self._staged)
        self._backend.free_host(self._staging)
        self._block.owner.put(self._block)
        self._block = self._staging = self._staged = None

    def _room(self, nbytes: int) -> Pointer:
        target = self.pointer
        if nbytes > self._nbytes:
            raise SeamError(
                f"{nbytes} bytes do not fit the input cell {self._name!r} of {self._nbytes}"
            )
        return target
