"""The device pool: keeps blocks of device memory by size class and never frees them by itself.

A driver allocation or free stalls a device in practice, and inside a capture it is refused. The
pool takes both off the path of a step. What it cannot do is foresee a capture: for that it
measures what one step takes (`step_demand_profile`) and can be made that deep beforehand
(`pre_grow_for_capture`).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from capturegate.backend import Backend, Pointer
from capturegate.notes import PoolNotes
from capturegate_reference.errors import PoolError
from capturegate_reference.ladder import size_class
from capturegate_reference.switches import switches

BORROW_RATIO_MAX = 2


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
    """A block that is out; not frozen, for each request makes one and that would double the time.

    Attributes:
        pointer: its memory, as large as its class.
        size_class: the class in bytes that it goes home to.
        charged_class: the class in bytes that asked for it; smaller when it is a loan.
        source: where it came from: hit, borrow, driver.
        owner: the pool that it goes back to.
    """

    pointer: Pointer
    size_class: int
    charged_class: int
    source: str
    owner: DevicePool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """A pool's counters; a loan is a hit, so `hits + misses` is the number of requests."""

    hits: int
    misses: int
    borrows: int
    retained_bytes: int
    pinned_bytes: int
    live: int


@dataclass(slots=True)
class _Class:
    """One size class: its free blocks, newest last, and how many are out."""

    free: list[Pointer] = field(default_factory=list)
    live: int = 0
    base: int = 0
    peak: int = 0


@dataclass(slots=True)
class _Charge:
    """What one request changed in its class, to be taken back when it comes to nothing."""

    entry: _Class
    peak_before: int
    peak_after: int
    step: int


def pool_bypassed() -> bool:
    """Whether the pools of this process pass every request on to the driver."""
    return switches().pool_bypass


