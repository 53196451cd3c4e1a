"""What the graph container and the input cell show to scenarios, each by itself."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference.configuration import at_least, capture_mode, choice
from capturegate_reference.errors import SeamError
from capturegate_reference.vectors import NBYTES, WIDTH, VectorPass

if TYPE_CHECKING:
    from capturegate_reference.breakable import BreakableGraph
    from capturegate_reference.cells import InputCell

BREAKS_MAX = 64
FORKS_MAX = 64
REFRESH_NBYTES_MAX = 1 << 12


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

        self._backend = backend
        self._oracle = oracle
        self._breaks = at_least("breaks", config, 0, BREAKS_MAX)
        self._forks = at_least("forks", config, 0, FORKS_MAX)
        self._mode = choice("mode", config, {mode.value: mode for mode in GraphMode})
        self._capture_mode = capture_mode(config)
        self._vectors = VectorPass(
            backend, mode=self._mode, capture_mode=self._capture_mode, oracle=oracle
        )
        self._graph = self._vectors.graph
        self._stream = self._vectors.stream
        self._spare = self._vectors.vector()
        self.cell: InputCell = InputCell(backend, "input")
        self._steps = 0

    @verb
    def bind(self) -> Facts:
        """Bind the input cell."""
        return self._told(lambda: self.cell.bind(self._vectors.pool, NBYTES))

    @verb
    def refresh(self, nbytes: int = NBYTES, source: str = "host") -> Facts:
        """Refresh the first bytes of the input, from the host or the device, with other values."""
        at_least("nbytes", {"nbytes": nbytes}, 0, REFRESH_NBYTES_MAX)
        from_device = choice("source", {"source": source}, {"host": False, "device": True})
        self._steps += 1
        at = self.cell.counts["binds"] and self.cell.pointer.address
        if from_device:
            self._backend.memset(self._spare, self._steps, NBYTES)
        refresh = self._from_device if from_device else self._from_host
        facts = self._told(lambda: refresh(nbytes))
        moved = bool(at) and at != self.cell.pointer.address
        return {**facts, "moved": moved}

    @verb
    def run(self) -> Facts:
        """Run the pass: captured when it is its first time, replayed from then on."""
        if not self.cell.counts["binds"]:
            raise InputError("there is no input to run on", expected="the input cell bound before")
        self._backend.memset_async(self._vectors.total, 0, NBYTES, self._stream)
        return self._vectors.run(self._pass)

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
        return self._vectors.outputs()

    def buffers(self) -> Sequence[Pointer]:
        """The vector."""
        return (self._vectors.total,)

    def close(self) -> None:
        """Let go of everything."""
        self._vectors.close(self.cell.close)

    def _from_host(self, nbytes: int) -> None:
        values = [float(self._steps + column) for column in range(max(WIDTH, nbytes // 4))]
        data = struct.pack(f"<{len(values)}f", *values)[:nbytes]
        self.cell.refresh_host(data, self._stream)

    def _from_device(self, nbytes: int) -> None:
        self.cell.refresh_device(self._spare, nbytes, self._stream)

    def _new_graph(self) -> BreakableGraph:
        from capturegate_reference.breakable import BreakableGraph

        return BreakableGraph(
            self._backend, self._stream, mode=self._mode, capture_mode=self._capture_mode
        )

    def _pass(self) -> None:
        total, given = self._vectors.total, self.cell.pointer

        def add(term: Pointer) -> None:
            self._vectors.add(total, term, self._stream)

        for number in range(self._breaks + 1):
            if number:
                self._graph.break_here(lambda: add(total))
            add(given)
            for _ in range(0 if self._oracle else self._forks):
                side = self._graph.fork()
                self._backend.memset_async(self._spare, 0, NBYTES, side)

    def _opened(
        self, graph: BreakableGraph, act: Callable[[], object], *, closed: bool = False
    ) -> Facts:
        """Open a container and do something inside, or once it is closed; what that came to."""
        self._vectors.shows = False
        if self._oracle:
            return {}  # an oracle never captures
        facts: Facts = {}
        with graph.capture():
            self._backend.memset_async(self._spare, 0, NBYTES, self._stream)
            if not closed:
                facts = self._told(act)
        if closed:
            facts = self._told(act)
        graph.close()
        return facts

    def _told(self, act: Callable[[], object]) -> Facts:
        """Do something that may be refused; whether it was, and after how many backend calls."""
        self._vectors.shows = False
        before, refused = self._backend.recorder.count, False
        try:
            act()
        except SeamError:
            refused = True
        return {"refused": refused, "calls": self._backend.recorder.count - before}
