"""What the names of a running program stand for, and what has to be given back after it."""

from __future__ import annotations

from typing import Any

from capturegate.backend.device import Device
from capturegate.backend.handles import Graph, Stream
from capturegate.programs.bench import Bench, must
from capturegate.programs.ops import OPS, PAGEABLE_BLOCKS, Call, Program

_READY = ("block", "host", "reachable")

_ALONE = ("graph_destroy", "begin_to_graph")
"""What must not be done to a graph that a capture adds to."""

_GROWING = {"begin_to_graph": 3, "add_child": 2}
"""What must not be done to a graph whose memory nodes an executable holds, and its place."""


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
            if kind == "+stream" and value in self.streams:
                return None  # it may capture, and could not be ended without its name
            if kind[0] == "+":
                continue
            thing = self._thing(kind.lstrip("-"), value)
            if thing is None or self._undefined(call, kind, value, thing, capturing):
                return None
            found.append(thing)
        return found

    def _thing(self, base: str, value: Any) -> Any:
        """What an argument stands for; None when it does not exist."""
        if base == "stream":
            return self.streams.get(value)
        if base == "pages":
            return self._bench.pages[value]
        if base in _READY:
            return self._bench.blocks[value]
        if base in ("event", "memory", "pinned", "graph", "exec"):
            return self._things.get(value)
        return value

    def _undefined(self, call: Call, kind: str, value: Any, thing: Any, capturing: bool) -> bool:
        """Whether CUDA does not define this call on this thing."""
        if kind == "-stream":
            # The others stay, and so does one whose capture adds to a graph.
            return value[0] != "t" or (capturing and bool(self.into))
        if kind == "-event":
            return value in self._in_nodes
        if kind in ("graph", "-graph"):
            captured_into = call[0] in _ALONE and thing in self.into.values()
            grows = call[0] in _GROWING and call[_GROWING[call[0]]] == value
            return (
                captured_into or (grows and self._memory_in_use(thing)) or self._embeds_itself(call)
            )
        # Recorded, it would be a node that the device cannot run.
        return call[0] == "memset_async" and capturing and value in PAGEABLE_BLOCKS

    def _embeds_itself(self, call: Call) -> bool:
        return call[0] == "add_child" and self._things.get(call[2]) == self._things.get(call[3])

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
