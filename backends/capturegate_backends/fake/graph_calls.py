"""Captures and graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

from capturegate.backend import (
    SUCCESS,
    Argument,
    CaptureInfo,
    CaptureMode,
    CaptureStatus,
    Dim3,
    Graph,
    GraphExec,
    GraphNode,
    Kernel,
    Outcome,
    Stream,
)
from capturegate_backends.fake.context import INVALID_HANDLE, INVALID_VALUE, Context, runtime_call
from capturegate_backends.fake.graphs import (
    UPDATED,
    ExecState,
    GraphState,
    Program,
    memory_in_use,
)
from capturegate_backends.fake.kernels import KernelCall
from capturegate_backends.fake.operations import Nothing
from capturegate_backends.fake.undefined import (
    check_capture_into,
    check_destroy,
    check_embedding,
)

NOT_SUPPORTED = "cudaErrorNotSupported"
UPDATE_FAILURE = "cudaErrorGraphExecUpdateFailure"


class CaptureCalls:
    """The calls of one device that begin, end and ask about captures."""

    def __init__(
        self, context: Context, graphs: dict[int, GraphState], executables: dict[int, ExecState]
    ) -> None:
        self.context = context
        self._graphs = graphs
        self._executables = executables

    @runtime_call
    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Outcome[None]:
        """Begin a capture into a new graph."""
        return self._begin(
            "stream_begin_capture", stream, mode, GraphState(Graph(self.context.new_id())), ()
        )

    @runtime_call
    def stream_begin_capture_to_graph(
        self, stream: Stream, graph: Graph, dependencies: Sequence[int], mode: CaptureMode
    ) -> Outcome[None]:
        """Begin a capture that adds to a graph."""
        state = self._graphs.get(graph.id)
        if state is None or state.handle is not graph or not state.nodes.keys() >= {*dependencies}:
            return self.context.fail("stream_begin_capture_to_graph", INVALID_VALUE)
        return self._begin(
            "stream_begin_capture_to_graph", stream, mode, state, tuple(dependencies)
        )

    @runtime_call
    def stream_end_capture(self, stream: Stream) -> Outcome[Graph]:
        """End a capture; the id in the answer is that of a capture that is over now."""
        context = self.context
        state = context.stream(stream)
        if state is None:
            return context.fail("stream_end_capture", INVALID_HANDLE)
        capture = state.capture
        error = context.machine.judge("stream_end_capture", context.thread, state)
        if error != SUCCESS or capture is None:
            ended = capture is not None and capture.ended
            if capture is not None and ended:
                # A graph that a failed capture was adding to goes with it.
                self._graphs.pop(capture.graph.handle.id, None)
                capture.graph.forgo_memory(context.memory)
            return context.fail("stream_end_capture", error, capture.id if capture and ended else 0)
        context.machine.end(capture)
        self._graphs[capture.graph.handle.id] = capture.graph
        return Outcome(SUCCESS, capture.graph.handle, capture.id)

    @runtime_call
    def stream_is_capturing(self, stream: Stream) -> Outcome[CaptureStatus]:
        """The status alone."""
        info = self._info("stream_is_capturing", stream)
        return Outcome(info.error, info.value.status if info.value else None, info.capture)

    @runtime_call
    def stream_get_capture_info(self, stream: Stream) -> Outcome[CaptureInfo]:
        """Status and id."""
        return self._info("stream_get_capture_info", stream)

    @runtime_call
    def thread_exchange_stream_capture_mode(self, mode: CaptureMode) -> Outcome[CaptureMode]:
        """Set the calling thread's own mode; answers the former."""
        thread = self.context.thread
        former, thread.mode = thread.mode, mode
        return Outcome(SUCCESS, former)

    def _begin(
        self,
        call: str,
        stream: Stream,
        mode: CaptureMode,
        graph: GraphState,
        after: tuple[int, ...],
    ) -> Outcome[None]:
        context = self.context
        state = context.stream(stream)
        if state is None:
            return context.fail(call, INVALID_HANDLE)
        error = context.machine.judge(call, context.thread, state)
        if error != SUCCESS:
            return context.fail(call, error, state.capture.id if state.capture else 0)
        check_capture_into(graph, context.machine.open, self._executables.values())
        capture = context.machine.begin(state, context.thread, mode, graph, after)
        return Outcome(SUCCESS, None, capture.id)

    def _info(self, call: str, stream: Stream) -> Outcome[CaptureInfo]:
        context = self.context
        state = context.stream(stream)
        if state is None:
            return context.fail(call, INVALID_HANDLE)
        error = context.machine.judge(call, context.thread, state)
        if error != SUCCESS:
            return context.fail(call, error)
        capture = state.capture
        if capture is None:
            return Outcome(SUCCESS, CaptureInfo(CaptureStatus.NONE))
        return Outcome(SUCCESS, CaptureInfo(capture.status, capture.id), capture.id)


