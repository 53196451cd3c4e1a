"""What a container with side streams shows to scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer, Stream, StreamKind
from capturegate_reference.errors import SeamError

if TYPE_CHECKING:
    from capturegate_reference.pool import Block

WIDTH = 8
NBYTES = 4 * WIDTH


class ForkAdapter:
    """A whole graph with two side streams: one is joined in the pass, one at its end.

    The first side stream clears a vector and is joined; what the pass then adds up there is
    doubled on the second one. So every edge of the forks and joins decides what comes out.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = True

    def __init__(
        self,
        backend: Backend,
        config: Mapping[str, Any],  # noqa: ARG002  # there is nothing to configure
        *,
        oracle: bool,
    ) -> None:
        from capturegate_reference.breakable import BreakableGraph, GraphMode
        from capturegate_reference.pool import DevicePool

        self._backend = backend
        self._oracle = oracle
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._pool = DevicePool(backend, "persistent")
        self._graph = BreakableGraph(
            backend, self._stream, mode=GraphMode.FULL, capture_mode=CaptureMode.THREAD_LOCAL
        )
        self._given, self._sum, self._total = (self._pool.get(NBYTES) for _ in range(3))
        self._passes = 0
        self._ran = False

    @verb
    def run(self) -> Facts:
        """Run the pass: captured when there is no graph yet, replayed from then on."""
        from capturegate_reference.breakable import ContainerState

        self._give()
        if self._oracle:
            self._pass()
        else:
            if self._graph.state is ContainerState.NEW:
                with self._graph.capture():
                    self._pass()
            self._graph.replay()
        self._backend.stream_synchronize(self._stream)
        self._ran = True
        return {"segments": self._graph.segments, "state": str(self._graph.state)}

    @verb
    def fail(self) -> Facts:
        """Break the graph, which has to be whole, at the end of its pass: nothing comes of it."""
        self._give()
        self._ran = False
        if self._oracle:
            return {}  # an oracle never captures
        refused = False
        try:
            with self._graph.capture():
                self._pass()
                self._graph.break_here(lambda: None)
        except SeamError:
            refused = True
        return {"refused": refused, "state": str(self._graph.state)}

    def counters(self) -> Mapping[str, int]:
        """What the container counts."""
        return dict.fromkeys(("begins", "ends", "joined"), 0) | self._graph.counts

    def outputs(self) -> Sequence[Output]:
        """The vector, after a pass."""
        if not self._ran:
            return ()
        pointer = self._total.pointer
        return (Output(name="total", pointer=pointer, row_bytes=NBYTES, rows=1, rows_padded=1),)

    def buffers(self) -> Sequence[Pointer]:
        """The vector."""
        return (self._total.pointer,)

    def close(self) -> None:
        """Let go of everything."""
        self._graph.close()
        for block in (self._given, self._sum, self._total):
            self._pool.put(block)
        self._pool.drain()
        self._backend.stream_destroy(self._stream)

    def _give(self) -> None:
        """Put another input where the pass finds it."""
        self._passes += 1
        self._backend.memset(self._given.pointer, self._passes, NBYTES)

    def _pass(self) -> None:
        self._backend.memset_async(self._total.pointer, 0, NBYTES, self._stream)
        first = self._side()
        self._backend.memset_async(self._sum.pointer, 0, NBYTES, first)
        if not self._oracle:
            self._graph.join(first)
        self._add(self._sum, self._given, self._stream)
        self._add(self._total, self._sum, self._side())

    def _side(self) -> Stream:
        return self._stream if self._oracle else self._graph.fork()

    def _add(self, total: Block, term: Block, stream: Stream) -> None:
        from capturegate_reference.kernels import ADD

        arrays = total.pointer.array((WIDTH,)), term.pointer.array((WIDTH,))
        self._backend.launch(ADD, (*arrays, WIDTH), stream, WIDTH)
