"""Routed rows put in the order of their experts, and one product over all of them.

A row goes to several experts, and an expert gets rows from all over the batch. Sorted by expert,
each expert's matrix is read once for all of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capturegate.backend import Kernel, Param
from capturegate_reference.kernels import IN, OUT, Floats, Ints, count, ints


def _expert_order(ids: Ints, order: Ints, offsets: Ints, experts: int, *_: Any) -> None:
    places = ids.reshape(-1)
    order.reshape(-1)[...] = places.argsort(kind="stable")
    offsets[0] = 0
    offsets[1:] = np.bincount(places, minlength=experts).cumsum()


EXPERT_ORDER = Kernel(
    name="expert_order",
    params=(
        ints("ids"),
        Param("order", OUT, "int32"),
        Param("offsets", OUT, "int32"),
        count("experts"),
        count("places"),
        count("threads"),
    ),
    body=_expert_order,
    cuda="""
extern "C" __global__ void expert_order(const int* ids, int* order, int* offsets,
    int experts, int places, int threads) {
  int expert = blockIdx.x * blockDim.x + threadIdx.x;
  if (expert >= threads) return;
  int at = 0;
  for (int i = 0; i < places; ++i) at += ids[i] < expert;
  offsets[expert] = at;
  if (expert == experts - 1) offsets[experts] = places;
  for (int i = 0; i < places; ++i) if (ids[i] == expert) order[at++] = i;
}
""",
)
"""One thread an expert; it finds its own rows, so the order never depends on timing."""


def _grouped_linear(
    x: Floats,
    order: Ints,
    offsets: Ints,
    weight: Floats,
    out: Floats,
    kept: int,
    experts: int,
    *_: Any,
) -> None:
    places, bounds = order.reshape(-1), offsets.tolist()
    flat = out.reshape(-1, out.shape[-1])
    for expert in range(experts):
        mine = places[bounds[expert] : bounds[expert + 1]]
        if mine.size:
            flat[mine] = x[mine // kept] @ weight[expert]


GROUPED_LINEAR = Kernel(
    name="grouped_linear",
    params=(
        Param("x", IN),
        ints("order"),
        ints("offsets"),
        Param("weight", IN),
        Param("out", OUT),
        count("kept"),
        count("experts"),
        count("inner"),
        count("outer"),
        count("threads"),
    ),
    body=_grouped_linear,
    cuda="""
extern "C" __global__ void grouped_linear(const float* x, const int* order, const int* offsets,
    const float* weight, float* out, int kept, int experts, int inner, int outer, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int column = i % outer, at = i / outer, place = order[at], expert = 0;
  while (expert < experts - 1 && offsets[expert + 1] <= at) ++expert;
  const float* from = x + place / kept * inner;
  const float* matrix = weight + expert * inner * outer;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += from[k] * matrix[k * outer + column];
  out[place * outer + column] = sum;
}
""",
)
