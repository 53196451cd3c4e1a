"""The draft driver: a small model that guesses several tokens ahead, in one launch.

A draft of k tokens is k passes, each of which reads the token that the one before picked. The host
knows everything else of a pass beforehand, so all passes fit one graph. It is built in pieces: each
pass is captured into it behind the leaves of what is there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from capturegate.backend import Array, Backend, CaptureMode, Graph, Pointer, Stream
from capturegate_reference.arena import Arena
from capturegate_reference.captures import CapturedGraph, StreamCapture, destroy, instantiate
from capturegate_reference.cells import InputCell
from capturegate_reference.errors import EngineError
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
    """A draft that was submitted: how it ran, and where its first `rows` rows are.

    `reason` says why it was declined a graph, when it was.
    """

    state: State
    slot: DraftSlot
    rows: int
    reason: str = ""


class DraftDriver:
    """Drafts of one model on one stream.

    Attributes:
        counts: how often what happened; declines once in all and once under their reason.
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
        self._captures = StreamCapture(
            backend, stream, mode=config.capture_mode, counts=self.counts
        )
        self._host: Pointer = backend.malloc_host(4 * config.tokens * config.max_num_seqs)

    def draft(self, batch: Batch) -> Drafted:
        """Guess on from each request's one token; submits it and does not wait.

        Raises:
            CudaError: a call failed. A capture that failed leaves its stream idle, no piece of
                its graph, and its slot as if it had never run; the first cause is what is raised.
            EngineError: there are too many requests, or one brings more than its token, or the
                block tables are not as wide as the model's; no call of the backend was made.
        """
        pool = self._pool
        self._admit(batch)
        pool.mark_step_boundary()
        slot = self._slot(batch)
        slot.cell.refresh_host(self._packed(slot, batch), self._stream)
        # Every request is a driver call under bypass, and none of them may be in a capture.
        if pool.bypassed:
            return self._run_declined("bypass", slot, batch)
        if slot.demand is None or self._config.always_cold:
            self._run(slot)
            slot.demand = pool.step_demand_profile()
            self.counts["cold_steps"] += 1
            return self._told(State.COLD, slot, batch)
        state = State.REPLAY
        if slot.graph is None:
            state = State.CAPTURE
            pool.pre_grow_for_capture(slot.demand)
            self._capture(slot, slot.demand)
        if slot.graph is None:
            return self._told(State.INERT, slot, batch)
        self._backend.graph_launch(slot.graph.executable, self._stream)
        self.counts["replays"] += 1
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

    def _admit(self, batch: Batch) -> None:
        requests, limit = len(batch.entries), self._config.max_num_seqs
        if requests > limit:
            raise EngineError(f"a draft of {requests} requests is wider than the driver's {limit}")
        if batch.rows != requests:
            raise EngineError(
                f"a draft goes on from one token a request, and {requests} requests bring "
                f"{batch.rows} tokens"
            )
        columns = self._model.sizes.columns
        if batch.columns != columns:
            raise EngineError(
                f"a draft's block tables of {batch.columns} columns are not of the {columns} that "
                f"its model has"
            )

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
        """A slot that has not run; when it is refused, nothing of it stays."""
        sizes, rows, count = self._model.sizes, shape.rows, self._config.tokens
        blocks: list[Block] = []
        pool = self._persistent

        def kept(*extents: int, dtype: str = "float32") -> Array:
            blocks.append(pool.get(4 * math.prod(extents)))
            undo.callback(pool.put, blocks[-1])
            return blocks[-1].pointer.array(extents, dtype)

        cell = InputCell(self._backend, f"draft-{rows}")
        with ExitStack() as undo:
            at = cell.bind(pool, count * shape.nbytes)
            undo.callback(cell.close)
            cos, sin = kept(rows, sizes.half), kept(rows, sizes.half)
            passes = [laid_out(at.at(n * shape.nbytes), shape, cos, sin) for n in range(count)]
            picked = [kept(rows, dtype="int32") for _ in passes]
            for number in range(1, count):
                passes[number] = replace(passes[number], tokens=picked[number - 1])
            slot = DraftSlot(
                shape=shape,
                cell=cell,
                passes=tuple(passes),
                hidden=kept(rows, sizes.hidden),
                logits=tuple(kept(rows, sizes.vocab) for _ in passes),
                picked=tuple(picked),
                blocks=tuple(blocks),
                arena=Arena(self._pool),
            )
            undo.pop_all()
        return slot

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

    def _run(self, slot: DraftSlot) -> None:
        """A draft outside of any capture, whose scratch is of the pool that its capture is of."""
        with scope(self._pool):
            for number in range(self._config.tokens):
                self._pass(slot, number)

    def _run_declined(self, reason: str, slot: DraftSlot, batch: Batch) -> Drafted:
        self._run(slot)
        self.counts["eager_steps"] += 1
        self.counts["declined"] += 1
        self.counts[f"declined.{reason}"] += 1
        return self._told(State.EAGER, slot, batch, reason)

    def _capture(self, slot: DraftSlot, demand: Mapping[int, int]) -> None:
        """Give a slot its graph; it stays without one when the backend ran it eagerly."""
        self._pool.notes.profile(demand)
        try:
            # What one piece is done with serves the next one, and nobody else.
            with scope(slot.arena):
                slot.graph = self._build(slot)
        except BaseException:
            self.counts["failed"] += 1
            self._reset(slot)
            raise
        if slot.graph is None:
            self.counts["inert"] += 1
            self._reset(slot)
            return
        self.counts["captures"] += 1

    def _build(self, slot: DraftSlot) -> CapturedGraph | None:
        """Build a slot's graph piece by piece; None when its pieces just ran."""
        graph: Graph | None = self._backend.graph_create()
        for number in range(self._config.tokens):
            graph = self._add_piece(slot, graph, number)
        return None if graph is None else instantiate(self._backend, graph)

    def _add_piece(self, slot: DraftSlot, graph: Graph | None, number: int) -> Graph | None:
        """Capture a pass behind those before it; without a graph they ran, and so does this one."""
        if graph is None:
            self._pass(slot, number)
            return None
        with self._captures.window(graph):
            self._pass(slot, number)
        return self._captures.graph

    def _reset(self, slot: DraftSlot) -> None:
        """Take a slot back to where it was before its cold draft."""
        slot.arena.release()
        slot.demand = None

    def _told(self, state: State, slot: DraftSlot, batch: Batch, reason: str = "") -> Drafted:
        return Drafted(state=state, slot=slot, rows=len(batch.entries), reason=reason)
