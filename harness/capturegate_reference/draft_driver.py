"""The draft driver: a small model that guesses several tokens ahead, in one launch.

A draft of k tokens is k passes, each of which reads the token that the one before picked. The host
knows everything else of a pass beforehand, so all passes fit one graph. It is built in pieces: each
pass is captured into it behind the leaves of what is there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from capturegate.backend import Array, Backend, CaptureMode, Graph, Pointer, Stream
from capturegate_reference.arena import Arena
from capturegate_reference.captures import CapturedGraph, abandon, destroy, instantiate, leaves
from capturegate_reference.cells import InputCell
from capturegate_reference.inputs import Batch, StepInputs, StepShape, laid_out, pack
from capturegate_reference.kernels import ARGMAX
from capturegate_reference.model import Model
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.scratch import scope
from capturegate_reference.slots import State, captured_sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftConfig:
    """How drafts run.

    Attributes:
        tokens: how far a draft goes.
        always_cold: run every draft eagerly, for reference outputs.
    """

    tokens: int = 3
    max_num_seqs: int = 8
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL
    always_cold: bool = False


@dataclass(slots=True, kw_only=True)
class DraftSlot:
    """What drafts of one padded size keep.

    Attributes:
        cell: the inputs of all passes, one after the other.
        passes: the inputs of each pass; the tokens of a later one are the picks before it.
        hidden: the residual stream, the same for every pass.
        logits: one row a request, for each pass; `picked` the tokens likewise.
        arena: the scratch of all pieces, kept for as long as their graph.
        demand: what the cold draft took; None before it.
    """

    shape: StepShape
    cell: InputCell
    passes: tuple[StepInputs, ...]
    hidden: Array
    logits: tuple[Array, ...]
    picked: tuple[Array, ...]
    blocks: tuple[Block, ...]
    arena: Arena
    demand: Mapping[int, int] | None = None
    graph: CapturedGraph | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A draft that was submitted: how it ran, and where its first `rows` rows are."""

    state: State
    slot: DraftSlot
    rows: int


