"""Paged attention in two passes: a softmax over the pages of each split, then over the splits.

A row's pages are shared out over a fixed number of splits, so that one long request does not wait
for a single block of threads. What a split found is kept in scratch until the second pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from capturegate.backend import Access, Kernel, Param
from capturegate_reference.kernels import IN, OUT, Floats, Ints, count, ints

SPLITS = 2
"""Into how many parts a row's pages are shared out; fixed, so that it never changes a shape."""

LOWEST = np.float32(-3e38)
"""The best score before there is one; finite, since differences are taken of it."""


def _paged_attention(
    q: Floats,
    keys: Floats,
    values: Floats,
    tables: Ints,
    requests: Ints,
    lengths: Ints,
    partials: Floats,
    stats: Floats,
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
    columns: int,
    splits: int,
    scale: float,
    *_: Any,
) -> None:
    rows, group = len(lengths), heads // kv_heads
    queries = q.reshape(rows, kv_heads, group, head_dim) * np.float32(scale)
    pages = tables.reshape(-1, columns)[requests]
    paged_keys = keys.reshape(-1, page_tokens, kv_heads, head_dim)
    paged_values = values.reshape(-1, page_tokens, kv_heads, head_dim)
    # Pages that no row has reached yet would only add zeros.
    reached = -(-int(lengths.max()) // page_tokens)
    share = -(-columns // splits)
    for split in range(splits):
        first = split * share
        # By index, not as a slice: a page beyond the table is a fault, and not no page.
        mine = pages[:, np.arange(first, min(reached, first + share))]
        tokens = mine.shape[1] * page_tokens
        k = paged_keys[mine].reshape(rows, tokens, kv_heads, head_dim).transpose(0, 2, 3, 1)
        v = paged_values[mine].reshape(rows, tokens, kv_heads, head_dim).transpose(0, 2, 1, 3)
        known = np.arange(tokens) + first * page_tokens < lengths[:, None]
        scores = np.where(known[:, None, None, :], queries @ k, np.float32(-np.inf))
        best = np.maximum.reduce(scores, axis=-1, keepdims=True, initial=LOWEST)
        weights = np.exp(scores - best)
        partials[:, split] = (weights @ v).reshape(rows, heads, head_dim)
        stats[:, split, :, 0] = best.reshape(rows, heads)
        stats[:, split, :, 1] = np.add.reduce(weights, axis=-1).reshape(rows, heads)


PAGED_ATTENTION = Kernel(
    name="paged_attention",
    params=(
        Param("q", IN),
        Param("keys", IN),
        Param("values", IN),
        ints("tables"),
        ints("requests"),
        ints("lengths"),
        Param("partials", OUT),
        Param("stats", OUT),
        count("heads"),
        count("kv_heads"),
        count("head_dim"),
        count("page_tokens"),
        count("columns"),
        count("splits"),
        Param("scale", Access.SCALAR),
        count("threads"),
    ),
    body=_paged_attention,
    cuda="""
extern "C" __global__ void paged_attention(const float* q, const float* keys,
    const float* values, const int* tables, const int* requests, const int* lengths,
    float* partials, float* stats, int heads, int kv_heads, int head_dim, int page_tokens,
    int columns, int splits, float scale, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int lane = i % head_dim, head = i / head_dim % heads;
  int split = i / head_dim / heads % splits, row = i / head_dim / heads / splits;
  int kv_head = head / (heads / kv_heads);
  int share = (columns + splits - 1) / splits * page_tokens;
  int last = lengths[row] < (split + 1) * share ? lengths[row] : (split + 1) * share;
  const float* query = q + (row * heads + head) * head_dim;
  const int* table = tables + requests[row] * columns;
  float best = -3e38f, total = 0.0f, mixed = 0.0f;
  for (int token = split * share; token < last; ++token) {
    int slot = table[token / page_tokens] * page_tokens + token % page_tokens;
    const float* key = keys + (slot * kv_heads + kv_head) * head_dim;
    float score = 0.0f;
    for (int d = 0; d < head_dim; ++d) score += query[d] * key[d];
    score *= scale;
    float higher = score > best ? score : best;
    float fade = expf(best - higher), weight = expf(score - higher);
    total = total * fade + weight;
    mixed = mixed * fade + weight * values[(slot * kv_heads + kv_head) * head_dim + lane];
    best = higher;
  }
  partials[i] = mixed;
  if (lane == 0) {
    stats[i / head_dim * 2] = best;
    stats[i / head_dim * 2 + 1] = total;
  }
}
""",
)


def _attention_combine(partials: Floats, stats: Floats, out: Floats, *_: Any) -> None:
    best, total = stats[..., 0], stats[..., 1]
    share = np.exp(best - np.maximum.reduce(best, axis=1, keepdims=True))
    weighed = np.add.reduce(partials * share[..., None], axis=1)
    out.reshape(weighed.shape)[...] = weighed / np.add.reduce(total * share, axis=1)[..., None]


ATTENTION_COMBINE = Kernel(
    name="attention_combine",
    params=(
        Param("partials", IN),
        Param("stats", IN),
        Param("out", OUT),
        count("heads"),
        count("head_dim"),
        count("splits"),
        count("threads"),
    ),
    body=_attention_combine,
    cuda="""
extern "C" __global__ void attention_combine(const float* partials, const float* stats,
    float* out, int heads, int head_dim, int splits, int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int lane = i % head_dim, head = i / head_dim % heads, row = i / head_dim / heads;
  float best = -3e38f, total = 0.0f, mixed = 0.0f;
  for (int split = 0; split < splits; ++split) {
    float found = stats[((row * splits + split) * heads + head) * 2];
    best = found > best ? found : best;
  }
  for (int split = 0; split < splits; ++split) {
    int at = (row * splits + split) * heads + head;
    float share = expf(stats[at * 2] - best);
    total += stats[at * 2 + 1] * share;
    mixed += partials[at * head_dim + lane] * share;
  }
  out[i] = mixed / total;
}
""",
)
