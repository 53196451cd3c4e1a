"""What the graph container and the input cell show to scenarios, each by itself."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Array, Backend, CaptureMode, Pointer, StreamKind
from capturegate_reference.configuration import choice
from capturegate_reference.errors import SeamError

if TYPE_CHECKING:
    from capturegate_reference.breakable import BreakableGraph
    from capturegate_reference.cells import InputCell

WIDTH = 8
NBYTES = 4 * WIDTH


class SeamAdapter:
    """A pass over one vector: segments add the input to it, breaks double it.

    Doubling and adding do not commute, so a replay out of order computes something else.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "mode": (str, "piecewise"),
        "capture_mode": (str, "thread_local"),
        "breaks": (int, 2),
        "forks": (int, 0),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.breakable import GraphMode
        from capturegate_reference.cells import InputCell
        from capturegate_reference.pool import DevicePool

        self._backend = backend
        self._oracle = oracle
        self._breaks: int = config["breaks"]
        self._forks: int = config["forks"]
        self._mode = choice("mode", config, {mode.value: mode for mode in GraphMode})
        captures = {mode.value: mode for mode in CaptureMode}
        self._capture_mode = choice("capture_mode", config, captures)
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._pool = DevicePool(backend, "persistent")
        self._total = self._pool.get(NBYTES)
        self._spare = self._pool.get(NBYTES)
        self.cell: InputCell = InputCell(backend, "input")
        self._graph: BreakableGraph = self._new_graph()
        self._steps = 0
        self._ran = False

    @verb
    def bind(self, nbytes: int = NBYTES) -> Facts:
        """Bind the input cell."""
        return self._told(lambda: self.cell.bind(self._pool, nbytes))

    @verb
    def refresh(self, nbytes: int = NBYTES, source: str = "host") -> Facts:
        """Refresh the first bytes of the input, from the host or the device, with other values."""
        self._steps += 1
        values = [float(self._steps + column) for column in range(max(WIDTH, nbytes // 4))]
        data = struct.pack(f"<{len(values)}f", *values)[:nbytes]
        at = self.cell.counts["binds"] and self.cell.pointer.address
        if source == "host":
            facts = self._told(lambda: self.cell.refresh_host(data, self._stream))
        else:
            spare = self._spare.pointer
            self._backend.memset(spare, self._steps, NBYTES)
            facts = self._told(lambda: self.cell.refresh_device(spare, nbytes, self._stream))
        moved = bool(at) and at != self.cell.pointer.address
        return {**facts, "moved": moved}

    @verb
    def run(self) -> Facts:
        """Run the pass: captured when it is its first time, replayed from then on."""
        from capturegate_reference.breakable import ContainerState

        self._backend.memset_async(self._total.pointer, 0, NBYTES, self._stream)
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
    def nest(self) -> Facts:
        """Open another container while one is open."""
        outer, inner = self._new_graph(), self._new_graph()
        return self._opened(outer, lambda: inner.capture().__enter__())

    @verb
    def reenter(self) -> Facts:
        """Open a container that is open."""
        graph = self._new_graph()
        return self._opened(graph, lambda: graph.capture().__enter__())

    @verb
    def recapture(self) -> Facts:
        """Open a container that was closed."""
        graph = self._new_graph()
        return self._opened(graph, lambda: graph.capture().__enter__(), closed=True)

    @verb
    def break_whole(self) -> Facts:
        """Break a container that has to be one graph."""
        from capturegate_reference.breakable import BreakableGraph, GraphMode

        graph = BreakableGraph(
            self._backend, self._stream, mode=GraphMode.FULL, capture_mode=self._capture_mode
        )
        return self._opened(graph, lambda: graph.break_here(lambda: None))

    def counters(self) -> Mapping[str, int]:
        """What the container and the cell count."""
        names = ("begins", "ends", "breaks", "joined", "binds", "host_refreshes")
        zeros = dict.fromkeys((*names, "device_refreshes"), 0)
        return zeros | self._graph.counts | self.cell.counts

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
        self.cell.close()
        for block in (self._total, self._spare):
            self._pool.put(block)
        self._pool.drain()
        self._backend.stream_destroy(self._stream)

    def _new_graph(self) -> BreakableGraph:
        from capturegate_reference.breakable import BreakableGraph

        return BreakableGraph(
            self._backend, self._stream, mode=self._mode, capture_mode=self._capture_mode
        )

    def _pass(self) -> None:
        from capturegate_reference.kernels import ADD

        total = self._total.pointer.array((WIDTH,))
        given = self.cell.pointer.array((WIDTH,))

        def add(term: Array) -> None:
            self._backend.launch(ADD, (total, term, WIDTH), self._stream, WIDTH)

        for number in range(self._breaks + 1):
            if number:
                self._graph.break_here(lambda: add(total))
            add(given)
            for _ in range(0 if self._oracle else self._forks):
                side = self._graph.fork()
                self._backend.memset_async(self._spare.pointer, 0, NBYTES, side)

    def _opened(
        self, graph: BreakableGraph, act: Callable[[], object], *, closed: bool = False
    ) -> Facts:
        """Open a container and do something inside, or once it is closed; what that came to."""
        self._ran = False
        if self._oracle:
            return {}  # an oracle never captures
        facts: Facts = {}
        with graph.capture():
            self._backend.memset_async(self._spare.pointer, 0, NBYTES, self._stream)
            if not closed:
                facts = self._told(act)
        if closed:
            facts = self._told(act)
        graph.close()
        return facts

    def _told(self, act: Callable[[], object]) -> Facts:
        """Do something that may be refused; whether it was, and after how many backend calls."""
        self._ran = False
        before, refused = self._backend.recorder.count, False
        try:
            act()
        except SeamError:
            refused = True
        return {"refused": refused, "calls": self._backend.recorder.count - before}
