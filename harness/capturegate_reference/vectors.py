"""One vector that a captured pass computes: what small adapters have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from capturegate.adapter import Facts, Output
from capturegate.backend import Backend, CaptureMode, Pointer, Stream, StreamKind

if TYPE_CHECKING:
    from capturegate_reference.breakable import GraphMode
    from capturegate_reference.pool import Block

WIDTH = 8
NBYTES = 4 * WIDTH


class VectorPass:
    """A pass over vectors: captured when it runs first, replayed from then on.

    Attributes:
        stream: what everything is submitted to.
        pool: whose blocks the vectors are.
        graph: the container of the pass.
        total: the vector that comes out.
        shows: whether the last verb was a run, whose vector is there to be seen.
    """

    def __init__(
        self, backend: Backend, *, mode: GraphMode, capture_mode: CaptureMode, oracle: bool
    ) -> None:
        from capturegate_reference.breakable import BreakableGraph
        from capturegate_reference.pool import DevicePool

        self._backend = backend
        self._oracle = oracle
        self._blocks: list[Block] = []
        self.stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.pool = DevicePool(backend, "persistent")
        self.graph = BreakableGraph(backend, self.stream, mode=mode, capture_mode=capture_mode)
        self.total = self.vector()
        self.shows = False

    def vector(self) -> Pointer:
        """Another vector, there until the close."""
        self._blocks.append(self.pool.get(NBYTES))
        return self._blocks[-1].pointer

    def add(self, total: Pointer, term: Pointer, stream: Stream) -> None:
        """Add one vector to another."""
        from capturegate_reference.kernels import ADD

        arrays = total.array((WIDTH,)), term.array((WIDTH,))
        self._backend.launch(ADD, (*arrays, WIDTH), stream, WIDTH)

    def run(self, work: Callable[[], None]) -> Facts:
        """Run the pass, which an oracle never captures."""
        from capturegate_reference.breakable import ContainerState

        if self._oracle:
            work()
        else:
            if self.graph.state is ContainerState.NEW:
                with self.graph.capture():
                    work()
            self.graph.replay()
        self._backend.stream_synchronize(self.stream)
        self.shows = True
        return {"segments": self.graph.segments, "state": str(self.graph.state)}

    def outputs(self) -> Sequence[Output]:
        """The vector, after a run."""
        if not self.shows:
            return ()
        return (Output(name="total", pointer=self.total, row_bytes=NBYTES, rows=1, rows_padded=1),)

    def close(self, *parts: Callable[[], None]) -> None:
        """Drop the graphs, close what else lives of the pool, and let go of everything."""
        self.graph.close()
        for close in parts:
            close()
        for block in self._blocks:
            self.pool.put(block)
        self.pool.drain()
        self._backend.stream_destroy(self.stream)
