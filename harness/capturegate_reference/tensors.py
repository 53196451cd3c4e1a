"""A model's tensors on the host: their shapes, and their values from a seed."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from capturegate_reference.sizes import MOE, ModelSizes

ALIGNMENT_BYTES = 256
ROPE_BASE = 10_000.0

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(sizes: ModelSizes) -> Shapes:
    """Every tensor by name, inputs before outputs."""
    hidden, kv = sizes.hidden, sizes.kv_width
    moe = sizes.kind == MOE
    stack = (sizes.experts,) if moe else ()
    width = sizes.expert_width if moe else sizes.mlp_width
    shapes: Shapes = {
        "embedding": (sizes.vocab, hidden),
        "rope_cos": (sizes.context_tokens, sizes.half),
        "rope_sin": (sizes.context_tokens, sizes.half),
        "final_norm": (hidden,),
        "head": (hidden, sizes.vocab),
    }
    for number in range(sizes.layers):
        layer: Shapes = {
            "attention_norm": (hidden,),
            "q": (hidden, hidden),
            "k": (hidden, kv),
            "v": (hidden, kv),
            "q_norm": (sizes.head_dim,),
            "k_norm": (sizes.head_dim,),
            "o": (hidden, hidden),
            "mlp_norm": (hidden,),
            "router": (hidden, sizes.experts if moe else 0),
            "gate": (*stack, hidden, width),
            "up": (*stack, hidden, width),
            "down": (*stack, width, hidden),
        }
        shapes |= {f"{number}.{name}": shape for name, shape in layer.items()}
    return shapes


@functools.cache
def weight_image(sizes: ModelSizes, seed: int) -> tuple[bytes, dict[str, int]]:
    """All tensors as one run of bytes, and where each begins; the same for every engine."""
    random = np.random.default_rng(seed)
    offsets: dict[str, int] = {}
    end = 0
    for name, shape in weight_shapes(sizes).items():
        offsets[name] = end
        end += -(-4 * math.prod(shape) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    image = np.zeros(end // 4, np.float32)
    for name, shape in weight_shapes(sizes).items():
        at = offsets[name] // 4
        image[at : at + math.prod(shape)] = _tensor(name, shape, random).ravel()
    return image.tobytes(), offsets


def _tensor(name: str, shape: tuple[int, ...], random: np.random.Generator) -> NDArray[np.float32]:
    if name.startswith("rope_"):
        context, half = shape
        angles = np.outer(np.arange(context), ROPE_BASE ** (-np.arange(half) / half))
        factors: NDArray[np.float64] = np.cos(angles) if name == "rope_cos" else np.sin(angles)
        return factors.astype(np.float32)
    values: NDArray[np.float32] = random.random(shape, np.float32)
    if name.endswith("norm"):
        values /= 5
        values += np.float32(0.9)
        return values
    fan_in = 3 if name == "embedding" else shape[-2]
    values *= 2
    values -= 1
    values *= np.float32(math.sqrt(3 / fan_in))
    return values
