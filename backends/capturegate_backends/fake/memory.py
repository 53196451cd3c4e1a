"""Simulated memory: one address space, allocations with generations, poison.

An address that was freed is handed out again, newest first, to the next request of the same size
and kind, under a new allocation id. Bytes come into being at the first touch, poisoned.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capturegate.backend import Space, Span

Bytes = NDArray[np.uint8]

ALIGNMENT_BYTES = 512
CAPACITY_BYTES = 1 << 37
HOST_CAPACITY_BYTES = 1 << 40
ALLOCATED_POISON = 0x7FC0A110
FREED_POISON = 0x7FC0F4EE
"""Both are NaN as float32, and tell in a dump what they stand for."""

Region = tuple[int, int]
"""Address and length in bytes."""

_FIRST_ADDRESS = {
    Space.DEVICE: 0x7F00_0000_0000,
    Space.MANAGED: 0x7E00_0000_0000,
    Space.PINNED: 0x2000_0000_0000,
    Space.PAGEABLE: 0x5500_0000_0000,
}


class Block:
    """One allocation: a generation of the address that it stands at.

    `pooled` says that it is stream-ordered, `baked` that a graph's node makes it, `leaving` that
    a stream will free it, `registered` that pageable memory is pinned. `views` has the keys of
    the arrays that kernels were given of it.
    """

    __slots__ = (
        "_data",
        "address",
        "baked",
        "id",
        "leaving",
        "nbytes",
        "pooled",
        "registered",
        "space",
        "views",
    )

    def __init__(self, ident: int, address: int, nbytes: int, space: Space) -> None:
        self.id = ident
        self.address = address
        self.nbytes = nbytes
        self.space = space
        self.pooled = self.baked = self.leaving = self.registered = False
        self.views: list[Hashable] = []
        self._data: Bytes | None = None

    @property
    def data(self) -> Bytes:
        """The bytes."""
        if self._data is None:
            self._data = poisoned(self.nbytes, ALLOCATED_POISON)
        return self._data

    def scrub(self) -> None:
        """Poison the bytes of a block that was freed, for whoever still holds a view of them."""
        if self._data is not None:
            fill_poison(self._data, FREED_POISON)


def poisoned(nbytes: int, pattern: int) -> Bytes:
    """A buffer full of a 32-bit pattern."""
    data: Bytes = np.empty(nbytes, np.uint8)
    fill_poison(data, pattern)
    return data


def fill_poison(data: Bytes, pattern: int) -> None:
    """Fill bytes with a little-endian 32-bit pattern; a tail that is shorter gets its start."""
    whole = data.nbytes // 4 * 4
    data[:whole].view(np.uint32).fill(pattern)
    if whole < data.nbytes:
        data[whole:] = np.frombuffer(pattern.to_bytes(4, "little"), np.uint8)[: data.nbytes - whole]


class Memory:
    """All memory of one device and its host.

    Attributes:
        capacity_bytes: how much device memory there is.
        version: changes whenever an address comes to stand for something else.
        views: the arrays that kernels were given of live blocks.
    """

    def __init__(self) -> None:
        self.capacity_bytes = CAPACITY_BYTES
        self.version = 0
        self.views: dict[Hashable, Any] = {}
        self._next_id = 1
        self._next_address = dict(_FIRST_ADDRESS)
        self._live: dict[int, Block] = {}
        self._addresses: list[int] = []
        self._device_bytes = 0
        self._reserved: list[Block] = []
        self._free: dict[tuple[Space, bool, int], list[int]] = {}

    @property
    def free_bytes(self) -> int:
        """Device memory that nobody holds."""
        return self.capacity_bytes - self._device_bytes

    def allocate(self, nbytes: int, space: Space, *, pooled: bool = False) -> Block | None:
        """A new allocation, or None when the device has no more memory."""
        size = _rounded(nbytes)
        if space in (Space.DEVICE, Space.MANAGED) and size > self.free_bytes:
            return None
        if size > HOST_CAPACITY_BYTES:
            return None
        returned = self._free.get((space, pooled, size))
        address = returned.pop() if returned else self._fresh_address(nbytes, space)
        block = self._new(address, nbytes, space)
        block.pooled = pooled
        return block

    def reserve(self, nbytes: int) -> Block:
        """An address for what a graph's node will make; nothing stands there yet."""
        block = Block(
            self._next_id, self._fresh_address(nbytes, Space.DEVICE), nbytes, Space.DEVICE
        )
        self._next_id += 1
        self._reserved.append(block)
        return block

    def is_reserved(self, address: int) -> bool:
        """Whether that address is reserved for what a graph's node makes."""
        return any(block.address == address for block in self._reserved)

    def forgo(self, address: int) -> None:
        """Drop the reservation of a node whose graph did not come about."""
        self._reserved = [block for block in self._reserved if block.address != address]

    def bake(self, address: int, nbytes: int) -> Block:
        """The allocation that a graph's node makes at the address that was reserved for it."""
        block = self._new(address, nbytes, Space.DEVICE)
        block.pooled = block.baked = True
        return block

    def release(self, block: Block) -> None:
        """End an allocation; its address may be handed out again."""
        del self._live[block.address]
        self._addresses.pop(bisect.bisect_left(self._addresses, block.address))
        self.version += 1
        for view in block.views:
            del self.views[view]
        block.scrub()
        if block.space in (Space.DEVICE, Space.MANAGED):
            self._device_bytes -= _rounded(block.nbytes)
        if not block.baked:
            key = (block.space, block.pooled, _rounded(block.nbytes))
            self._free.setdefault(key, []).append(block.address)

    def keep_view(self, block: Block, key: Hashable, view: Any) -> None:
        """Keep an array of a block's bytes for as long as the block lives."""
        self.views[key] = view
        block.views.append(key)

    def trim(self) -> None:
        """Give what the stream-ordered pool holds back; its addresses come no more."""
        for key in [key for key in self._free if key[1]]:
            del self._free[key]

    def starting_at(self, address: int) -> Block | None:
        """The live allocation whose first byte this is."""
        return self._live.get(address)

    def holding(self, address: int, nbytes: int = 1) -> Block | None:
        """The live allocation that holds all these bytes."""
        block = self._live.get(address)
        if block is None:
            at = bisect.bisect_right(self._addresses, address) - 1
            if at < 0:
                return None
            block = self._live[self._addresses[at]]
        return block if address + nbytes <= block.address + block.nbytes else None

    def spans(self, regions: tuple[Region, ...]) -> tuple[Span, ...]:
        """What stands at these addresses now; regions outside any allocation are left out."""
        found = []
        starting_at = self._live.get
        for address, nbytes in regions:
            block = starting_at(address)
            if block is not None and 0 < nbytes <= block.nbytes:
                found.append((block.id, 0, nbytes))
                continue
            block = self.holding(address, nbytes) if nbytes else None
            if block is not None:
                found.append((block.id, address - block.address, nbytes))
        return tuple(found)

    def baked_spans(self, regions: tuple[Region, ...]) -> tuple[Span, ...]:
        """The same for a node being recorded, which may also use what its graph will allocate."""
        found = self.spans(regions)
        for block in self._reserved:
            for address, nbytes in regions:
                if block.address <= address < block.address + block.nbytes:
                    found += ((block.id, address - block.address, nbytes),)
        return found

    def _fresh_address(self, nbytes: int, space: Space) -> int:
        address = self._next_address[space]
        self._next_address[space] += _rounded(nbytes)
        return address

    def _new(self, address: int, nbytes: int, space: Space) -> Block:
        block = Block(self._next_id, address, nbytes, space)
        self._next_id += 1
        self._live[address] = block
        bisect.insort(self._addresses, address)
        self.version += 1
        if space in (Space.DEVICE, Space.MANAGED):
            self._device_bytes += _rounded(nbytes)
        return block


def _rounded(nbytes: int) -> int:
    return max(1, -(-nbytes // ALIGNMENT_BYTES)) * ALIGNMENT_BYTES