class GraphCalls:
    """The calls of one device about graphs and executables."""

    def __init__(
        self,
        context: Context,
        graphs: dict[int, GraphState],
        executables: dict[int, ExecState],
        seed: int,
    ) -> None:
        self.context = context
        self._graphs = graphs
        self._executables = executables
        # The draws make schedules, not secrets.
        self._draws = random.Random(seed)  # noqa: S311

    @runtime_call
    def graph_create(self) -> Outcome[Graph]:
        """An empty graph."""
        graph = Graph(self.context.new_id())
        self._graphs[graph.id] = GraphState(graph)
        return self.context.answer("graph_create", graph)

    @runtime_call
    def graph_add_child_graph_node(
        self, graph: Graph, dependencies: Sequence[int], child: Graph
    ) -> Outcome[int]:
        """Embed a copy of a graph as it is now."""
        context = self.context
        state, source = self._graph(graph), self._graph(child)
        if state is None or source is None or not state.nodes.keys() >= {*dependencies}:
            return context.fail("graph_add_child_graph_node", INVALID_VALUE)
        error = context.machine.judge("graph_add_child_graph_node", context.thread, child=source)
        if error != SUCCESS:
            return context.fail("graph_add_child_graph_node", error)
        check_embedding(state, source, self._executables.values())
        embedded = Program(tuple(source.nodes.values()), self._draws)
        node = context.machine.add(
            "graph_add_child_graph_node", state, embedded, tuple(dependencies), context.memory
        )
        return Outcome(SUCCESS, node.id, 0, node.id) if node else Outcome(SUCCESS)

    @runtime_call
    def graph_instantiate(self, graph: Graph) -> Outcome[GraphExec]:
        """An executable of the graph as it is now; one at a time where it owns memory."""
        context = self.context
        error = context.machine.judge("graph_instantiate", context.thread)
        if error != SUCCESS:
            return context.fail("graph_instantiate", error)
        state = self._graph(graph)
        if state is None:
            return context.fail("graph_instantiate", INVALID_VALUE)
        if memory_in_use(state, self._executables.values()):
            return context.fail("graph_instantiate", NOT_SUPPORTED)
        handle = GraphExec(context.new_id(), graph.id)
        program = Program(tuple(state.nodes.values()), self._draws)
        self._executables[handle.id] = ExecState(handle, state, program)
        return Outcome(SUCCESS, handle)

    @runtime_call
    def graph_upload(self, executable: GraphExec, stream: Stream) -> Outcome[None]:
        """Nothing to bring to the device; it takes its place in the stream."""
        if self._executable(executable) is None:
            return self.context.fail("graph_upload", INVALID_VALUE)
        return self.context.enqueue("graph_upload", stream, Nothing())

    @runtime_call
    def graph_launch(self, executable: GraphExec, stream: Stream) -> Outcome[None]:
        """Replay what was baked, after the former launch of the same executable."""
        context = self.context
        state = self._executable(executable)
        target = context.stream(stream)
        if state is None or target is None:
            error = INVALID_VALUE if state is None else INVALID_HANDLE
            return context.fail("graph_launch", error)
        error = context.machine.judge("graph_launch", context.thread, target)
        if error != SUCCESS:
            return context.fail("graph_launch", error, target.capture.id if target.capture else 0)
        baked = state.program
        if baked.owns_memory:
            # The launch names its allocations, so those of the former launch have to be over.
            context.scheduler.finish(state.last_launch)
            out = [context.memory.starting_at(node.address) for node in baked.allocates]
            if any(block is not None and block.leaving for block in out):
                context.scheduler.finish_all()
            if any(context.memory.starting_at(node.address) for node in baked.allocates):
                return context.fail("graph_launch", INVALID_VALUE)
            if not all(context.memory.starting_at(address) for address in baked.frees):
                return context.fail("graph_launch", INVALID_VALUE)
            for node in baked.allocates:
                context.memory.bake(node.address, node.nbytes)
        reads, writes = baked.spans(context.memory)
        waits = [state.last_launch, *(event.work for event in baked.waits)]
        work = state.last_launch = context.submit(target, baked, waits)
        for event in baked.records:
            event.work, event.capture, event.recorded = work, None, True
        return Outcome(SUCCESS, None, 0, 0, reads, writes)

    @runtime_call
    def graph_exec_update(self, executable: GraphExec, graph: Graph) -> Outcome[str]:
        """Take over another graph's parameters; launches that were made keep theirs."""
        context = self.context
        state, source = self._executable(executable), self._graph(graph)
        if state is None or source is None:
            return context.fail("graph_exec_update", INVALID_VALUE)
        if memory_in_use(source, self._executables.values(), state):
            return context.fail("graph_exec_update", NOT_SUPPORTED)
        result = state.program.compare(source)
        if result != UPDATED:
            return context.fail("graph_exec_update", UPDATE_FAILURE, value=result)
        state.program = state.program.updated(source)
        return context.answer("graph_exec_update", result)

    @runtime_call
    def graph_exec_kernel_node_set_params(
        self,
        executable: GraphExec,
        node: int,
        kernel: Kernel,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Argument],
    ) -> Outcome[None]:
        """Bake another call into a kernel node."""
        context = self.context
        state = self._executable(executable)
        call = KernelCall(kernel, grid, block, args)
        if state is None or not state.program.has_kernel(node):
            return context.fail("graph_exec_kernel_node_set_params", INVALID_VALUE)
        state.program = state.program.with_kernel(node, call)
        return context.answer("graph_exec_kernel_node_set_params")

    @runtime_call
    def graph_destroy(self, graph: Graph) -> Outcome[None]:
        """The graph goes; its executables stay."""
        state = self._graph(graph)
        if state is None:
            return self.context.fail("graph_destroy", INVALID_VALUE)
        check_destroy(state, self.context.machine.open)
        if not memory_in_use(state, self._executables.values()):
            state.forgo_memory(self.context.memory)
        del self._graphs[graph.id]
        return self.context.answer("graph_destroy")

    @runtime_call
    def graph_exec_destroy(self, executable: GraphExec) -> Outcome[None]:
        """The executable goes; launches that were made still run."""
        if self._executable(executable) is None:
            return self.context.fail("graph_exec_destroy", INVALID_VALUE)
        out: Outcome[None] = self.context.answer("graph_exec_destroy")
        if out.error == SUCCESS:
            del self._executables[executable.id]
        return out

    @runtime_call
    def graph_get_nodes(self, graph: Graph) -> Outcome[tuple[GraphNode, ...]]:
        """The nodes in the order in which they were added."""
        state = self._graph(graph)
        if state is None:
            return self.context.fail("graph_get_nodes", INVALID_VALUE)
        return Outcome(SUCCESS, tuple(node.shown for node in state.nodes.values()))

    @runtime_call
    def graph_get_edges(self, graph: Graph) -> Outcome[tuple[tuple[int, int], ...]]:
        """The edges, from and to."""
        state = self._graph(graph)
        if state is None:
            return self.context.fail("graph_get_edges", INVALID_VALUE)
        return Outcome(SUCCESS, state.edges)

    def _graph(self, graph: Graph) -> GraphState | None:
        state = self._graphs.get(graph.id)
        return state if state is not None and state.handle is graph else None

    def _executable(self, executable: GraphExec) -> ExecState | None:
        state = self._executables.get(executable.id)
        return state if state is not None and state.handle is executable else None
