"""Paged attention: each row reads its keys and values page by page, with a running softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from capturegate.backend import Access, Kernel, Param
from capturegate_reference.kernels import IN, OUT, Floats, Ints, count, ints


@np.errstate(all="ignore")
def _paged_attention(
    q: Floats,
    keys: Floats,
    values: Floats,
    tables: Ints,
    requests: Ints,
    lengths: Ints,
    out: Floats,
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
    columns: int,
    scale: float,
    *_: Any,
) -> None:
    rows, group = len(lengths), heads // kv_heads
    queries = q.reshape(rows, kv_heads, group, head_dim) * np.float32(scale)
    pages = tables.reshape(-1, columns)[requests]
    paged_keys = keys.reshape(-1, page_tokens, kv_heads, head_dim)
    paged_values = values.reshape(-1, page_tokens, kv_heads, head_dim)
    best = np.full((rows, kv_heads, group, 1), -np.inf, np.float32)
    total = np.zeros_like(best)
    mixed = np.zeros_like(queries)
    # Pages that no row has reached yet would only add zeros.
    for page in range(-(-int(lengths.max()) // page_tokens)):
        k = paged_keys[pages[:, page]].transpose(0, 2, 3, 1)
        v = paged_values[pages[:, page]].transpose(0, 2, 1, 3)
        known = np.arange(page_tokens) + page * page_tokens < lengths[:, None]
        scores = np.where(known[:, None, None, :], queries @ k, np.float32(-np.inf))
        higher = np.maximum(best, scores.max(axis=-1, keepdims=True))
        weights = np.exp(scores - higher)
        fade = np.exp(best - higher)
        total = total * fade + weights.sum(axis=-1, keepdims=True)
        mixed = mixed * fade + weights @ v
        best = higher
    out.reshape(rows, kv_heads, group, head_dim)[...] = mixed / total


PAGED_ATTENTION = Kernel(
    name="paged_attention",
    params=(
        Param("q", IN),
        Param("keys", IN),
        Param("values", IN),
        ints("tables"),
        ints("requests"),
        ints("lengths"),
        Param("out", OUT),
        count("heads"),
        count("kv_heads"),
        count("head_dim"),
        count("page_tokens"),
        count("columns"),
        Param("scale", Access.SCALAR),
        count("threads"),
    ),
    body=_paged_attention,
    cuda="""
extern "C" __global__ void paged_attention(const float* q, const float* keys,
    const float* values, const int* tables, const int* requests, const int* lengths, float* out,
    int heads, int kv_heads, int head_dim, int page_tokens, int columns, float scale,
    int threads) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  int lane = i % head_dim, head = i / head_dim % heads, row = i / head_dim / heads;
  int kv_head = head / (heads / kv_heads);
  const float* query = q + (row * heads + head) * head_dim;
  const int* table = tables + requests[row] * columns;
  float best = 0.0f, total = 0.0f, mixed = 0.0f;
  for (int token = 0; token < lengths[row]; ++token) {
    int slot = table[token / page_tokens] * page_tokens + token % page_tokens;
    const float* key = keys + (slot * kv_heads + kv_head) * head_dim;
    float score = 0.0f;
    for (int d = 0; d < head_dim; ++d) score += query[d] * key[d];
    score *= scale;
    float higher = token == 0 || score > best ? score : best;
    float fade = token == 0 ? 0.0f : expf(best - higher);
    float weight = expf(score - higher);
    total = total * fade + weight;
    mixed = mixed * fade + weight * values[(slot * kv_heads + kv_head) * head_dim + lane];
    best = higher;
  }
  out[i] = mixed / total;
}
""",
)
