"""Graphs of a real device: identities, what each node baked, and the walk over the nodes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from capturegate.backend.handles import Graph, GraphExec, GraphNode
from capturegate.status import SUCCESS, Span
from capturegate_backends.cupy.binding import Cuda
from capturegate_backends.cupy.kernels import Kernels
from capturegate_backends.cupy.ledger import Baked, Content, Memory

_KINDS = {
    "Kernel": "kernel",
    "Memcpy": "memcpy",
    "Memset": "memset",
    "Host": "host",
    "Graph": "graph",
    "Empty": "empty",
    "WaitEvent": "wait_event",
    "EventRecord": "event_record",
    "MemAlloc": "mem_alloc",
    "MemFree": "mem_free",
    "Conditional": "conditional",
}


class _UpdateInfo(ctypes.Structure):
    _fields_ = (
        ("result", ctypes.c_int),
        ("error_node", ctypes.c_void_p),
        ("error_from_node", ctypes.c_void_p),
    )


class Graphs:
    """The graphs and executables of one device that are known by id."""

    def __init__(self, cuda: Cuda, memory: Memory, kernels: Kernels) -> None:
        self._cuda = cuda
        self._memory = memory
        self._kernels = kernels
        self._next_graph = itertools.count(1).__next__
        self._next_exec = itertools.count(1).__next__
        self._next_node = itertools.count(1).__next__
        self._by_native: dict[int, Graph] = {}
        self._nodes: dict[int, dict[int, int]] = {}
        self._natives: dict[int, dict[int, Any]] = {}
        self._contents: dict[int, Content] = {}
        self._executables: dict[int, Content] = {}
        self._libcuda: Any = None

    def graph(self, native: Any) -> Graph:
        """The graph behind a native handle; a new one gets a new id."""
        found = self._by_native.get(int(native))
        if found is None:
            found = Graph(self._next_graph(), native)
            self._by_native[int(native)] = found
            self._nodes[found.id] = {}
            self._natives[found.id] = {}
            self._contents[found.id] = {}
        return found

    def forget(self, graph: Graph) -> None:
        """Note that a graph is destroyed."""
        for native, known in list(self._by_native.items()):
            if known.id == graph.id:
                del self._by_native[native]
        for table in (self._nodes, self._natives, self._contents):
            table.pop(graph.id, None)

    def forget_native(self, native: int) -> None:
        """Note that the graph of a failed capture is gone."""
        if native in self._by_native:
            self.forget(self._by_native[native])

    def node(self, graph: Graph, native: Any) -> int:
        """The id of a node; a new one gets a new id."""
        table = self._nodes[graph.id]
        found = table.get(int(native))
        if found is None:
            found = table[int(native)] = self._next_node()
            self._natives[graph.id][found] = native
        return found

    def native_node(self, graph: int, node: int) -> Any:
        """The native handle of a node; None when it is not known."""
        return self._natives.get(graph, {}).get(node)

    def bake(self, graph: Graph, node: int, baked: Baked) -> None:
        """Note what a recorded call baked into its node."""
        self._contents[graph.id][node] = baked

    def instantiated(self, graph: Graph, native: Any) -> GraphExec:
        """A new executable with the content that its graph has now."""
        made = GraphExec(self._next_exec(), graph.id, native)
        self._executables[made.id] = dict(self._contents.get(graph.id, {}))
        return made

    def updated(self, executable: GraphExec, graph: Graph) -> None:
        """Note that an executable took over another graph's content."""
        self._executables[executable.id] = dict(self._contents.get(graph.id, {}))

    def rebake(self, executable: GraphExec, node: int, baked: Baked) -> None:
        """Note that one node of an executable got new parameters."""
        self._executables.setdefault(executable.id, {})[node] = baked

    def forget_exec(self, executable: GraphExec) -> None:
        """Note that an executable is destroyed."""
        self._executables.pop(executable.id, None)

    def touched(self, executable: GraphExec) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """What a launch reads and writes now: baked places with today's allocations."""
        content = self._executables.get(executable.id, {}).values()
        resolve = self._memory.resolve
        return (
            tuple(span for baked in content for span in resolve(baked.reads)),
            tuple(span for baked in content for span in resolve(baked.writes)),
        )

    def update_result(self, executable: GraphExec, graph: Graph) -> str:
        """Why an update was refused; the runtime's binding drops it beside an error."""
        if self._libcuda is None:
            self._libcuda = ctypes.CDLL("libcuda.so.1")
        info = _UpdateInfo()
        self._libcuda.cuGraphExecUpdate_v2(
            ctypes.c_void_p(int(executable.native)),
            ctypes.c_void_p(int(graph.native)),
            ctypes.byref(info),
        )
        name: str = self._cuda.runtime.cudaGraphExecUpdateResult(info.result).name
        return name

    def embedded(self, graph: Graph, native: Any, child: Graph) -> int:
        """Note the node that embeds a copy of a graph, with all that the copy baked; its id."""
        node = self.node(graph, native)
        contents = self._contents.get(child.id, {}).values()
        self._contents[graph.id][node] = Baked(
            "",
            tuple(p for baked in contents for p in baked.reads),
            tuple(p for baked in contents for p in baked.writes),
            tuple(s for baked in contents for s in baked.read_spans),
            tuple(s for baked in contents for s in baked.write_spans),
        )
        return node

    def walk(self, graph: Graph) -> tuple[str, tuple[GraphNode, ...]]:
        """Every node of a graph with its dependencies and, for kernels, its baked arguments."""
        error, natives = self._listed(graph.native)
        if error != SUCCESS:
            return error, ()
        contents = self._contents[graph.id]
        return error, tuple(
            self._describe(native, partial(self.node, graph), contents) for native in natives
        )

    def _listed(self, graph: Any) -> tuple[str, Sequence[Any]]:
        """The native handles of a graph's nodes."""
        rt = self._cuda.runtime
        answer = rt.cudaGraphGetNodes(graph)
        if int(answer[0]) == 0 and answer[2]:
            answer = rt.cudaGraphGetNodes(graph, answer[2])
        return answer[0].name, answer[1] or ()

    def _inner(self, node: Any) -> tuple[GraphNode, ...]:
        """The nodes of the graph that a node embeds, numbered from 1.

        They are read from the device: what kernels access, nobody noted of a copy.
        """
        _, graph = self._cuda.runtime.cudaGraphChildGraphNodeGetGraph(node)
        natives = self._listed(graph)[1]
        numbers = {int(native): number for number, native in enumerate(natives, start=1)}
        return tuple(self._describe(one, lambda d: numbers[int(d)], {}) for one in natives)

    def _describe(self, native: Any, number: Callable[[Any], int], contents: Content) -> GraphNode:
        rt = self._cuda.runtime
        _, kind = rt.cudaGraphNodeGetType(native)
        ident = number(native)
        answer = rt.cudaGraphNodeGetDependencies(native)
        count = answer[-1]
        before = rt.cudaGraphNodeGetDependencies(native, count)[1] if count else ()
        name = kind.name.removeprefix("cudaGraphNodeType")
        baked = contents.get(ident, Baked())
        if name == "Kernel":
            baked = self._check_arguments(native, baked)
        return GraphNode(
            ident,
            _KINDS.get(name, name.lower()),
            baked.name,
            tuple(sorted(number(d) for d in before)),
            baked.read_spans,
            baked.write_spans,
            native,
            self._inner(native) if name == "Graph" else (),
        )

    def _check_arguments(self, native: Any, baked: Baked) -> Baked:
        """What a kernel node says of itself, against what was noted when it was recorded.

        The node's own pointers decide: a noted place stays only if the node carries its address.
        Pointers that nobody noted (a foreign kernel's) are resolved to their whole allocation,
        and counted as written, since nothing declares their access.
        """
        driver = self._cuda.driver
        error, params = driver.cuGraphKernelNodeGetParams(native)
        if int(error) != 0:
            return baked
        values = self._words(params)
        name = self._kernels.name(int(params.func)) or baked.name
        noted = {base + offset for base, offset, _ in baked.reads + baked.writes}
        kept = Baked(
            name,
            tuple(p for p in baked.reads if p[0] + p[1] in values),
            tuple(p for p in baked.writes if p[0] + p[1] in values),
            tuple(
                s
                for p, s in zip(baked.reads, baked.read_spans, strict=True)
                if p[0] + p[1] in values
            ),
            tuple(
                s
                for p, s in zip(baked.writes, baked.write_spans, strict=True)
                if p[0] + p[1] in values
            ),
        )
        foreign = [self._foreign(value) for value in values if value not in noted]
        extra = tuple(span for span in foreign if span is not None)
        return Baked(kept.name, kept.reads, kept.writes, kept.read_spans, kept.write_spans + extra)

    def _words(self, params: Any) -> list[int]:
        """The eight-byte parameters of a kernel node: the candidates for pointers."""
        table = int(params.kernelParams or 0)
        if not table:
            return []
        words: list[int] = []
        index = 0
        while True:
            error, _, size = self._cuda.driver.cuFuncGetParamInfo(params.func, index)
            if int(error) != 0:
                return words
            if size == 8:
                slot = ctypes.c_void_p.from_address(table + 8 * index).value
                if slot:
                    words.append(ctypes.c_uint64.from_address(slot).value)
            index += 1

    def _foreign(self, value: int) -> Span | None:
        error, base, nbytes = self._cuda.driver.cuMemGetAddressRange(value)
        if int(error) != 0:
            return None
        return (self._memory.at(int(base)), value - int(base), nbytes - (value - int(base)))
