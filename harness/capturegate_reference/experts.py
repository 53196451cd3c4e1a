"""The kernels of a mixture-of-experts layer: routing, and the routed experts' products."""

from __future__ import annotations

from typing import Any

import numpy as np

from capturegate.backend import Kernel, Param
from capturegate_reference.kernels import IN, OUT, Floats, Ints, count, ints


def _top_k(scores: Floats, ids: Ints, weights: Floats, *_: Any) -> None:
    chosen = (-scores).argsort(axis=1, kind="stable")[:, : ids.shape[1]]
    kept = scores[np.arange(len(scores))[:, None], chosen]
    shares = np.exp(kept - kept[:, :1])
    ids[...] = chosen
    weights[...] = shares / np.add.reduce(shares, axis=1, keepdims=True)


TOP_K = Kernel(
    name="top_k",
    params=(
        Param("scores", IN),
        Param("ids", OUT, "int32"),
        Param("weights", OUT),
        count("experts"),
        count("kept"),
        count("threads"),
    ),
    body=_top_k,
    cuda="""
extern "C" __global__ void top_k(const float* scores, int* ids, float* weights,
    int experts, int kept, int threads) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= threads) return;
  const float* from = scores + row * experts;
  int* mine = ids + row * kept;
  float total = 0.0f;
  for (int k = 0; k < kept; ++k) {
    int best = -1;
    for (int e = 0; e < experts; ++e) {
      bool taken = false;
      for (int j = 0; j < k; ++j) taken = taken || mine[j] == e;
      if (!taken && (best < 0 || from[e] > from[best])) best = e;
    }
    mine[k] = best;
    total += expf(from[best] - from[mine[0]]);
  }
  for (int k = 0; k < kept; ++k)
    weights[row * kept + k] = expf(from[mine[k]] - from[mine[0]]) / total;
}
""",
)


def _expert_linear(x: Floats, ids: Ints, weight: Floats, out: Floats, *_: Any) -> None:
    for expert in sorted(set(ids.ravel().tolist())):
        rows, places = np.nonzero(ids == expert)
        out[rows, places] = x[rows] @ weight[expert]


EXPERT_LINEAR = Kernel(
    name="expert_linear",
    params=(
        Param("x", IN),
        ints("ids"),
        Param("weight", IN),
        Param("out", OUT),
        count("kept"),
        count("inner"),
        count("outer"),
        count("threads"),
    ),
    body=_expert_linear,
    cuda="""
extern "C" __global__ void expert_linear(const float* x, const int* ids, const float* weight,
    float* out, int kept, int inner, int outer, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int column = i % outer, place = i / outer, row = place / kept;
  const float* matrix = weight + ids[place] * inner * outer;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += x[row * inner + k] * matrix[k * outer + column];
  out[i] = sum;
}
""",
)


def _expert_combine(
    x: Floats, ids: Ints, shares: Floats, weight: Floats, out: Floats, *_: Any
) -> None:
    out[...] = 0
    for expert in sorted(set(ids.ravel().tolist())):
        rows, places = np.nonzero(ids == expert)
        out[rows] += (x[rows, places] @ weight[expert]) * shares[rows, places, None]


EXPERT_COMBINE = Kernel(
    name="expert_combine",
    params=(
        Param("x", IN),
        ints("ids"),
        Param("shares", IN),
        Param("weight", IN),
        Param("out", OUT),
        count("kept"),
        count("inner"),
        count("outer"),
        count("threads"),
    ),
    body=_expert_combine,
    cuda="""
extern "C" __global__ void expert_combine(const float* x, const int* ids, const float* shares,
    const float* weight, float* out, int kept, int inner, int outer, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int column = i % outer, row = i / outer;
  float mixed = 0.0f;
  for (int k = 0; k < kept; ++k) {
    int place = row * kept + k;
    const float* matrix = weight + ids[place] * inner * outer;
    float sum = 0.0f;
    for (int j = 0; j < inner; ++j) sum += x[place * inner + j] * matrix[j * outer + column];
    mixed += sum * shares[place];
  }
  out[i] = mixed;
}
""",
)
