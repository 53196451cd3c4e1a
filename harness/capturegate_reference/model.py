"""A small decoder: embedding, grouped-query attention over pages, gated or routed MLP, logits."""

from __future__ import annotations

import math

from capturegate.backend import Argument, Array, Backend, Kernel, Stream
from capturegate_reference.attention import PAGED_ATTENTION
from capturegate_reference.experts import EXPERT_COMBINE, EXPERT_LINEAR, TOP_K
from capturegate_reference.inputs import HostVectors, StepInputs
from capturegate_reference.kernels import (
    ADD,
    EMBED,
    LINEAR,
    RMS_NORM,
    ROPE,
    ROPE_TABLE,
    SILU_MUL,
    STORE_KV,
)
from capturegate_reference.pool import DevicePool
from capturegate_reference.scratch import Scratch
from capturegate_reference.sizes import MOE, ModelSizes
from capturegate_reference.weights import LayerWeights, load_weights

EPS = 1e-6


class Model:
    """The forward pass. Weights and KV pages live in `persistent`, scratch comes from `pool`.

    Every part of the pass takes its scratch when it begins and gives it back when it ends, so a
    step's peak per size class is that of its deepest part, however many layers there are.
    """

    def __init__(
        self,
        backend: Backend,
        sizes: ModelSizes,
        *,
        pool: DevicePool,
        persistent: DevicePool,
        pages: int,
        seed: int,
    ) -> None:
        self.sizes = sizes
        self._backend = backend
        self._pool = pool
        self._persistent = persistent
        self._weights = load_weights(backend, persistent, sizes, seed)
        tokens = pages * sizes.page_tokens
        nbytes = 4 * tokens * sizes.kv_width
        self._kv_blocks = [persistent.get(nbytes) for _ in range(2 * sizes.layers)]
        for block in self._kv_blocks:
            backend.memset(block.pointer, 0, nbytes)
        shape = (tokens, sizes.kv_width)
        self._keys = [block.pointer.array(shape) for block in self._kv_blocks[::2]]
        self._values = [block.pointer.array(shape) for block in self._kv_blocks[1::2]]

    def upload(self, host: HostVectors, inputs: StepInputs, stream: Stream) -> None:
        """Bring a step's inputs to the device and derive what follows from them there."""
        host.upload(inputs, stream)
        weights = self._weights
        self._run(
            ROPE_TABLE,
            (inputs.positions, weights.rope_cos, weights.rope_sin, inputs.cos, inputs.sin),
            (self.sizes.half,),
            math.prod(inputs.cos.shape),
            stream,
        )

    def forward(
        self, inputs: StepInputs, hidden: Array, logits: Array | None, stream: Stream
    ) -> None:
        """Run all rows through the layers; without `logits` only the KV pages are filled."""
        weights, sizes = self._weights, self.sizes
        self._run(
            EMBED,
            (inputs.tokens, weights.embedding, hidden),
            (sizes.hidden,),
            math.prod(hidden.shape),
            stream,
        )
        for number, layer in enumerate(weights.layers):
            self._attend(number, layer, inputs, hidden, stream)
            if sizes.kind == MOE:
                self._mix_experts(layer, hidden, stream)
            else:
                self._mlp(layer, hidden, stream)
        if logits is None:
            return
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(hidden.shape)
            self._norm(hidden, weights.final_norm, normed, stream)
            self._linear(normed, weights.head, logits, stream)

    def close(self) -> None:
        """Give weights and pages back."""
        for block in (*self._kv_blocks, self._weights.block):
            self._persistent.put(block)

    def _attend(
        self, number: int, layer: LayerWeights, inputs: StepInputs, hidden: Array, stream: Stream
    ) -> None:
        sizes = self.sizes
        wide = hidden.shape
        narrow = (wide[0], sizes.kv_width)
        keys, values = self._keys[number], self._values[number]
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(wide)
            self._norm(hidden, layer.attention_norm, normed, stream)
            q, k, v = scratch.array(wide), scratch.array(narrow), scratch.array(narrow)
            self._linear(normed, layer.q, q, stream)
            self._linear(normed, layer.k, k, stream)
            self._linear(normed, layer.v, v, stream)
            q_normed, k_normed = scratch.array(wide), scratch.array(narrow)
            self._norm(q, layer.q_norm, q_normed, stream)
            self._norm(k, layer.k_norm, k_normed, stream)
            q_turned, k_turned = scratch.array(wide), scratch.array(narrow)
            self._rope(q_normed, inputs, q_turned, sizes.heads, stream)
            self._rope(k_normed, inputs, k_turned, sizes.kv_heads, stream)
            self._run(
                STORE_KV,
                (k_turned, v, inputs.slots, keys, values),
                (sizes.kv_width,),
                math.prod(narrow),
                stream,
            )
            attended = scratch.array(wide)
            self._run(
                PAGED_ATTENTION,
                (q_turned, keys, values, inputs.tables, inputs.requests, inputs.lengths, attended),
                (
                    sizes.heads,
                    sizes.kv_heads,
                    sizes.head_dim,
                    sizes.page_tokens,
                    inputs.tables.shape[1],
                    1 / math.sqrt(sizes.head_dim),
                ),
                math.prod(wide),
                stream,
            )
            projected = scratch.array(wide)
            self._linear(attended, layer.o, projected, stream)
            self._run(ADD, (hidden, projected), (), math.prod(wide), stream)

    def _mlp(self, layer: LayerWeights, hidden: Array, stream: Stream) -> None:
        wide = hidden.shape
        inner = (wide[0], self.sizes.mlp_width)
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(wide)
            self._norm(hidden, layer.mlp_norm, normed, stream)
            gate, up = scratch.array(inner), scratch.array(inner)
            self._linear(normed, layer.gate, gate, stream)
            self._linear(normed, layer.up, up, stream)
            active = scratch.array(inner)
            self._run(SILU_MUL, (gate, up, active), (), math.prod(inner), stream)
            down = scratch.array(wide)
            self._linear(active, layer.down, down, stream)
            self._run(ADD, (hidden, down), (), math.prod(wide), stream)

    def _mix_experts(self, layer: LayerWeights, hidden: Array, stream: Stream) -> None:
        sizes = self.sizes
        wide, rows, kept = hidden.shape, hidden.shape[0], sizes.experts_kept
        inner = (rows, kept, sizes.expert_width)
        into = (kept, sizes.hidden, sizes.expert_width)
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(wide)
            self._norm(hidden, layer.mlp_norm, normed, stream)
            scores = scratch.array((rows, sizes.experts))
            self._linear(normed, layer.router, scores, stream)
            ids, shares = scratch.array((rows, kept), "int32"), scratch.array((rows, kept))
            self._run(TOP_K, (scores, ids, shares), (sizes.experts, kept), rows, stream)
            gate, up = scratch.array(inner), scratch.array(inner)
            threads = math.prod(inner)
            self._run(EXPERT_LINEAR, (normed, ids, layer.gate, gate), into, threads, stream)
            self._run(EXPERT_LINEAR, (normed, ids, layer.up, up), into, threads, stream)
            active = scratch.array(inner)
            self._run(SILU_MUL, (gate, up, active), (), threads, stream)
            mixed = scratch.array(wide)
            self._run(
                EXPERT_COMBINE,
                (active, ids, shares, layer.down, mixed),
                (kept, sizes.expert_width, sizes.hidden),
                math.prod(wide),
                stream,
            )
            self._run(ADD, (hidden, mixed), (), math.prod(wide), stream)

    def _norm(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        width = weight.shape[0]
        self._run(RMS_NORM, (x, weight, out), (width, EPS), math.prod(x.shape) // width, stream)

    def _linear(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        self._run(LINEAR, (x, weight, out), weight.shape, math.prod(out.shape), stream)

    def _rope(self, x: Array, inputs: StepInputs, out: Array, heads: int, stream: Stream) -> None:
        half = self.sizes.half
        threads = math.prod(x.shape) // 2
        self._run(ROPE, (x, inputs.cos, inputs.sin, out), (heads, half), threads, stream)

    def _run(
        self,
        kernel: Kernel,
        arrays: tuple[Array, ...],
        scalars: tuple[Argument, ...],
        threads: int,
        stream: Stream,
    ) -> None:
        """Launch a kernel; the number of threads is every kernel's last argument."""
        self._backend.launch(kernel, (*arrays, *scalars, threads), stream, threads)