class DevicePool:
    """One backend's blocks, by size class. Safe to use from several threads.

    Attributes:
        name: tells this pool from others in the trace.
        notes: where the pool tells its events.
    """

    def __init__(self, backend: Backend, name: str) -> None:
        self.name = name
        self.notes = PoolNotes(backend.recorder, name)
        self._backend = backend
        self._exact = switches().pool_exact
        self._may_borrow = switches().pool_borrow and not self._exact
        self._lock = threading.Lock()
        self._classes: dict[int, _Class] = {}
        self._out: dict[int, Block] = {}
        self._holders: dict[int, object] = {}
        self._pins: dict[int, set[Hashable]] = {}
        self._held: dict[int, Pointer] = {}
        self._recordings = threading.local()
        self._hits = 0
        self._misses = 0
        self._borrows = 0
        self._retained_bytes = 0
        self._step = 0

    @property
    def bypassed(self) -> bool:
        """Whether requests go straight to the driver."""
        return pool_bypassed()

    @property
    def figures(self) -> PoolFigures:
        """The counters as they stand."""
        with self._lock:
            return PoolFigures(
                hits=self._hits,
                misses=self._misses,
                borrows=self._borrows,
                retained_bytes=self._retained_bytes,
                pinned_bytes=sum(pointer.nbytes for pointer in self._held.values()),
                live=len(self._out),
            )

    def class_of(self, nbytes: int) -> int:
        """The class in bytes that a request of `nbytes` bytes is charged to.

        Raises:
            PoolError: there is no such class.
        """
        rounded = size_class(nbytes)
        return max(1, nbytes) if self._exact else rounded

    def require_backend(self, backend: Backend) -> None:
        """Refuse a caller that works on another backend.

        Raises:
            PoolError: the pool's blocks live on another backend.
        """
        if backend is not self._backend:
            raise PoolError(
                f"pool {self.name!r} belongs to another backend ({self._backend.name}); its "
                f"blocks mean nothing on this one ({backend.name})"
            )

    def get(self, nbytes: int) -> Block:
        """Take a block of at least `nbytes` bytes.

        Raises:
            CudaError: nothing fits and the driver refused; the request leaves no trace behind.
            PoolError: there is no class for the size.
        """
        if self.bypassed:
            return self._get_from_driver(nbytes)
        wanted = self.class_of(nbytes)
        with self._lock:
            entry = self._class(wanted)
            self.notes.get(wanted, nbytes, len(entry.free), entry.live)
            charge = self._charge(entry)
            found, source = self._take_free(wanted)
            if found is not None:
                self._hits += 1
                self._borrows += source == "borrow"
                self._retained_bytes -= found.nbytes
                return self._hand_out(found, wanted, source)
            self._misses += 1
        # Other threads keep hitting while the driver works.
        try:
            fresh = self._backend.malloc(wanted)
        except BaseException:
            with self._lock:
                self._take_back(charge)
            raise
        with self._lock:
            return self._hand_out(fresh, wanted, "driver")

    def put(self, block: Block, holder: object = None) -> None:
        """Give a block back; one that a holder leased only that holder may.

        Raises:
            PoolError: the block is another pool's, not out, or leased to somebody else.
        """
        if block.owner is not self:
            raise PoolError(f"a block of pool {block.owner.name!r} was put into {self.name!r}")
        allocation = block.pointer.allocation
        with self._lock:
            if self._out.get(allocation) is not block:
                raise PoolError(f"a block of pool {self.name!r} was put back twice")
            if self._holders.get(allocation) is not holder:
                raise PoolError(
                    f"a block of pool {self.name!r} was put back by somebody who does not hold it"
                )
            del self._out[allocation]
            self._holders.pop(allocation, None)
            self.notes.put(block.charged_class, allocation)
            if not self.bypassed:
                self._class(block.charged_class).live -= 1
                self._come_home(block.pointer)
                return
        self._backend.free(block.pointer)

    def lease(self, block: Block, holder: object) -> None:
        """Hand a block that is out to a holder, who alone may put it back.

        Raises:
            PoolError: the block is not out, or somebody holds it already.
        """
        allocation = block.pointer.allocation
        with self._lock:
            if self._out.get(allocation) is not block:
                raise PoolError(f"a block that is not out of pool {self.name!r} was leased")
            if allocation in self._holders:
                raise PoolError(f"a block of pool {self.name!r} was leased twice")
            self._holders[allocation] = holder

    def drain(self) -> int:
        """Give every free block to the driver; the bytes given. Blocks in use stay."""
        with self._lock:
            free = [pointer for entry in self._classes.values() for pointer in entry.free]
            for entry in self._classes.values():
                entry.free.clear()
            freed_bytes = self._retained_bytes
            self._retained_bytes = 0
        for pointer in free:
            self._backend.free(pointer)
        self.notes.drain(freed_bytes)
        return freed_bytes

    def mark_step_boundary(self) -> None:
        """Begin to measure the demand of a step: what is out now belongs to somebody else."""
        with self._lock:
            self._step += 1
            for entry in self._classes.values():
                entry.base = entry.live
                entry.peak = 0

    def step_demand_profile(self) -> dict[int, int]:
        """How many blocks of each class the step needed at once, as a value of its own.

        Shapes interleave through one pool, so the profile belongs to the shape that ran.
        """
        with self._lock:
            return {
                size: entry.peak for size, entry in sorted(self._classes.items()) if entry.peak > 0
            }

    def pre_grow_for_capture(self, profile: Mapping[int, int]) -> int:
        """Make the free stacks as deep as a profile; the number of blocks that took.

        Nothing is reserved: whoever takes a block before the capture opens makes it short.

        Raises:
            CudaError: the driver refused; what came before stays.
        """
        if self.bypassed:
            return 0
        created: dict[int, tuple[int, ...]] = {}
        try:
            for size, wanted in sorted(profile.items()):
                with self._lock:
                    missing = wanted - len(self._class(size).free)
                for _ in range(missing):
                    fresh = self._backend.malloc(size)
                    with self._lock:
                        self._come_home(fresh)
                    created[size] = (*created.get(size, ()), fresh.allocation)
        finally:
            self.notes.pre_grew(created)
        return sum(len(allocations) for allocations in created.values())

    @contextmanager
    def recording(self) -> Iterator[list[Block]]:
        """Collect the blocks that this thread takes meanwhile."""
        outer = getattr(self._recordings, "taken", None)
        taken: list[Block] = []
        self._recordings.taken = taken
        try:
            yield taken
        finally:
            self._recordings.taken = outer

    def pin_for_graph(self, graph: Hashable, taken: Iterable[Block]) -> None:
        """Keep blocks from the next tenant for as long as a graph writes to them.

        Loans and blocks that are still out count as much as those that came back.
        """
        with self._lock:
            for block in taken if not self.bypassed else ():
                pointer = block.pointer
                self._pins.setdefault(pointer.allocation, set()).add(graph)
                stack = self._class(block.size_class).free
                if pointer in stack:
                    stack.remove(pointer)
                    self._retained_bytes -= pointer.nbytes
                    self._held[pointer.allocation] = pointer

    def unpin_for_graph(self, graph: Hashable) -> None:
        """Give a dropped graph's blocks free, but for those that another graph pins."""
        with self._lock:
            for allocation, graphs in list(self._pins.items()):
                graphs.discard(graph)
                if graphs:
                    continue
                del self._pins[allocation]
                pointer = self._held.pop(allocation, None)
                if pointer is not None:
                    self._come_home(pointer)

    def _get_from_driver(self, nbytes: int) -> Block:
        # Told like any request, so that a capture's demand shows even where no pool serves it.
        wanted = max(1, nbytes)
        self.notes.get(wanted, nbytes, 0, 0)
        fresh = self._backend.malloc(wanted)
        with self._lock:
            return self._hand_out(fresh, wanted, "driver")

    def _class(self, size: int) -> _Class:
        entry = self._classes.get(size)
        if entry is None:
            entry = self._classes[size] = _Class()
        return entry

    def _charge(self, entry: _Class) -> _Charge:
        before = entry.peak
        entry.live += 1
        entry.peak = max(before, entry.live - entry.base)
        return _Charge(entry, before, entry.peak, self._step)

    def _take_back(self, charge: _Charge) -> None:
        entry = charge.entry
        entry.live -= 1
        if charge.step != self._step:
            # A boundary since then took this request for a block that is out.
            entry.base -= 1
        elif entry.peak == charge.peak_after:
            entry.peak = charge.peak_before

    def _take_free(self, wanted: int) -> tuple[Pointer | None, str]:
        own = self._classes[wanted].free
        if own:
            return own.pop(), "hit"
        if self._may_borrow:
            for size in sorted(self._classes):
                if wanted < size <= wanted * BORROW_RATIO_MAX and self._classes[size].free:
                    return self._classes[size].free.pop(), "borrow"
        return None, "driver"

    def _hand_out(self, pointer: Pointer, charged_class: int, source: str) -> Block:
        block = Block(
            pointer=pointer,
            size_class=pointer.nbytes,
            charged_class=charged_class,
            source=source,
            owner=self,
        )
        self._out[pointer.allocation] = block
        self.notes.got(charged_class, pointer.allocation, source)
        taken: list[Block] | None = getattr(self._recordings, "taken", None)
        if taken is not None:
            taken.append(block)
        return block

    def _come_home(self, pointer: Pointer) -> None:
        if pointer.allocation in self._pins:
            self._held[pointer.allocation] = pointer
            return
        self._class(pointer.nbytes).free.append(pointer)
        self._retained_bytes += pointer.nbytes
