"""What the names of a running program stand for, and what has to be given back after it."""

from __future__ import annotations

from typing import Any

from capturegate.backend.device import Device
from capturegate.backend.handles import Graph, Stream
from capturegate.programs.bench import Bench, must
from capturegate.programs.ops import OPS, Call, Program

_READY = ("block", "host", "reachable")

_ALONE = ("graph_destroy", "begin_to_graph")
"""What must not be done to a graph that a capture adds to."""


class Names:
    """The named things of one program on one device.

    Attributes:
        watched: the streams whose capture is looked at after each call.
        into: the graph that a stream's capture adds to.
    """

    def __init__(self, device: Device, bench: Bench, program: Program) -> None:
        self._device = device
        self._bench = bench
        self.streams: dict[str, Stream] = dict(bench.streams)
        self.watched: list[str] = []
        self.into: dict[str, Graph] = {}
        self._things: dict[str, Any] = {}
        self._owned: dict[str, dict[Any, None]] = {}
        self._registered: set[str] = set()
        self._in_nodes: set[str] = set()
        self._instantiated: set[Graph] = set()
        for call in program:
            self.prepare(call)

    def prepare(self, call: Call) -> None:
        """Have ready what a call needs and no call makes."""
        for kind, value in zip(OPS[call[0]].args, call[2:], strict=True):
            self._prepare(kind, value)

    def resolve(self, call: Call, capturing: bool) -> list[Any] | None:
        """What the call's arguments stand for; None when one of them does not exist."""
        found: list[Any] = []
        for kind, value in zip(OPS[call[0]].args, call[2:], strict=True):
            if kind[0] == "+":
                continue
            base = kind.lstrip("-")
            if base == "stream":
                thing: Any = self.streams.get(value)
                if kind == "-stream" and (capturing or value[0] != "t"):
                    return None  # the others stay; a capture must not lose its stream
            elif base == "pages":
                thing = self._bench.pages[value]
            elif base in _READY:
                thing = self._bench.blocks[value]
            elif base in ("event", "memory", "pinned", "graph", "exec"):
                thing = self._things.get(value)
                if call[0] in _ALONE and thing in self.into.values():
                    return None
                if call[0] == "begin_to_graph" and self._memory_in_use(thing):
                    return None
                if kind == "-event" and value in self._in_nodes:
                    return None
            else:
                thing = value
            if thing is None:
                return None
            found.append(thing)
        return found

    def keep(self, call: Call, value: Any) -> None:
        """Note what a successful call made and what it used up."""
        for kind, name in zip(OPS[call[0]].args, call[2:], strict=True):
            base = kind[1:]
            if kind[0] == "+" and value is not None:
                self._own(base, name, value)
            elif kind[0] == "-":
                names: dict[str, Any] = self.streams if base == "stream" else self._things
                thing = names[name]
                for alias in [n for n, t in names.items() if t == thing]:
                    del names[alias]
                self._owned[base].pop(thing, None)
                if base == "stream":
                    self.watched.remove(name)
        if call[0] == "instantiate":
            self._instantiated.add(self._things[call[2]])
        elif call[0] == "host_register":
            self._registered.add(call[2])
        elif call[0] == "host_unregister":
            self._registered.discard(call[2])
        elif call[0] == "record" and call[4]:
            self._in_nodes.add(call[2])
        elif call[0] == "wait" and call[4]:
            self._in_nodes.add(call[3])

    def _memory_in_use(self, graph: Graph | None) -> bool:
        """Whether a graph has memory nodes and has been made an executable."""
        if graph is None or graph not in self._instantiated:
            return False
        nodes = self._device.graph_get_nodes(graph).value or ()
        return any(node.kind.startswith("mem_") for node in nodes)

    def leave(self, key: str, *, alive: bool) -> None:
        """A stream's capture is over; a graph that it added to in vain is gone with it."""
        graph = self.into.pop(key, None)
        if graph is not None and not alive:
            self._owned["graph"].pop(graph, None)
            self._things = {n: t for n, t in self._things.items() if t != graph}

    def own_graph(self, graph: Graph) -> None:
        """Take over a graph that no call of the program named."""
        self._owned.setdefault("graph", {})[graph] = None

    def release(self) -> None:
        """Give back everything that the program made; refusals do not matter here."""
        device = self._device
        for name in self._registered:
            device.host_unregister(self._bench.pages[name])
        for base, give_back in (
            ("memory", device.free),
            ("pinned", device.free_host),
            ("exec", device.graph_exec_destroy),
            ("graph", device.graph_destroy),
            ("event", device.event_destroy),
            ("stream", device.stream_destroy),
        ):
            for thing in self._owned.get(base, ()):
                give_back(thing)

    def _prepare(self, kind: str, value: Any) -> None:
        if kind == "stream" and value in self.streams:
            if value != "legacy" and value not in self.watched:
                self.watched.append(value)
        elif kind in ("event", "-event") and value not in self._things:
            self._own("event", value, must(self._device.event_create(), "event creation"))

    def _own(self, base: str, name: str, thing: Any) -> None:
        if base == "stream":
            self.streams[name] = thing
            if name not in self.watched:
                self.watched.append(name)
        else:
            self._things[name] = thing
        self._owned.setdefault(base, {})[thing] = None
