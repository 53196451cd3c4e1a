"""The chunk driver: prefill in chunks of one fixed length, whose graphs break at attention.

Attention of a prefill has a cost that follows the context, so its kernels stay out of the graphs
and run between the segments. Everything else of a chunk has one shape, and one container.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from capturegate.backend import Backend, CaptureMode, Stream
from capturegate_reference.arena import Arena
from capturegate_reference.breakable import BreakableGraph, ContainerState, GraphMode
from capturegate_reference.cells import InputCell
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Batch, StepShape, laid_out, pack
from capturegate_reference.model import Model, run_now
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.scratch import scope
from capturegate_reference.slots import Logits, State, StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkConfig:
    """How chunks run.

    Attributes:
        tokens: rows of a chunk; a shorter one is padded.
        mode: piecewise breaks at attention, full takes it into the one graph.
        always_cold: run every chunk eagerly, for reference outputs.
    """

    tokens: int = 8
    mode: GraphMode = GraphMode.PIECEWISE
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL
    always_cold: bool = False


class ChunkDriver:
    """Chunks of one request at a time on one stream.

    Attributes:
        counts: how often what happened; declines once in all and once under their reason.
        graph: the container, which counts what it begins and ends.
        cell: the chunk's inputs.
        logits: the logits of the last chunk, kept.
    """

    def __init__(
        self,
        backend: Backend,
        model: Model,
        config: ChunkConfig,
        *,
        stream: Stream,
        pool: DevicePool,
        persistent: DevicePool,
        columns: int,
    ) -> None:
        sizes = model.sizes
        self.counts: Counter[str] = Counter()
        self._model = model
        self._config = config
        self._stream = stream
        self._pool = pool
        self._shape = StepShape(requests=1, rows=config.tokens, columns=columns)
        rows = config.tokens
        widths = (sizes.hidden, sizes.vocab, sizes.half, sizes.half)
        self._blocks: list[Block] = []
        self.cell = InputCell(backend, "chunk")
        with ExitStack() as undo:
            for width in widths:
                self._blocks.append(persistent.get(4 * rows * width))
                undo.callback(persistent.put, self._blocks[-1])
            at = self.cell.bind(persistent, self._shape.nbytes)
            undo.pop_all()
        hidden, logits, cos, sin = (
            block.pointer.array((rows, width))
            for block, width in zip(self._blocks, widths, strict=True)
        )
        self._hidden = hidden
        self.logits = logits
        self._inputs = laid_out(at, self._shape, cos, sin)
        self.graph = BreakableGraph(
            backend, stream, mode=config.mode, capture_mode=config.capture_mode
        )
        self._arena = Arena(pool)
        self._demand: Mapping[int, int] | None = None

    def step(self, batch: Batch) -> StepResult:
        """Run one chunk; submits it and does not wait.

        Raises:
            CudaError: a call failed. A capture that failed leaves the driver as if it had never
                run; the first cause is what is raised.
            EngineError: the chunk is not one request's, or too long, or its block table is not as
                wide as the driver's; no call of the backend was made.
        """
        pool = self._pool
        self._admit(batch)
        pool.mark_step_boundary()
        data = pack(batch, self._shape, self._model.sizes.page_tokens)
        self.cell.refresh_host(data, self._stream)
        # Every request is a driver call under bypass, and none of them may be in a capture.
        if pool.bypassed:
            return self._run_declined("bypass", batch)
        if self._demand is None or self._config.always_cold:
            self._run()
            self._demand = pool.step_demand_profile()
            self.counts["cold_steps"] += 1
            return self._told(State.COLD, batch)
        state = State.REPLAY
        if self.graph.state is ContainerState.NEW:
            state = State.CAPTURE
            pool.pre_grow_for_capture(self._demand)
            self._capture(self._demand)
        if self.graph.state is ContainerState.NEW:
            return self._told(State.INERT, batch)
        self.graph.replay()
        return self._told(state, batch)

    def close(self) -> None:
        """Drop the graphs, then everything that they wrote to."""
        self.graph.close()
        self._arena.release()
        self.cell.close()
        for block in self._blocks:
            block.owner.put(block)

    def _admit(self, batch: Batch) -> None:
        requests, rows = len(batch.entries), batch.rows
        if requests != 1:
            raise EngineError(f"a chunk is one request's, and this one has {requests} requests")
        if rows > self._config.tokens:
            raise EngineError(
                f"a chunk of {rows} tokens is longer than the {self._config.tokens} of the driver"
            )
        if batch.columns != self._shape.columns:
            raise EngineError(
                f"a chunk's block table of {batch.columns} columns is not of the "
                f"{self._shape.columns} that the driver was made for"
            )

    def _run_declined(self, reason: str, batch: Batch) -> StepResult:
        self._run()
        self.counts["eager_steps"] += 1
        self.counts["declined"] += 1
        self.counts[f"declined.{reason}"] += 1
        return self._told(State.EAGER, batch, reason)

    def _capture(self, demand: Mapping[int, int]) -> None:
        """Fill the container; it stays new when the backend ran the chunk eagerly."""
        self._pool.notes.profile(demand)
        # The arena keeps what the segments took for as long as they are replayed.
        try:
            with scope(self._arena), self.graph.capture():
                self._forward()
        except BaseException:
            self.counts["failed"] += 1
            self._reset()
            raise
        if self.graph.state is ContainerState.NEW:
            self.counts["inert"] += 1
            self._reset()
            return
        self.counts["captures"] += 1

    def _reset(self) -> None:
        """Go back to where the driver was before its cold chunk."""
        self._arena.release()
        self._demand = None

    def _run(self) -> None:
        """A chunk outside of any capture, whose scratch is of the pool that its capture is of."""
        with scope(self._pool):
            self._forward()

    def _forward(self) -> None:
        model, stream = self._model, self._stream
        model.derive(self._inputs, stream)
        piecewise = self._config.mode is GraphMode.PIECEWISE
        between = self.graph.break_here if piecewise else run_now
        model.forward(self._inputs, self._hidden, self.logits, stream, between=between)

    def _told(self, state: State, batch: Batch, reason: str = "") -> StepResult:
        shown = Logits(pointer=self.logits.pointer, rows=batch.rows, rows_padded=self._shape.rows)
        return StepResult(state=state, logits=shown, reason=reason)
