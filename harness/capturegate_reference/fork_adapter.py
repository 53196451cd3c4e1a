"""What a container with side streams shows to scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer, Stream
from capturegate_reference.errors import SeamError
from capturegate_reference.vectors import NBYTES, VectorPass


class ForkAdapter:
    """A whole graph with two side streams: one is joined in the pass, one at its end.

    Where the configuration says `joined`, the pass joins the second one as well, as its last act.
    The first side stream clears a vector and is joined; what the pass then adds up there is
    doubled on the second one. So every edge of the forks and joins decides what comes out.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {"joined": (bool, False)}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {}
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.breakable import GraphMode

        self._backend = backend
        self._oracle = oracle
        self._joined: bool = config["joined"]
        self._vectors = VectorPass(
            backend, mode=GraphMode.FULL, capture_mode=CaptureMode.THREAD_LOCAL, oracle=oracle
        )
        self._graph = self._vectors.graph
        self._given, self._sum = self._vectors.vector(), self._vectors.vector()
        self._passes = 0

    @verb
    def run(self) -> Facts:
        """Run the pass: captured when there is no graph yet, replayed from then on."""
        self._give()
        return self._vectors.run(self._pass)

    @verb
    def fail(self) -> Facts:
        """Break the graph, which has to be whole, at the end of its pass: nothing comes of it."""
        self._give()
        self._vectors.shows = False
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
        return self._vectors.outputs()

    def buffers(self) -> Sequence[Pointer]:
        """The vector."""
        return (self._vectors.total,)

    def close(self) -> None:
        """Let go of everything."""
        self._vectors.close()

    def _give(self) -> None:
        """Put another input where the pass finds it."""
        self._passes += 1
        self._backend.memset(self._given, self._passes, NBYTES)

    def _pass(self) -> None:
        stream, total = self._vectors.stream, self._vectors.total
        self._backend.memset_async(total, 0, NBYTES, stream)
        first = self._side()
        self._backend.memset_async(self._sum, 0, NBYTES, first)
        self._join(first)
        self._vectors.add(self._sum, self._given, stream)
        last = self._side()
        self._vectors.add(total, self._sum, last)
        if self._joined:
            self._join(last)

    def _side(self) -> Stream:
        return self._vectors.stream if self._oracle else self._graph.fork()

    def _join(self, side: Stream) -> None:
        if not self._oracle:
            self._graph.join(side)
