"""A small decoder: embedding, grouped-query attention over pages, gated or routed MLP, logits."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from capturegate.backend import Argument, Array, Backend, Kernel, Stream
from capturegate_reference.attention import ATTENTION_COMBINE, PAGED_ATTENTION, SPLITS
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
from capturegate_reference.norms import ADD_SQUARES, NORM_MEASURED
from capturegate_reference.pool import DevicePool
from capturegate_reference.routing import EXPERT_ORDER, GROUPED_LINEAR
from capturegate_reference.scratch import Scratch
from capturegate_reference.shape_caches import Caches, ShapeCaches
from capturegate_reference.sizes import MOE, ModelSizes
from capturegate_reference.weights import LayerWeights, load_weights

EPS = 1e-6

Between = Callable[[Callable[[], None]], None]
"""Runs a part of the pass that a caller may want to keep out of its graphs."""


def run_now(part: Callable[[], None]) -> None:
    """Run a part of the pass where it stands."""
    part()


class Model:
    """The forward pass. Weights and KV pages live in `persistent`, scratch comes from `pool`.

    Every part of the pass takes its scratch when it begins and gives it back when it ends, so a
    step's peak per size class is that of its deepest part, however many layers there are. What is
    kept by shape instead comes from `caches`.

    Attributes:
        sizes: how large it is.
        caches: the scratch that is kept by shape.
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
        self.caches: Caches = ShapeCaches(backend)
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
        self.derive(inputs, stream)

    def derive(self, inputs: StepInputs, stream: Stream) -> None:
        """Compute on the device what follows from a step's inputs."""
        weights = self._weights
        self._run(
            ROPE_TABLE,
            (inputs.positions, weights.rope_cos, weights.rope_sin, inputs.cos, inputs.sin),
            (self.sizes.half,),
            math.prod(inputs.cos.shape),
            stream,
        )

    def forward(
        self,
        inputs: StepInputs,
        hidden: Array,
        logits: Array | None,
        stream: Stream,
        *,
        taps: Mapping[int, Array] | None = None,
        between: Between = run_now,
    ) -> None:
        """Run all rows through the layers; without `logits` only the KV pages are filled.

        `taps` gets a copy of the residual stream after each layer that it names. Attention runs
        through `between`.
        """
        weights, sizes = self._weights, self.sizes
        self._run(
            EMBED,
            (inputs.tokens, weights.embedding, hidden),
            (sizes.hidden,),
            math.prod(hidden.shape),
            stream,
        )
        for number, layer in enumerate(weights.layers):
            self._attend(number, layer, inputs, hidden, stream, between)
            if sizes.kind == MOE:
                self._mix_experts(layer, hidden, stream)
            else:
                self._mlp(layer, hidden, stream)
            if taps and number in taps:
                tap = taps[number].pointer
                self._backend.memcpy_async(tap, hidden.pointer, hidden.nbytes, stream)
        if logits is None:
            return
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(hidden.shape)
            self._norm(hidden, weights.final_norm, normed, stream)
            summed = self.caches.reduction(logits.shape, stream)
            self._linear(normed, weights.head, summed, stream)
        self._backend.memcpy_async(logits.pointer, summed.pointer, logits.nbytes, stream)

    def early_exit(self, layers: int) -> Model:
        """The same model without its last layers, over the same weights, pages and caches.

        What it stores for a token in the layers that it has is what the whole model would store.
        It owns nothing, so it is not to be closed.
        """
        shallow = copy.copy(self)
        shallow.sizes = replace(self.sizes, layers=layers)
        shallow._weights = replace(self._weights, layers=self._weights.layers[:layers])
        return shallow

    def close(self) -> None:
        """Give weights, pages and what is kept by shape back."""
        self.caches.close()
        for block in (*self._kv_blocks, self._weights.block):
            self._persistent.put(block)

    def _attend(
        self,
        number: int,
        layer: LayerWeights,
        inputs: StepInputs,
        hidden: Array,
        stream: Stream,
        between: Between,
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
            between(lambda: self._attention(q_turned, keys, values, inputs, attended, stream))
            projected = scratch.array(wide)
            self._linear(attended, layer.o, projected, stream)
            squares = self._squares(wide[0], stream)
            self._run(ADD_SQUARES, (hidden, projected, squares), wide[1:], wide[0], stream)

    def _attention(
        self,
        q: Array,
        keys: Array,
        values: Array,
        inputs: StepInputs,
        attended: Array,
        stream: Stream,
    ) -> None:
        sizes = self.sizes
        rows, columns = q.shape[0], inputs.tables.shape[1]
        shape = (rows, SPLITS, sizes.heads)
        paged = (sizes.kv_heads, columns, sizes.page_tokens)
        arrays = (
            self.caches.scratch("attention-scratch", (*shape, sizes.head_dim), stream, also=paged),
            self.caches.scratch("attention-stats", (*shape, 2), stream, also=paged),
        )
        self._run(
            PAGED_ATTENTION,
            (q, keys, values, inputs.tables, inputs.requests, inputs.lengths, *arrays),
            (
                sizes.heads,
                sizes.kv_heads,
                sizes.head_dim,
                sizes.page_tokens,
                columns,
                SPLITS,
                1 / math.sqrt(sizes.head_dim),
            ),
            SPLITS * math.prod(q.shape),
            stream,
        )
        self._run(
            ATTENTION_COMBINE,
            (*arrays, attended),
            (sizes.heads, sizes.head_dim, SPLITS),
            math.prod(q.shape),
            stream,
        )

    def _mlp(self, layer: LayerWeights, hidden: Array, stream: Stream) -> None:
        wide = hidden.shape
        inner = (wide[0], self.sizes.mlp_width)
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(wide)
            self._norm_measured(hidden, layer.mlp_norm, normed, stream)
            gate, up = scratch.array(inner), scratch.array(inner)
            self._linear(normed, layer.gate, gate, stream)
            self._linear(normed, layer.up, up, stream)
            active = scratch.array(inner)
            self._run(SILU_MUL, (gate, up, active), (), math.prod(inner), stream)
            down = scratch.array(wide)
            self._aligned(active, layer.down, down, stream)
            self._run(ADD, (hidden, down), (), math.prod(wide), stream)

    def _mix_experts(self, layer: LayerWeights, hidden: Array, stream: Stream) -> None:
        sizes = self.sizes
        wide, rows, kept = hidden.shape, hidden.shape[0], sizes.experts_kept
        inner = (rows, kept, sizes.expert_width)
        into = (kept, sizes.experts, sizes.hidden, sizes.expert_width)
        with Scratch(self._backend, self._pool) as scratch:
            normed = scratch.array(wide)
            self._norm_measured(hidden, layer.mlp_norm, normed, stream)
            scores = self.caches.scratch("router-scores", (rows, sizes.experts), stream)
            self._linear(normed, layer.router, scores, stream)
            ids, shares = scratch.array((rows, kept), "int32"), scratch.array((rows, kept))
            self._run(TOP_K, (scores, ids, shares), (sizes.experts, kept), rows, stream)
            groups = self._group(ids, stream)
            gate, up = scratch.array(inner), scratch.array(inner)
            threads = math.prod(inner)
            self._run(GROUPED_LINEAR, (normed, *groups, layer.gate, gate), into, threads, stream)
            self._run(GROUPED_LINEAR, (normed, *groups, layer.up, up), into, threads, stream)
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

    def _group(self, ids: Array, stream: Stream) -> tuple[Array, Array]:
        """The routed places sorted by expert, and where each expert's begin."""
        (rows, kept), experts = ids.shape, self.sizes.experts
        order = self.caches.scratch("expert-order", (rows, kept), stream, dtype="int32")
        offsets = self.caches.scratch("expert-offsets", (experts + 1,), stream, dtype="int32")
        self._run(EXPERT_ORDER, (ids, order, offsets), (experts, rows * kept), experts, stream)
        return order, offsets

    def _squares(self, rows: int, stream: Stream) -> Array:
        """Each row's mean square, from the sum that ends one part to the norm of the next."""
        return self.caches.scratch("norm-squares", (rows, 1), stream)

    def _norm(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        width = weight.shape[0]
        self._run(RMS_NORM, (x, weight, out), (width, EPS), math.prod(x.shape) // width, stream)

    def _norm_measured(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        """Norm rows whose mean squares the last residual sum has left behind."""
        width, squares = weight.shape[0], self._squares(x.shape[0], stream)
        threads = math.prod(x.shape)
        self._run(NORM_MEASURED, (x, squares, weight, out), (EPS, width), threads, stream)

    def _linear(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        self._run(LINEAR, (x, weight, out), weight.shape, math.prod(out.shape), stream)

    def _aligned(self, x: Array, weight: Array, out: Array, stream: Stream) -> None:
        """A plain product in the kernel of a routed one: every row goes to the one matrix."""
        rows, (inner, outer) = x.shape[0], weight.shape
        table = self.caches.align_table(rows, stream)
        self._run(
            EXPERT_LINEAR,
            (
                x,
                table,
                weight.pointer.array((1, inner, outer)),
                out.pointer.array((rows, 1, outer)),
            ),
            (1, inner, outer),
            rows * outer,
            stream,
        )

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
