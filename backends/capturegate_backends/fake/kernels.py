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


class KernelCall:
    """A kernel with its baked arguments.

    The views are kept until an address comes to stand for something else.
    """

    __slots__ = (
        "_outputs",
        "_version",
        "_views",
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
        reads: list[Region] = []
        writes: list[Region] = []
        for arg in self.args:
            if isinstance(arg, BakedArray):
                region = (arg.address, arg.nbytes)
                if arg.param.access is not Access.OUT:
                    reads.append(region)
                if arg.param.access is not Access.IN:
                    writes.append(region)
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self._version = -1
        self._views: list[Any] = []
        self._outputs: list[tuple[int, BakedArray]] = []

    def run(self, world: World) -> None:
        """Run the body on what stands at the baked addresses now."""
        if self._version != world.memory.version:
            self._resolve(world)
        given = list(self._views)
        raws = []
        for at, arg in self._outputs:
            given[at], raw = _unreadable(arg)
            raws.append(raw)
        try:
            self.kernel.body(*given)
        except (TypeError, ValueError, IndexError) as error:
            raise KernelMisuse(self.name, f"its body failed: {error}") from error
        for (at, arg), raw in zip(self._outputs, raws, strict=True):
            if _unwritten(raw):
                raise KernelMisuse(self.name, f"parameter {arg.param.name} was not written whole")
            self._views[at][...] = given[at]

    def _resolve(self, world: World) -> None:
        """Find what stands at the addresses."""
        self._views = [
            _view(arg, world) if isinstance(arg, BakedArray) else arg for arg in self.args
        ]
        self._outputs = [
            (at, arg)
            for at, arg in enumerate(self.args)
            if isinstance(arg, BakedArray) and arg.param.access is Access.OUT
        ]
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
        if isinstance(arg, Array) is (param.access is Access.SCALAR):
            wanted, given = (
                ("a scalar", "an array")
                if isinstance(arg, Array)
                else (
                    "an array",
                    "a scalar",
                )
            )
            raise KernelMisuse(kernel.name, f"parameter {param.name} is {wanted}, not {given}")
        baked.append(_array(kernel, param, arg) if isinstance(arg, Array) else _scalar(param, arg))
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


def _array(kernel: Kernel, param: Param, arg: Array) -> BakedArray:
    if arg.dtype != param.dtype:
        raise KernelMisuse(kernel.name, f"parameter {param.name} is {param.dtype}, not {arg.dtype}")
    nbytes = prod(arg.shape) * ITEM_BYTES[arg.dtype]
    return BakedArray(param, arg.pointer.address, arg.shape, nbytes)


def _scalar(param: Param, arg: int | float) -> int | float:
    if param.dtype == "int32":
        return int(arg)
    # A device gets the scalar in single precision.
    return float(np.float32(arg))


def _view(arg: BakedArray, world: World) -> Any:
    param, address, shape, nbytes = arg
    dtype = _DTYPES[param.dtype]
    if nbytes == 0:
        return np.empty(shape, dtype)
    if address % dtype.itemsize:
        raise Fault(MISALIGNED_ADDRESS)
    block, start = world.block_at(address, nbytes)
    view: Any = np.ndarray(shape, dtype, block.data, start)
    if param.access is Access.IN:
        view.flags.writeable = False
    return view


def _unreadable(arg: BakedArray) -> tuple[Any, Any]:
    """A poisoned buffer for an OUT argument, and the same as raw words or bytes."""
    array = np.empty(arg.shape, _DTYPES[arg.param.dtype])
    raw = array.reshape(-1)
    if array.itemsize >= 4:
        raw = raw.view(np.uint32)
        raw.fill(OUTPUT_POISON)
    else:
        raw.fill(OUTPUT_POISON_BYTE)
    return array, raw


def _unwritten(raw: Any) -> bool:
    """Whether poison is left; of single bytes, which may look like it, whether all is left."""
    if raw.itemsize == 4:
        return bool((raw == OUTPUT_POISON).any())
    return bool(raw.size and (raw == OUTPUT_POISON_BYTE).all())
