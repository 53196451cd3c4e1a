"""What a stream or a node of a graph does: copies, sets, host functions, memory nodes.

Everything an operation needs was baked into it by value: addresses, lengths, shapes, scalars.
What stands at an address is found when the operation runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from capturegate.backend import Space
from capturegate_backends.fake.memory import Block, Bytes, Memory, Region

if TYPE_CHECKING:
    from capturegate_backends.fake.state import EventState

ILLEGAL_ADDRESS = "cudaErrorIllegalAddress"
MISALIGNED_ADDRESS = "cudaErrorMisalignedAddress"
NOT_PERMITTED = "cudaErrorNotPermitted"


class Fault(Exception):
    """The device hit something that it does not recover from; `error` is CUDA's name."""

    def __init__(self, error: str) -> None:
        self.error = error
        super().__init__(error)


@dataclass(slots=True)
class World:
    """What operations work on.

    Attributes:
        refusal: the error that every runtime call returns at present: the sticky error of a lost
            device, or the one that a host function gets; empty when calls are answered.
        body_of: the kernel whose body runs at present; empty when none does.
    """

    memory: Memory
    refusal: str = ""
    body_of: str = ""

    def block_at(self, address: int, nbytes: int) -> tuple[Block, int]:
        """The allocation that holds these bytes, and the offset of the first in it.

        Raises:
            Fault: some of them belong to no live allocation.
        """
        block = self.memory.holding(address, nbytes)
        if block is None:
            raise Fault(ILLEGAL_ADDRESS)
        return block, address - block.address

    def bytes_at(self, address: int, nbytes: int) -> Bytes:
        """The bytes at an address.

        Raises:
            Fault: some of them belong to no live allocation.
        """
        block, start = self.block_at(address, nbytes)
        return block.data[start : start + nbytes]


class Operation(Protocol):
    """One piece of work; `kind` is the node type that it is recorded as."""

    @property
    def kind(self) -> str:
        """CUDA's node type in lower case."""

    @property
    def name(self) -> str:
        """The kernel's name, empty for other work."""

    @property
    def reads(self) -> tuple[Region, ...]:
        """What it was given to read."""

    @property
    def writes(self) -> tuple[Region, ...]:
        """What it was given to write."""

    def run(self, world: World) -> None:
        """Do it.

        Raises:
            Fault: it touched what it may not.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """Takes its place in the order and does nothing."""

    kind: str = "empty"
    name: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()

    def run(self, world: World) -> None:
        """Nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copies bytes; a host source is read when the copy runs.

    `route` names the two kinds of memory, which an update of an executable may not change.
    """

    target: int
    source: int
    nbytes: int
    route: tuple[Space, Space]
    kind: str = "memcpy"
    name: str = ""

    @property
    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return ((self.source, self.nbytes),)

    @property
    def writes(self) -> tuple[Region, ...]:
        """The target."""
        return ((self.target, self.nbytes),)

    def run(self, world: World) -> None:
        """Copy."""
        if self.nbytes:
            source = world.bytes_at(self.source, self.nbytes)
            world.bytes_at(self.target, self.nbytes)[:] = source


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCopy:
    """Copies what a pageable source held when the call was made."""

    target: int
    data: bytes
    reads: tuple[Region, ...]
    kind: str = "memcpy"
    name: str = ""

    @property
    def writes(self) -> tuple[Region, ...]:
        """The target."""
        return ((self.target, len(self.data)),)

    def run(self, world: World) -> None:
        """Copy."""
        world.bytes_at(self.target, len(self.data))[:] = np.frombuffer(self.data, np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Several copies that are one piece of work."""

    copies: tuple[Copy, ...]
    kind: str = "memcpy"
    name: str = ""

    @property
    def reads(self) -> tuple[Region, ...]:
        """All sources."""
        return tuple(region for copy in self.copies for region in copy.reads)

    @property
    def writes(self) -> tuple[Region, ...]:
        """All targets."""
        return tuple(region for copy in self.copies for region in copy.writes)

    def run(self, world: World) -> None:
        """Copy all."""
        for copy in self.copies:
            copy.run(world)


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Sets bytes to one value."""

    target: int
    value: int
    nbytes: int
    kind: str = "memset"
    name: str = ""
    reads: tuple[Region, ...] = ()

    @property
    def writes(self) -> tuple[Region, ...]:
        """The target."""
        return ((self.target, self.nbytes),)

    def run(self, world: World) -> None:
        """Set."""
        if self.nbytes:
            world.bytes_at(self.target, self.nbytes)[:] = self.value & 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """Calls a host function, which may not call the runtime."""

    function: Callable[[], None]
    kind: str = "host"
    name: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()

    def run(self, world: World) -> None:
        """Call."""
        before, world.refusal = world.refusal, NOT_PERMITTED
        try:
            self.function()
        finally:
            world.refusal = before


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMark:
    """A node about an event that lives outside the graph: `event_record` or `wait_event`."""

    event: EventState
    kind: str
    name: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()

    def run(self, world: World) -> None:
        """The order was arranged when the graph was launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """A node that makes an allocation at the address that was reserved for it.

    The allocation comes into being at the launch, so that the launch can name it.
    """

    address: int
    nbytes: int
    kind: str = "mem_alloc"
    name: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()

    def run(self, world: World) -> None:
        """Nothing is left to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Frees in stream order."""

    address: int
    kind: str = "mem_free"
    name: str = ""
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()

    def run(self, world: World) -> None:
        """Free what stands there."""
        block = world.memory.starting_at(self.address)
        if block is None:
            raise Fault(ILLEGAL_ADDRESS)
        world.memory.release(block)
