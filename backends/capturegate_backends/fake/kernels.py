"""Kernel launches: arguments baked by value, declared accesses enforced.

A kernel's NumPy body gets views of what it declared and of nothing else, fresh ones at each run.
IN is read-only, OUT a buffer whose former bytes cannot be read and which has to be written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from capturegate.backend import ITEM_BYTES, Access, Argument, Array, Dim3, Kernel, Param
from capturegate.errors import CapturegateError
from capturegate_backends.fake.memory import Region
from capturegate_backends.fake.operations import MISALIGNED_ADDRESS, Fault

if TYPE_CHECKING:
    from capturegate_backends.fake.operations import World

OUTPUT_POISON = 0x7FC00BAD
"""NaN as float32; what an OUT buffer holds before the body writes it."""

OUTPUT_POISON_BYTE = 0xBD

_POISON = np.array(OUTPUT_POISON, np.uint32)
_POISON_OF: dict[int, Any] = {4: _POISON, 1: np.array(OUTPUT_POISON_BYTE, np.uint8)}
"""Poison by the size in bytes of a unit of it; arrays, for they compare fastest."""

_IN, _OUT, _SCALAR = Access.IN, Access.OUT, Access.SCALAR

_DTYPES = {name: np.dtype(name) for name in ITEM_BYTES}
_UNIT_BYTES = {name: 1 if nbytes == 1 else 4 for name, nbytes in ITEM_BYTES.items()}
"""How much of an item its poison covers at a time."""

THREADS_MAX = 1024
GRID_X_MAX, GRID_YZ_MAX = 2**31 - 1, 65535
BLOCK_Z_MAX = 64


class KernelMisuse(CapturegateError):
    """A kernel was given, or did, something other than it declares: a defect in the engine."""

    def __init__(self, kernel: str, problem: str) -> None:
        self.kernel = kernel
        self.problem = problem
        super().__init__(f"kernel {kernel}: {problem}")


BakedArray = tuple[int, Param, int, tuple[int, ...], int]
"""An array argument as it was at the launch or capture: its position among the arguments, its
parameter, address, shape, and length in bytes. A plain tuple, for a launch makes one for each."""


class KernelCall:
    """A kernel with its baked arguments.

    What stands at the addresses is looked up once, until an address comes to stand for something
    else.
    """

    __slots__ = (
        "_arrays",
        "_baked",
        "_given",
        "_outputs",
        "_scalars",
        "_version",
        "block",
        "grid",
        "kernel",
        "kind",
        "name",
        "reads",
        "writes",
    )

    def __init__(self, kernel: Kernel, grid: Dim3, block: Dim3, args: Sequence[Argument]) -> None:
        self.kernel = kernel
        self.kind = "kernel"
        self.name = kernel.name
        self.grid = grid
        self.block = block
        self._scalars, self._baked = bake(kernel, args)
        reads: list[Region] = []
        writes: list[Region] = []
        for _, param, address, _, nbytes in self._baked:
            region, access = (address, nbytes), param.access
            if access is not _OUT:
                reads.append(region)
            if access is not _IN:
                writes.append(region)
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self._version = -1
        self._given: list[Any] = []
        self._arrays: list[int] = []
        self._outputs: list[tuple[BakedArray, Any]] = []

    def run(self, world: World) -> None:
        """Run the body on what stands at the baked addresses now."""
        if self._version != world.memory.version:
            self._resolve(world)
        given = self._given.copy()
        for at in self._arrays:
            # A body may change the shape or the flags of what it gets, or keep it.
            given[at] = given[at].view()
        written = []
        for baked, target in self._outputs:
            buffer, words = _unreadable(baked)
            given[baked[0]] = buffer.view()
            written.append((baked[1], buffer, words, target))
        self._call(world, given)
        for param, buffer, words, target in written:
            if _unwritten(words):
                raise KernelMisuse(self.name, f"parameter {param.name} was not written whole")
            target[...] = buffer

    def _call(self, world: World, given: list[Any]) -> None:
        """Run the body, without floating-point warnings as on a device."""
        world.body_of = self.name
        try:
            with np.errstate(all="ignore"):
                self.kernel.body(*given)
        except (TypeError, ValueError, IndexError) as error:
            raise KernelMisuse(self.name, f"its body failed: {error}") from error
        finally:
            world.body_of = ""

    def _resolve(self, world: World) -> None:
        """Find what stands at the addresses."""
        given = self._given = self._scalars.copy()
        arrays = self._arrays = []
        outputs = self._outputs = []
        for baked in self._baked:
            memory = _memory_of(baked, world)
            if baked[1].access is _OUT:
                outputs.append((baked, memory))
            else:
                at = baked[0]
                given[at] = memory
                arrays.append(at)
        self._version = world.memory.version


def bake(
    kernel: Kernel, args: Sequence[Argument]
) -> tuple[list[int | float | None], list[BakedArray]]:
    """The arguments by value: all with None for arrays, and the arrays.

    Raises:
        KernelMisuse: they are not what the kernel declares.
    """
    if len(args) != len(kernel.params):
        raise KernelMisuse(
            kernel.name, f"takes {len(kernel.params)} arguments, {len(args)} were given"
        )
    scalars: list[int | float | None] = []
    arrays: list[BakedArray] = []
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(arg, Array):
            if param.access is _SCALAR:
                raise KernelMisuse(kernel.name, f"parameter {param.name} is a scalar, not an array")
            dtype, shape = arg.dtype, arg.shape
            if dtype != param.dtype:
                raise KernelMisuse(
                    kernel.name, f"parameter {param.name} is {param.dtype}, not {dtype}"
                )
            nbytes = prod(shape) * ITEM_BYTES[dtype]
            arrays.append((len(scalars), param, arg.pointer.address, shape, nbytes))
            scalars.append(None)
        elif param.access is not _SCALAR:
            raise KernelMisuse(kernel.name, f"parameter {param.name} is an array, not a scalar")
        # A device gets a scalar that is no integer in single precision.
        else:
            scalars.append(int(arg) if param.dtype == "int32" else float(np.float32(arg)))
    return scalars, arrays


def launchable(grid: Dim3, block: Dim3) -> bool:
    """Whether a device takes this configuration (compute capability 3.0 and later)."""
    x, y, z = grid
    u, v, w = block
    return (
        1 <= x <= GRID_X_MAX
        and 1 <= y <= GRID_YZ_MAX
        and 1 <= z <= GRID_YZ_MAX
        and u >= 1
        and v >= 1
        and 1 <= w <= BLOCK_Z_MAX
        and u * v * w <= THREADS_MAX
    )


def _memory_of(baked: BakedArray, world: World) -> Any:
    """The memory of an array argument; one made before serves for as long as the block lives."""
    _, param, address, shape, nbytes = baked
    read_only = param.access is _IN
    key = (address, shape, param.dtype, read_only)
    view = world.memory.views.get(key)
    if view is not None:
        return view
    if nbytes == 0:
        return np.empty(shape, _DTYPES[param.dtype])
    if address % ITEM_BYTES[param.dtype]:
        raise Fault(MISALIGNED_ADDRESS)
    block, start = world.block_at(address, nbytes)
    data = block.data
    if read_only:
        # NumPy refuses to make an array writeable where nothing that it stands on is.
        data = np.frombuffer(data.data.toreadonly(), np.uint8)
    view = np.ndarray(shape, _DTYPES[param.dtype], data, start)
    world.memory.keep_view(block, key, view)
    return view


def _unreadable(baked: BakedArray) -> tuple[Any, Any]:
    """A buffer for an OUT argument, full of poison, and the same as raw words or bytes."""
    _, param, _, shape, nbytes = baked
    unit = _UNIT_BYTES[param.dtype]
    poison = _POISON_OF[unit]
    words = np.empty(nbytes // unit, poison.dtype)
    words.fill(poison)
    return np.ndarray(shape, _DTYPES[param.dtype], words), words


def _unwritten(raw: Any) -> bool:
    """Whether poison is left; of single bytes, which may look like it, whether all is left."""
    left = int(np.count_nonzero(raw == _POISON_OF[raw.itemsize]))
    return left > 0 if raw.itemsize == 4 else 0 < raw.size == left
