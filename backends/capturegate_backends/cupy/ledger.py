"""What the device's owner knows of memory and graphs: generations, and baked accesses."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from capturegate.backend.handles import Pointer, Space
from capturegate.status import Span

Place = tuple[int, int, int]
"""Baked bytes: address of the allocation, offset in it, length, the last two in bytes."""


@dataclass(frozen=True, slots=True)
class Baked:
    """What a recorded call baked into its node: places by address, spans as they stood then."""

    name: str = ""
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    read_spans: tuple[Span, ...] = ()
    write_spans: tuple[Span, ...] = ()


Content = dict[int, Baked]
"""The known nodes of a graph or executable, by node id."""


class Memory:
    """Live allocations by address; an address that comes again is another allocation."""

    def __init__(self) -> None:
        self._next = itertools.count(1).__next__
        self._live: dict[int, tuple[int, int, Space]] = {}

    def add(self, address: int, nbytes: int, space: Space) -> Pointer:
        """Note a new allocation."""
        ident = self._next()
        self._live[address] = (ident, nbytes, space)
        return Pointer(address, nbytes, ident, space)

    def drop(self, address: int) -> None:
        """Note that an allocation is gone."""
        self._live.pop(address, None)

    def at(self, base: int) -> int:
        """The allocation that lives at that first byte now, 0 for none."""
        found = self._live.get(base)
        return found[0] if found else 0

    def owner(self, address: int) -> tuple[int, int, int] | None:
        """Base, allocation and size of the live allocation that covers an address."""
        for base, (ident, nbytes, _) in self._live.items():
            if base <= address < base + max(nbytes, 1):
                return base, ident, nbytes
        return None

    def live(self) -> list[tuple[int, Space]]:
        """The first bytes of all live allocations."""
        return [(address, space) for address, (_, _, space) in self._live.items()]

    def span(self, pointer: Pointer, nbytes: int) -> Span:
        """The bytes behind a pointer, with the allocation that lives there now."""
        return (self.at(pointer.address - pointer.offset), pointer.offset, nbytes)

    def resolve(self, places: tuple[Place, ...]) -> tuple[Span, ...]:
        """Baked places, with the allocations that live there now."""
        return tuple((self.at(base), offset, nbytes) for base, offset, nbytes in places)


def place(pointer: Pointer, nbytes: int) -> Place:
    """The bytes behind a pointer, by address."""
    return (pointer.address - pointer.offset, pointer.offset, nbytes)
