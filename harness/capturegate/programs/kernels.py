"""The three small kernels of call programs: one that commutes, one that does not, one that moves.

All work on 16 int32 with unsigned wrap-around, so that both sides agree to the bit.
"""

from __future__ import annotations

from typing import Any

from capturegate.backend.kernel import Access, Kernel, Param

ITEMS = 16
BLOCK_BYTES = 4 * ITEMS


def _add(x: Any, k: int) -> None:
    x += x.dtype.type(k)


def _mix(x: Any, k: int) -> None:
    x *= x.dtype.type(3)
    x += x.dtype.type(k)


def _move(y: Any, x: Any, k: int) -> None:
    y[:] = x + x.dtype.type(k)


_HEAD = 'extern "C" __global__ void program_'
_INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < 16) "

ADD = Kernel(
    name="program_add",
    params=(Param("x", Access.INOUT, "int32"), Param("k", Access.SCALAR, "int32")),
    body=_add,
    cuda=f"{_HEAD}add(int* x, int k) {{ {_INDEX} atomicAdd(x + i, k); }}",
)
MIX = Kernel(
    name="program_mix",
    params=(Param("x", Access.INOUT, "int32"), Param("k", Access.SCALAR, "int32")),
    body=_mix,
    cuda=f"{_HEAD}mix(int* x, int k) {{ {_INDEX} x[i] = x[i] * 3 + k; }}",
)
MOVE = Kernel(
    name="program_move",
    params=(
        Param("y", Access.OUT, "int32"),
        Param("x", Access.IN, "int32"),
        Param("k", Access.SCALAR, "int32"),
    ),
    body=_move,
    cuda=f"{_HEAD}move(int* y, const int* x, int k) {{ {_INDEX} y[i] = x[i] + k; }}",
)
BY_NAME = {"add": ADD, "mix": MIX, "move": MOVE}
