"""Random call programs: mostly sensible captures, with now and then a call that is refused.

The generator follows what it makes (which streams capture, which events belong to a capture)
well enough to write programs that close their captures; it does not know CUDA's rules, which is
what it is there to try.
"""

from __future__ import annotations

import random
from typing import Any

from capturegate.programs.ops import KERNELS, MODES, OPS, STREAM_KINDS
from capturegate.programs.probes import ANYWHERE, CALLS_MIN, probe, standing, varied, work

_CAPTURING = ("b1", "n1", "b2", "n2", "own", "n1", "b1", "n1")


def generate(seed: int) -> list[list[Any]]:
    """The program of a seed: eight calls or more."""
    rng = random.Random(seed)  # noqa: S311  # no secret depends on it
    roll = rng.random()
    if roll < 0.22:
        return probe(rng)
    if roll < 0.40:
        return varied(rng)
    if roll < 0.57:
        return standing(rng)
    return _Writer(rng).write()


class _Writer:
    """Writes one program and follows what it should have made."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.calls: list[list[Any]] = []
        self.threads = rng.choice((1, 1, 1, 2, 2, 3))
        self.wild = rng.choice((0.0, 0.0, 0.1, 0.25))
        self.origins: dict[str, tuple[int, str]] = {}
        self.members: dict[str, str] = {}
        self.events: dict[str, str] = {}
        self.graphs: list[str] = []
        self.execs: list[str] = []
        self.memory: list[str] = []
        self.counter = 0

    def write(self) -> list[list[Any]]:
        """The whole program."""
        length = self.rng.randrange(CALLS_MIN, 18)
        if self.rng.random() < 0.25:
            self._eager(0)
        while len(self.calls) < length:
            self._next()
        for origin in list(self.origins):
            self._close(origin)
        if self.graphs and not self.execs:
            self._graph_call(0)
        return self.calls

    def _new(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def _add(self, *call: Any) -> None:
        self.calls.append(list(call))

    def _thread(self) -> int:
        return self.rng.randrange(self.threads)

    def _next(self) -> None:
        rng = self.rng
        roll = rng.random()
        if not self.origins:
            if roll < 0.55:
                self._begin()
            elif roll < 0.75 and self.graphs:
                self._graph_call(self._thread())
            elif roll < 0.9:
                self._eager(self._thread())
            else:
                self._any()
        elif rng.random() < self.wild:
            self._any()
        elif roll < 0.5:
            stream = rng.choice(list(self.members))
            thread = self.origins[self.members[stream]][0] if rng.random() < 0.8 else 0
            self.calls.append(work(rng, stream, thread))
        elif roll < 0.62:
            self._fork()
        elif roll < 0.72:
            self._join()
        elif roll < 0.78:
            self._captured_memory()
        elif roll < 0.8:
            self._begin()
        elif roll < 0.84:
            stream = rng.choice(list(self.members))
            self._external(stream)
        else:
            self._close(rng.choice(list(self.origins)))

    def _begin(self) -> None:
        rng = self.rng
        free = [s for s in _CAPTURING if s not in self.members]
        if not free:
            return
        stream, thread = rng.choice(free), self._thread()
        if rng.random() < 0.15:
            self._add("exchange", thread, rng.choice(MODES))
        if self.graphs and rng.random() < 0.15:
            graph = rng.choice(self.graphs)
            which = rng.choice(("none", "leaves"))
            self._add("begin_to_graph", thread, stream, graph, which, rng.choice(MODES))
        else:
            self._add("begin", thread, stream, rng.choice(MODES))
        self.origins[stream] = (thread, stream)
        self.members[stream] = stream

    def _fork(self) -> None:
        rng = self.rng
        source = rng.choice(list(self.members))
        origin = self.members[source]
        free = [s for s in _CAPTURING if s not in self.members]
        if not free:
            return
        event, target = self._new("e"), rng.choice(free)
        thread = self.origins[origin][0]
        self._add("record", thread, event, source, 0)
        self._add("wait", thread, target, event, 0)
        self.members[target] = origin

    def _join(self, origin: str | None = None) -> None:
        rng = self.rng
        forked = [s for s, o in self.members.items() if s != o and origin in (None, o)]
        for stream in forked if origin else forked[:1]:
            into = self.members.pop(stream)
            thread, event = self.origins[into][0], self._new("e")
            self._add("record", thread, event, stream, 0)
            self._add("wait", thread, into, event, 0)
            if origin is None and rng.random() < 0.5:
                self.members[stream] = into

    def _close(self, origin: str) -> None:
        rng = self.rng
        if rng.random() < 0.93:
            self._join(origin)
        thread, stream = self.origins.pop(origin)
        self.members = {s: o for s, o in self.members.items() if o != origin}
        if rng.random() < 0.05:
            thread = self._thread()
        graph = self._new("g")
        self._add("end", thread, stream, graph)
        self.graphs.append(graph)

    def _captured_memory(self) -> None:
        rng = self.rng
        stream = rng.choice(list(self.members))
        thread = self.origins[self.members[stream]][0]
        if self.memory and rng.random() < 0.5:
            self._add("free_async", thread, self.memory.pop(), stream)
        else:
            name = self._new("m")
            self._add("malloc_async", thread, name, 4096, stream)
            self.memory.append(name)

    def _external(self, stream: str) -> None:
        thread = self.origins[self.members[stream]][0]
        if self.rng.random() < 0.5:
            self._add("record", thread, self._new("e"), stream, 1)
        else:
            self._add("wait", thread, stream, self._new("e"), 1)

    def _graph_call(self, thread: int) -> None:
        rng = self.rng
        stream = rng.choice(ANYWHERE)
        if not self.execs or rng.random() < 0.3:
            name = self._new("x")
            self._add("instantiate", thread, rng.choice(self.graphs), name)
            self.execs.append(name)
            self._add("graph_launch", thread, name, stream)
            return
        if rng.random() < 0.15:
            self._embed(thread)
            return
        executable, graph = rng.choice(self.execs), rng.choice(self.graphs)
        roll = rng.random()
        if roll < 0.4:
            self._add("graph_launch", thread, executable, stream)
        elif roll < 0.5:
            self._add("upload", thread, executable, stream)
        elif roll < 0.75:
            self._add("update", thread, executable, graph)
        elif roll < 0.85:
            block, kernel = rng.choice(("d1", "d2")), rng.choice(KERNELS)
            self._add("set_params", thread, executable, graph, rng.randrange(3), kernel, block, 5)
        elif roll < 0.9:
            self._add("exec_destroy", thread, executable)
        elif roll < 0.95:
            self._add("graph_destroy", thread, graph)
        else:
            self._add("nodes", thread, graph)

    def _embed(self, thread: int) -> None:
        rng = self.rng
        parent = rng.choice(self.graphs)
        if rng.random() < 0.5:
            parent = self._new("g")
            self._add("graph_create", thread, parent)
        for _ in range(rng.choice((1, 1, 2))):
            child = rng.choice(self.graphs)
            self._add("add_child", thread, parent, child, rng.choice(("none", "leaves")))
        if parent not in self.graphs:
            self.graphs.append(parent)
        name = self._new("x")
        self._add("instantiate", thread, parent, name)
        self.execs.append(name)
        self._add("graph_launch", thread, name, rng.choice(ANYWHERE))

    def _eager(self, thread: int) -> None:
        rng = self.rng
        roll = rng.random()
        stream = rng.choice(ANYWHERE)
        if roll < 0.5:
            self.calls.append(work(rng, stream, thread))
        elif roll < 0.65:
            self._add("record", thread, rng.choice(("e91", "e92")), stream, 0)
        elif roll < 0.75:
            self._add("wait", thread, stream, rng.choice(("e91", "e92")), 0)
        else:
            self._add("host_write", thread, rng.choice(("p1", "h1")), rng.randrange(99))

    def _any(self) -> None:
        """Any call of the interface with any arguments."""
        rng = self.rng
        name = rng.choice(tuple(OPS))
        arguments = [self._argument(kind) for kind in OPS[name].args]
        if name in ("malloc", "malloc_async", "malloc_host", "malloc_managed"):
            arguments[1] = 4096
        self._add(name, self._thread(), *arguments)

    def _argument(self, kind: str) -> Any:
        rng = self.rng
        base = kind.lstrip("+-")
        if kind[0] == "+":
            return self._new({"stream": "t", "pinned": "q", "exec": "x"}.get(base, base[0]))
        choices: dict[str, tuple[Any, ...]] = {
            "stream": (*ANYWHERE, *self.members),
            "block": ("d1", "d2", "d3", "p1", "h1"),
            "host": ("p1", "p2", "h1", "h2"),
            "reachable": ("d1", "d2", "d3", "p1"),
            "pages": ("r1", "r2"),
            "memory": tuple(self.memory[-3:]) or ("m1",),
            "pinned": ("q1",),
            "graph": tuple(self.graphs[-3:]) or ("g1",),
            "exec": tuple(self.execs[-3:]) or ("x1",),
            "event": ("e91", "e92", *(f"e{i}" for i in range(1, self.counter + 1))),
            "mode": MODES,
            "kernel": KERNELS,
            "streamkind": STREAM_KINDS,
            "dependencies": ("none", "leaves"),
            "flag": (0, 0, 1),
            "int": tuple(range(1, 9)),
        }
        return rng.choice(choices[base])
