"""A residual sum that measures its rows on the way, and the norm that uses what it measured.

A norm by itself reads every row twice. Where a sum comes right before it, the sum has seen the
row already, and only has to leave the mean square somewhere until the norm runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capturegate.backend import Access, Kernel, Param
from capturegate_reference.kernels import IN, INOUT, OUT, Floats, count


def _add_squares(total: Floats, term: Floats, squares: Floats, *_: Any) -> None:
    total += term
    squares[:, 0] = (total * total).mean(axis=1)


ADD_SQUARES = Kernel(
    name="add_squares",
    params=(
        Param("total", INOUT),
        Param("term", IN),
        Param("squares", OUT),
        count("width"),
        count("threads"),
    ),
    body=_add_squares,
    cuda="""
extern "C" __global__ void add_squares(float* total, const float* term, float* squares,
    int width, int threads) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= threads) return;
  float sum = 0.0f;
  for (int i = row * width; i < (row + 1) * width; ++i) {
    total[i] += term[i];
    sum += total[i] * total[i];
  }
  squares[row] = sum / width;
}
""",
)


def _norm_measured(
    x: Floats, squares: Floats, weight: Floats, out: Floats, eps: float, *_: Any
) -> None:
    scale = np.float32(1) / np.sqrt(squares + np.float32(eps))
    np.multiply(x * scale, weight, out=out)


NORM_MEASURED = Kernel(
    name="norm_measured",
    params=(
        Param("x", IN),
        Param("squares", IN),
        Param("weight", IN),
        Param("out", OUT),
        Param("eps", Access.SCALAR),
        count("width"),
        count("threads"),
    ),
    body=_norm_measured,
    cuda="""
extern "C" __global__ void norm_measured(const float* x, const float* squares,
    const float* weight, float* out, float eps, int width, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  out[i] = x[i] * (1.0f / sqrtf(squares[i / width] + eps)) * weight[i % width];
}
""",
)
