"""Kernel launches: arguments baked by value, declared accesses enforced.

A kernel's NumPy body gets views of what it declared and of nothing else. IN is read-only, OUT a
buffer whose former bytes cannot be read and which has to be written whole.
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

_POISON_OF = {4: np.array(OUTPUT_POISON, np.uint32), 1: np.array(OUTPUT_POISON_BYTE, np.uint8)}
"""Poison by the size in bytes of what it stands in; arrays, for they compare the fastest."""

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
    """Where an OUT argument goes: what the body writes, the same as words, and the memory."""

    param: Param
    buffer: Any
    words: Any
    target: Any


class KernelCall:
    """A kernel with its baked arguments.

    What stands at the addresses is looked up once, until an address comes to stand for something
    else.
    """

    __slots__ = (
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
        self._outputs: list[Output] = []

    def run(self, world: World) -> None:
        """Run the body on what stands at the baked addresses now."""
        if self._version != world.memory.version:
            self._resolve(world)
        for output in self._outputs:
            output.words.fill(_POISON_OF[output.words.itemsize])
        try:
            world.quiet.run(self.kernel.body, *self._given)
        except (TypeError, ValueError, IndexError) as error:
            raise KernelMisuse(self.name, f"its body failed: {error}") from error
        for param, buffer, words, target in self._outputs:
            if _unwritten(words):
                raise KernelMisuse(self.name, f"parameter {param.name} was not written whole")
            target[...] = buffer

    def _resolve(self, world: World) -> None:
        """Find what stands at the addresses."""
        self._given = []
        self._outputs = []
        for at, arg in enumerate(self.args):
            given: Any = arg
            if isinstance(arg, BakedArray):
                given = _view(arg, world)
                if arg.param.access is Access.OUT:
                    buffer, words = _unreadable(at, arg, world)
                    self._outputs.append(Output(arg.param, buffer, words, given))
                    given = buffer
            self._given.append(given)
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


def _view(arg: BakedArray, world: World) -> Any:
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
    view = np.ndarray(shape, _DTYPES[param.dtype], block.data, start)
    if read_only:
        view.flags.writeable = False
    world.memory.keep_view(block, key, view)
    return view


def _unreadable(at: int, arg: BakedArray, world: World) -> tuple[Any, Any]:
    """A buffer for the OUT argument at a position, and the same as raw words or bytes.

    Kernels share it, since a body sees nothing in it but poison.
    """
    key = (at, arg.shape, arg.param.dtype)
    found = world.buffers.get(key)
    if found is None:
        array = np.empty(arg.shape, _DTYPES[arg.param.dtype])
        raw = array.reshape(-1)
        found = world.buffers[key] = (array, raw.view(np.uint32) if array.itemsize >= 4 else raw)
    return found


def _unwritten(raw: Any) -> bool:
    """Whether poison is left; of single bytes, which may look like it, whether all is left."""
    left = int(np.count_nonzero(raw == _POISON_OF[raw.itemsize]))
    return left > 0 if raw.itemsize == 4 else 0 < raw.size == left