class DraftDriver:
    """Drafts of one model on one stream.

    Attributes:
        counts: how often what happened.
        slots: what is kept, by padded number of requests.
    """

    def __init__(
        self,
        backend: Backend,
        model: Model,
        config: DraftConfig,
        *,
        stream: Stream,
        pool: DevicePool,
        persistent: DevicePool,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.slots: dict[int, DraftSlot] = {}
        self._backend = backend
        self._model = model
        self._config = config
        self._stream = stream
        self._pool = pool
        self._persistent = persistent
        self._host: Pointer = backend.malloc_host(4 * config.tokens * config.max_num_seqs)

    def draft(self, batch: Batch) -> Drafted:
        """Guess on from each request's one token; submits it and does not wait.

        Raises:
            CudaError: a call failed. A capture that failed leaves its stream idle, no piece of
                its graph, and its slot as if it had never run; the first cause is what is raised.
        """
        pool = self._pool
        pool.mark_step_boundary()
        slot = self._slot(batch)
        slot.cell.refresh_host(self._packed(slot, batch), self._stream)
        # Under bypass every request is a driver call, and none of them may be in a capture.
        if slot.demand is None or self._config.always_cold or pool.bypassed:
            for number in range(self._config.tokens):
                self._pass(slot, number)
            slot.demand = pool.step_demand_profile()
            return self._told(State.COLD, slot, batch)
        state = State.REPLAY
        if slot.graph is None:
            state = State.CAPTURE
            pool.pre_grow_for_capture(slot.demand)
            slot.graph = self._capture(slot, slot.demand)
        self._backend.graph_launch(slot.graph.executable, self._stream)
        return self._told(state, slot, batch)

    def collect(self, drafted: Drafted) -> list[tuple[int, ...]]:
        """Each request's guesses, in order; waits for the stream."""
        backend, rows = self._backend, drafted.rows
        for number, picked in enumerate(drafted.slot.picked):
            to = self._host.at(4 * rows * number)
            backend.memcpy_async(to, picked.pointer, 4 * rows, self._stream)
        backend.stream_synchronize(self._stream)
        nbytes = 4 * rows * self._config.tokens
        guesses = np.frombuffer(backend.host_read(self._host, nbytes), np.int32)
        return [tuple(int(token) for token in guesses[row::rows]) for row in range(rows)]

    def close(self) -> None:
        """Drop every graph, then everything that the graphs wrote to."""
        for slot in self.slots.values():
            if slot.graph is not None:
                destroy(self._backend, slot.graph)
            slot.arena.release()
            slot.cell.close()
            for block in slot.blocks:
                block.owner.put(block)
        self.slots.clear()
        self._backend.free_host(self._host)

    def _slot(self, batch: Batch) -> DraftSlot:
        requests = len(batch.entries)
        sizes = captured_sizes(self._config.max_num_seqs)
        padded = min(size for size in sizes if size >= requests)
        slot = self.slots.get(padded)
        if slot is None:
            shape = StepShape(requests=padded, rows=padded, columns=batch.columns)
            slot = self.slots[padded] = self._new_slot(shape)
        return slot

    def _new_slot(self, shape: StepShape) -> DraftSlot:
        sizes, rows, count = self._model.sizes, shape.rows, self._config.tokens
        blocks: list[Block] = []

        def kept(*extents: int, dtype: str = "float32") -> Array:
            blocks.append(self._persistent.get(4 * math.prod(extents)))
            return blocks[-1].pointer.array(extents, dtype)

        cell = InputCell(self._backend, f"draft-{rows}")
        at = cell.bind(self._persistent, count * shape.nbytes)
        cos, sin = kept(rows, sizes.half), kept(rows, sizes.half)
        passes = [laid_out(at.at(n * shape.nbytes), shape, cos, sin) for n in range(count)]
        picked = [kept(rows, dtype="int32") for _ in passes]
        for number in range(1, count):
            passes[number] = replace(passes[number], tokens=picked[number - 1])
        return DraftSlot(
            shape=shape,
            cell=cell,
            passes=tuple(passes),
            hidden=kept(rows, sizes.hidden),
            logits=tuple(kept(rows, sizes.vocab) for _ in passes),
            picked=tuple(picked),
            blocks=tuple(blocks),
            arena=Arena(self._pool),
        )

    def _packed(self, slot: DraftSlot, batch: Batch) -> bytes:
        """The inputs of every pass; each stands one position further on."""
        page_tokens = self._model.sizes.page_tokens
        passes = []
        for ahead in range(self._config.tokens):
            entries = tuple(replace(e, position=e.position + ahead) for e in batch.entries)
            passes.append(pack(replace(batch, entries=entries), slot.shape, page_tokens))
        return b"".join(passes)

    def _pass(self, slot: DraftSlot, number: int) -> None:
        """One pass, and the token that it picks for each row."""
        inputs, logits, stream = slot.passes[number], slot.logits[number], self._stream
        self._model.derive(inputs, stream)
        self._model.forward(inputs, slot.hidden, logits, stream)
        rows, vocab = logits.shape
        self._backend.launch(ARGMAX, (logits, slot.picked[number], vocab, rows), stream, rows)

    def _capture(self, slot: DraftSlot, demand: Mapping[int, int]) -> CapturedGraph:
        """Build a slot's graph piece by piece."""
        self._pool.notes.profile(demand)
        try:
            graph = self._backend.graph_create()
            # What one piece is done with serves the next one, and nobody else.
            with scope(slot.arena):
                for number in range(self._config.tokens):
                    self._add_piece(slot, graph, number)
            return instantiate(self._backend, graph)
        except BaseException:
            self.counts["failed"] += 1
            slot.arena.release()
            slot.demand = None
            raise

    def _add_piece(self, slot: DraftSlot, graph: Graph, number: int) -> None:
        """Capture a pass into a graph that has the passes before it; the graph goes if it fails."""
        backend, stream = self._backend, self._stream
        try:
            behind = leaves(backend, graph)
            backend.stream_begin_capture_to_graph(stream, graph, behind, self._config.capture_mode)
        except BaseException:
            backend.graph_destroy(graph)
            raise
        self.counts["begins"] += 1
        try:
            self._pass(slot, number)
        except BaseException:
            abandon(backend, stream)
            raise
        # An end that is refused takes the whole graph with it.
        backend.stream_end_capture(stream)
        self.counts["ends"] += 1

    def _told(self, state: State, slot: DraftSlot, batch: Batch) -> Drafted:
        self.counts[f"{state}s"] += 1
        return Drafted(state=state, slot=slot, rows=len(batch.entries))
