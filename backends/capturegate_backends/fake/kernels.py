"""Kernel launches: arguments baked by value, declared accesses enforced.

A kernel's NumPy body gets views of what it declared and of nothing else, fresh ones at each run.
IN is read-only, OUT a buffer whose former bytes cannot be read and which has to be written whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

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
_POISON_OF: dict[int, Any] = {8: _POISON, 4: _POISON, 1: np.array(OUTPUT_POISON_BYTE, np.uint8)}
"""Poison by the size in bytes of an item that it stands in; arrays, for they compare fastest."""

_DTYPES = {name: np.dtype(name) for name in ITEM_BYTES}

THREADS_MAX = 1024
GRID_X_MAX, GRID_YZ_MAX = 2**31 - 1, 65535
BLOCK_Z_MAX = 64


class KernelMisuse(CapturegateError):
    """A kernel was given, or did, something other than it declares: a defect in the engine."""

    def __init__(self, kernel: str, problem: str) -> None:
        self.kernel = kernel
        self.problem = problem
        super().__init__(f"kernel {kernel}: {problem}")


class BakedArray(NamedTuple):
    """One array argument as it was at the launch or capture; a launch makes one for each."""

    param: Param
    address: int
    shape: tuple[int, ...]
    nbytes: int


Baked = BakedArray | int | float


class Output(NamedTuple):
    """An OUT argument, its position, and the memory that it goes to."""

    at: int
    arg: BakedArray
    target: Any


class KernelCall:
    """A kernel with its baked arguments.

    What stands at the addresses is looked up once, until an address comes to stand for something
    else.
    """

    __slots__ = (
        "_arrays",
        "_given",
        "_outputs",
        "_version",
        "args",
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
        self.args = bake(kernel, args)
        arrays = [arg for arg in self.args if isinstance(arg, BakedArray)]
        self.reads: tuple[Region, ...] = tuple(
            [(a.address, a.nbytes) for a in arrays if a.param.access is not Access.OUT]
        )
        self.writes: tuple[Region, ...] = tuple(
            [(a.address, a.nbytes) for a in arrays if a.param.access is not Access.IN]
        )
        self._version = -1
        self._given: list[Any] = []
        self._arrays: list[int] = []
        self._outputs: list[Output] = []

    def run(self, world: World) -> None:
        """Run the body on what stands at the baked addresses now."""
        if self._version != world.memory.version:
            self._resolve(world)
        given = self._given.copy()
        for at in self._arrays:
            # A body may change the shape or the flags of what it gets, or keep it.
            given[at] = given[at].view()
        written = []
        for at, arg, target in self._outputs:
            buffer, words = _unreadable(arg)
            given[at] = buffer.view()
            written.append((arg, buffer, words, target))
        self._call(world, given)
        for arg, buffer, words, target in written:
            if _unwritten(words):
                raise KernelMisuse(self.name, f"parameter {arg.param.name} was not written whole")
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
        self._given = list(self.args)
        self._arrays = []
        self._outputs = []
        for at, arg in enumerate(self.args):
            if isinstance(arg, BakedArray):
                memory = _memory_of(arg, world)
                if arg.param.access is Access.OUT:
                    self._outputs.append(Output(at, arg, memory))
                else:
                    self._given[at] = memory
                    self._arrays.append(at)
        self._version = world.memory.version


def bake(kernel: Kernel, args: Sequence[Argument]) -> tuple[Baked, ...]:
    """The arguments by value.

    Raises:
        KernelMisuse: they are not what the kernel declares.
    """
    if len(args) != len(kernel.params):
        raise KernelMisuse(
            kernel.name, f"takes {len(kernel.params)} arguments, {len(args)} were given"
        )
    baked: list[Baked] = []
    for param, arg in zip(kernel.params, args, strict=True):
        if isinstance(arg, Array):
            if param.access is Access.SCALAR:
                raise KernelMisuse(kernel.name, f"parameter {param.name} is a scalar, not an array")
            if arg.dtype != param.dtype:
                raise KernelMisuse(
                    kernel.name, f"parameter {param.name} is {param.dtype}, not {arg.dtype}"
                )
            nbytes = prod(arg.shape) * ITEM_BYTES[arg.dtype]
            baked.append(BakedArray(param, arg.pointer.address, arg.shape, nbytes))
        elif param.access is not Access.SCALAR:
            raise KernelMisuse(kernel.name, f"parameter {param.name} is an array, not a scalar")
        # A device gets a scalar that is no integer in single precision.
        else:
            baked.append(int(arg) if param.dtype == "int32" else float(np.float32(arg)))
    return tuple(baked)


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


def _memory_of(arg: BakedArray, world: World) -> Any:
    """The memory of an array argument; one made before serves for as long as the block lives."""
    param, address, shape, nbytes = arg
    read_only = param.access is Access.IN
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


def _unreadable(arg: BakedArray) -> tuple[Any, Any]:
    """A buffer for an OUT argument, full of poison, and the same as raw words or bytes."""
    dtype = _DTYPES[arg.param.dtype]
    poison = _POISON_OF[dtype.itemsize]
    words = np.empty(arg.nbytes // poison.itemsize, poison.dtype)
    words.fill(poison)
    return np.ndarray(arg.shape, dtype, words), words


def _unwritten(raw: Any) -> bool:
    """Whether poison is left; of single bytes, which may look like it, whether all is left."""
    left = int(np.count_nonzero(raw == _POISON_OF[raw.itemsize]))
    return left > 0 if raw.itemsize == 4 else 0 < raw.size == left
