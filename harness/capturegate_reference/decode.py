"""The decode driver: runs a step eagerly, captures it, or replays what it captured."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass

from capturegate.backend import Array, Backend, CaptureMode, Stream
from capturegate_reference.captures import CapturedGraph, StreamCapture, destroy, instantiate
from capturegate_reference.inputs import (
    Batch,
    HostVectors,
    StepInputs,
    StepShape,
    pack,
    take_inputs,
)
from capturegate_reference.model import Model
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.scratch import Scratch
from capturegate_reference.slots import (
    Logits,
    Ring,
    Slot,
    State,
    StepKey,
    StepResult,
    captured_sizes,
)

TOKEN_COUNTS_MAX = 2
"""Numbers of tokens per request that get graphs: plain steps and one speculative length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """How the driver decodes.

    Attributes:
        graphs: whether steps may be captured.
        async_executor: whether two slots alternate, with persistent inputs.
        padding: whether a batch may be padded up to a captured size.
        capture_under_bypass: whether to capture although the pool serves nothing itself.
        always_cold: run every admitted step eagerly at its padded size, for reference outputs.
    """

    max_num_seqs: int = 8
    graphs: bool = True
    async_executor: bool = False
    padding: bool = True
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL
    capture_under_bypass: bool = False
    always_cold: bool = False

    @property
    def captured_sizes(self) -> tuple[int, ...]:
        """The numbers of requests that steps are padded to, ascending."""
        return captured_sizes(self.max_num_seqs)


