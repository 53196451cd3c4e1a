"""Weights on the device: one block, and a view of it for every tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from capturegate.backend import Array, Backend
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.tensors import weight_image, weight_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer; `router` is used by a mixture of experts only."""

    attention_norm: Array
    q: Array
    k: Array
    v: Array
    q_norm: Array
    k_norm: Array
    o: Array
    mlp_norm: Array
    router: Array
    gate: Array
    up: Array
    down: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A model's weights on the device, in one block."""

    block: Block
    embedding: Array
    rope_cos: Array
    rope_sin: Array
    layers: tuple[LayerWeights, ...]
    final_norm: Array
    head: Array


def load_weights(backend: Backend, pool: DevicePool, sizes: ModelSizes, seed: int) -> Weights:
    """Bring the weights of a seed to the device."""
    image, offsets = weight_image(sizes, seed)
    block = pool.get(len(image))
    source = backend.pageable(len(image))
    backend.host_write(source, image)
    backend.memcpy(block.pointer, source, len(image))
    arrays = {
        name: block.pointer.at(offsets[name]).array(shape)
        for name, shape in weight_shapes(sizes).items()
    }
    return Weights(
        block=block,
        embedding=arrays["embedding"],
        rope_cos=arrays["rope_cos"],
        rope_sin=arrays["rope_sin"],
        layers=tuple(_layer(arrays, number) for number in range(sizes.layers)),
        final_norm=arrays["final_norm"],
        head=arrays["head"],
    )


def _layer(arrays: Mapping[str, Array], number: int) -> LayerWeights:
    names = [field.name for field in fields(LayerWeights)]
    return LayerWeights(**{name: arrays[f"{number}.{name}"] for name in names})
