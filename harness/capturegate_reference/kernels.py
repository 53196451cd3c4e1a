"""The kernels that every model uses, each with a NumPy body and a CUDA body.

The CUDA bodies give one thread to one output (or one row) and add in sequence: plain rather than
fast. The NumPy bodies are short because every launch runs one: where a ufunc's own `reduce` says
the same as an array's method, it does not go through Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from capturegate.backend import Access, Kernel, Param

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

IN, OUT, INOUT = Access.IN, Access.OUT, Access.INOUT


def ints(name: str) -> Param:
    """A read-only int32 array."""
    return Param(name, IN, "int32")


def count(name: str) -> Param:
    """An int32 scalar."""
    return Param(name, Access.SCALAR, "int32")


def _rope_table(
    positions: Ints, table_cos: Floats, table_sin: Floats, cos: Floats, sin: Floats, *_: Any
) -> None:
    cos[...] = table_cos[positions]
    sin[...] = table_sin[positions]


ROPE_TABLE = Kernel(
    name="rope_table",
    params=(
        ints("positions"),
        Param("table_cos", IN),
        Param("table_sin", IN),
        Param("cos", OUT),
        Param("sin", OUT),
        count("half"),
        count("threads"),
    ),
    body=_rope_table,
    cuda="""
extern "C" __global__ void rope_table(const int* positions, const float* table_cos,
    const float* table_sin, float* cos_out, float* sin_out, int half, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int from = positions[i / half] * half + i % half;
  cos_out[i] = table_cos[from];
  sin_out[i] = table_sin[from];
}
""",
)


def _embed(tokens: Ints, table: Floats, out: Floats, *_: Any) -> None:
    out[...] = table[tokens]


EMBED = Kernel(
    name="embed",
    params=(
        ints("tokens"),
        Param("table", IN),
        Param("out", OUT),
        count("width"),
        count("threads"),
    ),
    body=_embed,
    cuda="""
extern "C" __global__ void embed(const int* tokens, const float* table, float* out,
    int width, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  out[i] = table[tokens[i / width] * width + i % width];
}
""",
)


def _rms_norm(x: Floats, weight: Floats, out: Floats, width: int, eps: float, *_: Any) -> None:
    rows = x.reshape(-1, width)
    squares = np.add.reduce(rows * rows, axis=1, keepdims=True) / np.float32(width)
    scale = np.float32(1) / np.sqrt(squares + np.float32(eps))
    out.reshape(-1, width)[...] = rows * scale * weight


RMS_NORM = Kernel(
    name="rms_norm",
    params=(
        Param("x", IN),
        Param("weight", IN),
        Param("out", OUT),
        count("width"),
        Param("eps", Access.SCALAR),
        count("threads"),
    ),
    body=_rms_norm,
    cuda="""
extern "C" __global__ void rms_norm(const float* x, const float* weight, float* out,
    int width, float eps, int threads) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= threads) return;
  const float* from = x + row * width;
  float sum = 0.0f;
  for (int i = 0; i < width; ++i) sum += from[i] * from[i];
  float scale = 1.0f / sqrtf(sum / width + eps);
  for (int i = 0; i < width; ++i) out[row * width + i] = from[i] * scale * weight[i];
}
""",
)


def _linear(x: Floats, weight: Floats, out: Floats, *_: Any) -> None:
    np.matmul(x, weight, out=out)


LINEAR = Kernel(
    name="linear",
    params=(
        Param("x", IN),
        Param("weight", IN),
        Param("out", OUT),
        count("inner"),
        count("outer"),
        count("threads"),
    ),
    body=_linear,
    cuda="""
extern "C" __global__ void linear(const float* x, const float* weight, float* out,
    int inner, int outer, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int row = i / outer, column = i % outer;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += x[row * inner + k] * weight[k * outer + column];
  out[i] = sum;
}
""",
)


def _rope(x: Floats, cos: Floats, sin: Floats, out: Floats, heads: int, half: int, *_: Any) -> None:
    pairs = x.reshape(-1, heads, 2, half)
    turned = out.reshape(-1, heads, 2, half)
    c, s = cos[:, None, :], sin[:, None, :]
    turned[:, :, 0] = pairs[:, :, 0] * c - pairs[:, :, 1] * s
    turned[:, :, 1] = pairs[:, :, 1] * c + pairs[:, :, 0] * s


ROPE = Kernel(
    name="rope",
    params=(
        Param("x", IN),
        Param("cos", IN),
        Param("sin", IN),
        Param("out", OUT),
        count("heads"),
        count("half"),
        count("threads"),
    ),
    body=_rope,
    cuda="""
extern "C" __global__ void rope(const float* x, const float* cos_in, const float* sin_in,
    float* out, int heads, int half, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int lane = i % half, head = i / half, row = head / heads;
  int at = head * 2 * half + lane;
  float c = cos_in[row * half + lane], s = sin_in[row * half + lane];
  out[at] = x[at] * c - x[at + half] * s;
  out[at + half] = x[at + half] * c + x[at] * s;
}
""",
)


def _store_kv(k: Floats, v: Floats, slots: Ints, keys: Floats, values: Floats, *_: Any) -> None:
    keys[slots] = k
    values[slots] = v


STORE_KV = Kernel(
    name="store_kv",
    params=(
        Param("k", IN),
        Param("v", IN),
        ints("slots"),
        Param("keys", INOUT),
        Param("values", INOUT),
        count("width"),
        count("threads"),
    ),
    body=_store_kv,
    cuda="""
extern "C" __global__ void store_kv(const float* k, const float* v, const int* slots,
    float* keys, float* values, int width, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int to = slots[i / width] * width + i % width;
  keys[to] = k[i];
  values[to] = v[i];
}
""",
)


def _silu_mul(gate: Floats, up: Floats, out: Floats, *_: Any) -> None:
    out[...] = gate / (np.float32(1) + np.exp(-gate)) * up


SILU_MUL = Kernel(
    name="silu_mul",
    params=(Param("gate", IN), Param("up", IN), Param("out", OUT), count("threads")),
    body=_silu_mul,
    cuda="""
extern "C" __global__ void silu_mul(const float* gate, const float* up, float* out,
    int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}
""",
)


def _add(total: Floats, term: Floats, *_: Any) -> None:
    total += term


ADD = Kernel(
    name="add",
    params=(Param("total", INOUT), Param("term", IN), count("threads")),
    body=_add,
    cuda="""
extern "C" __global__ void add(float* total, const float* term, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < threads) total[i] += term[i];
}
""",
)


def _argmax(logits: Floats, out: Ints, *_: Any) -> None:
    out[...] = logits.argmax(axis=1)


ARGMAX = Kernel(
    name="argmax",
    params=(Param("logits", IN), Param("out", OUT, "int32"), count("width"), count("threads")),
    body=_argmax,
    cuda="""
extern "C" __global__ void argmax(const float* logits, int* out, int width, int threads) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= threads) return;
  const float* from = logits + row * width;
  int best = 0;
  for (int i = 1; i < width; ++i) if (from[i] > from[best]) best = i;
  out[row] = best;
}
""",
)