class DecodeDriver:
    """Decode steps of one model on one stream.

    Attributes:
        counts: how often what happened; declines once in all and once under their reason.
    """

    def __init__(
        self,
        backend: Backend,
        model: Model,
        config: DecodeConfig,
        *,
        stream: Stream,
        pool: DevicePool,
        persistent: DevicePool,
        ring: DevicePool,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._backend = backend
        self._model = model
        self._config = config
        self._stream = stream
        self._pool = pool
        self._persistent = persistent
        self._ring_pool = ring
        self._rings: dict[StepKey, Ring] = {}
        self._token_counts: set[int] = set()
        self._eager_host: HostVectors | None = None
        self._captures = StreamCapture(
            backend, stream, mode=config.capture_mode, counts=self.counts
        )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All slots, in the order in which they were made."""
        return tuple(slot for ring in self._rings.values() for slot in ring.slots)

    def step(self, batch: Batch) -> StepResult:
        """Run one decode step; submits it and does not wait.

        Raises:
            CudaError: a call failed. A capture that failed leaves its stream idle and its slot
                as if it had never run; the first cause is what is raised.
        """
        pool = self._pool
        pool.mark_step_boundary()
        spec_step = batch.spec
        dbuf = self._config.async_executor or spec_step
        declined = self._decline(batch)
        if declined:
            return self._run_eager(batch, declined)
        slot = self._slot(batch, dbuf)
        slot.host.refresh(pack(batch, slot.shape, self._model.sizes.page_tokens))
        if not slot.warm or self._config.always_cold:
            return self._run_cold(slot, batch)
        if slot.inputs is not None:
            self._stage(slot, slot.inputs)
        state = State.REPLAY
        # A pass without persistent inputs reads the vectors itself, in its launch or, where its
        # capture is inert, at once.
        reads = slot.host.read_by(self._stream) if slot.inputs is None else nullcontext()
        with reads:
            if slot.graph is None:
                state = State.CAPTURE
                # A capture takes its scratch from this pool in every configuration, so this is
                # for every configuration; a miss in the window is a driver call, and its end.
                pool.pre_grow_for_capture(slot.demand)
                if dbuf:
                    # The other slot's replay may still be in flight.
                    self._backend.stream_synchronize(self._stream)
                self._capture(slot)
            if slot.graph is None:
                state = State.INERT
            else:
                self._launch(slot.graph)
        return self._view(state, slot, batch)

    def close(self) -> None:
        """Drop every graph, then everything that the graphs wrote to.

        Nothing has to be waited for here: an executable that still runs lives until it is done,
        and blocks of a pool pass from hand to hand in the order of the stream.
        """
        for slot in self.slots:
            self._drop(slot)
        self._rings.clear()
        if self._eager_host is not None:
            self._eager_host.close()

    def _decline(self, batch: Batch) -> str:
        """Why a step gets no graph, counted; empty when it may have one."""
        lengths = {len(entry.tokens) for entry in batch.entries}
        known = self._token_counts
        requests = len(batch.entries)
        if not self._config.graphs:
            reason = "switch_off"
        elif self._pool.bypassed and not self._config.capture_under_bypass:
            reason = "bypass"
        elif requests > self._config.max_num_seqs:
            reason = "too_large"
        elif len(lengths) > 1:
            reason = "ragged"
        elif len(known | lengths) > TOKEN_COUNTS_MAX:
            reason = "too_many_lengths"
        elif not self._config.padding and requests not in self._config.captured_sizes:
            reason = "padding"
        else:
            known |= lengths
            return ""
        self.counts["declined"] += 1
        self.counts[f"declined.{reason}"] += 1
        return reason

    def _slot(self, batch: Batch, dbuf: bool) -> Slot:
        requests = len(batch.entries)
        padded = min(size for size in self._config.captured_sizes if size >= requests)
        key = StepKey(padded, len(batch.entries[0].tokens), batch.spec)
        shape = StepShape(requests=padded, rows=padded * key.tokens, columns=batch.columns)
        ring = self._rings.get(key)
        if ring is None:
            with ExitStack() as undo:
                slots: list[Slot] = []
                for _ in range(2 if dbuf else 1):
                    slots.append(self._new_slot(shape, dbuf, batch.taps))
                    undo.callback(self._drop, slots[-1])
                undo.pop_all()
            ring = self._rings[key] = Ring(slots)
        slot = ring.next()
        if slot.shape != shape or tuple(slot.taps) != batch.taps:
            # A slot that is refused leaves the old one whole.
            fresh = self._new_slot(shape, dbuf, batch.taps)
            ring.slots[ring.turn] = fresh
            self._drop(slot)
            slot = fresh
        return slot

    def _new_slot(self, shape: StepShape, dbuf: bool, taps: tuple[int, ...]) -> Slot:
        """A slot that has not run; when it is refused, nothing of it stays."""
        sizes = self._model.sizes
        blocks: list[Block] = []

        def taken(pool: DevicePool, nbytes: int) -> Block:
            blocks.append(pool.get(nbytes))
            undo.callback(pool.put, blocks[-1])
            return blocks[-1]

        def kept(width: int) -> Array:
            block = taken(self._persistent, 4 * shape.rows * width)
            return block.pointer.array((shape.rows, width))

        def staged(extents: tuple[int, ...], dtype: str) -> Array:
            return taken(self._ring_pool, 4 * math.prod(extents)).pointer.array(extents, dtype)

        with ExitStack() as undo:
            hidden, logits = kept(sizes.hidden), kept(sizes.vocab)
            host = HostVectors(self._backend, shape.nbytes)
            undo.callback(host.close)
            slot = Slot(
                shape=shape,
                hidden=hidden,
                logits=logits,
                host=host,
                inputs=take_inputs(staged, shape, sizes.half) if dbuf else None,
                taps={layer: kept(sizes.hidden) for layer in taps},
                blocks=tuple(blocks),
            )
            undo.pop_all()
        return slot

    def _run_eager(self, batch: Batch, reason: str) -> StepResult:
        """Run a declined step as large as it is."""
        sizes = self._model.sizes
        shape = StepShape(requests=len(batch.entries), rows=batch.rows, columns=batch.columns)
        host = self._eager_host
        if host is None or host.nbytes < shape.nbytes:
            # Vectors that are refused leave the old ones whole.
            self._eager_host = HostVectors(self._backend, shape.nbytes)
            if host is not None:
                host.close()
            host = self._eager_host
        host.refresh(pack(batch, shape, sizes.page_tokens))
        with ExitStack() as undo:
            handed = self._owned(undo, shape.rows, sizes.vocab)
            logits = handed.pointer.array((shape.rows, sizes.vocab))
            tapped = {layer: self._owned(undo, shape.rows, sizes.hidden) for layer in batch.taps}
            taps = {
                layer: rows.pointer.array((shape.rows, sizes.hidden))
                for layer, rows in tapped.items()
            }
            with host.read_by(self._stream), Scratch(self._backend, self._pool) as scratch:
                inputs = take_inputs(scratch.array, shape, sizes.half)
                hidden = scratch.array((shape.rows, sizes.hidden))
                self._model.upload(host, inputs, self._stream)
                self._model.forward(inputs, hidden, logits, self._stream, taps=taps)
            undo.pop_all()
        self.counts["eager_steps"] += 1
        return StepResult(state=State.EAGER, logits=handed, taps=tapped, reason=reason)

    def _run_cold(self, slot: Slot, batch: Batch) -> StepResult:
        """Run a step eagerly, remember what it took, hand out logits that nobody overwrites."""
        with slot.host.read_by(self._stream):
            self._forward(slot, None)
        slot.demand = self._pool.step_demand_profile()
        slot.warm = True
        self.counts["cold_steps"] += 1
        with ExitStack() as undo:
            logits = self._copied(undo, slot.logits, batch.rows)
            taps = {
                layer: self._copied(undo, kept, batch.rows) for layer, kept in slot.taps.items()
            }
            undo.pop_all()
        return StepResult(state=State.COLD, logits=logits, taps=taps)

    def _owned(self, undo: ExitStack, rows: int, width: int) -> Logits:
        owned = self._persistent.get(4 * rows * width)
        undo.callback(self._persistent.put, owned)
        return Logits(pointer=owned.pointer, rows=rows, rows_padded=rows, owned=owned)

    def _copied(self, undo: ExitStack, kept: Array, rows: int) -> Logits:
        handed = self._owned(undo, rows, kept.shape[1])
        nbytes = 4 * rows * kept.shape[1]
        self._backend.memcpy_async(handed.pointer, kept.pointer, nbytes, self._stream)
        return handed

    def _stage(self, slot: Slot, inputs: StepInputs) -> None:
        """Bring a step's inputs into a slot's persistent ones, outside its graph."""
        with slot.host.read_by(self._stream):
            self._model.upload(slot.host, inputs, self._stream)

    def _forward(self, slot: Slot, inputs: StepInputs | None) -> None:
        """The pass itself; without persistent inputs it makes its own out of scratch."""
        with Scratch(self._backend, self._pool) as scratch:
            if inputs is None:
                inputs = take_inputs(scratch.array, slot.shape, self._model.sizes.half)
                self._model.upload(slot.host, inputs, self._stream)
            self._model.forward(inputs, slot.hidden, slot.logits, self._stream, taps=slot.taps)

    def _capture(self, slot: Slot) -> None:
        """Give a slot its graph; it stays without one when the backend ran it eagerly."""
        self._pool.notes.profile(slot.demand)
        with self._pool.recording() as taken:
            try:
                slot.graph = self._record(slot)
            except BaseException:
                self.counts["failed"] += 1
                self._reset(slot)
                raise
        if slot.graph is None:
            self.counts["inert"] += 1
            self._reset(slot)
            return
        self._pool.pin_for_graph(slot.graph.executable.id, taken)
        self.counts["captures"] += 1

    def _record(self, slot: Slot) -> CapturedGraph | None:
        with self._captures.window():
            self._forward(slot, slot.inputs)
        graph = self._captures.graph
        return None if graph is None else instantiate(self._backend, graph)

    def _launch(self, graph: CapturedGraph) -> None:
        self._backend.graph_launch(graph.executable, self._stream)
        self.counts["replays"] += 1

    def _view(self, state: State, slot: Slot, batch: Batch) -> StepResult:
        """A step's result whose rows are those that its slot keeps."""

        def view(kept: Array) -> Logits:
            return Logits(pointer=kept.pointer, rows=batch.rows, rows_padded=slot.shape.rows)

        taps = {layer: view(kept) for layer, kept in slot.taps.items()}
        return StepResult(state=state, logits=view(slot.logits), taps=taps)

    def _reset(self, slot: Slot) -> None:
        """Take a slot back to where it was before its cold step."""
        if slot.graph is not None:
            self._pool.unpin_for_graph(slot.graph.executable.id)
            destroy(self._backend, slot.graph)
        slot.graph = None
        slot.warm = False
        slot.demand = {}

    def _drop(self, slot: Slot) -> None:
        self._reset(slot)
        for block in slot.blocks:
            block.owner.put(block)
        slot.host.close()
