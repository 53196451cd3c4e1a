"""Graphs and executables of a real device."""

from __future__ import annotations

from collections.abc import Sequence

from capturegate.backend.device import Dim3
from capturegate.backend.handles import (
    Graph,
    GraphExec,
    GraphNode,
    Stream,
)
from capturegate.backend.kernel import Argument, Kernel
from capturegate.status import SUCCESS, Outcome
from capturegate_backends.cupy.context import Context, accesses


class GraphCalls:
    """The calls of one device about graphs and executables."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def graph_create(self) -> Outcome[Graph]:
        """An empty graph."""
        error, native = self._context.rt.cudaGraphCreate(0)
        value = self._context.graphs.graph(native) if int(error) == 0 else None
        return Outcome(self._context.error(error), value)

    def graph_add_child_graph_node(
        self, graph: Graph, dependencies: Sequence[int], child: Graph
    ) -> Outcome[int]:
        """Embed a copy of a graph as it is now."""
        graphs = self._context.graphs
        nodes = [graphs.native_node(graph.id, node) for node in dependencies]
        error, native = self._context.rt.cudaGraphAddChildGraphNode(
            graph.native, nodes, len(nodes), child.native
        )
        if int(error) != 0:
            return Outcome(self._context.error(error))
        node = graphs.embedded(graph, native, child)
        return Outcome(SUCCESS, node, 0, node)

    def graph_instantiate(self, graph: Graph) -> Outcome[GraphExec]:
        """An executable of the graph as it is now."""
        error, native = self._context.rt.cudaGraphInstantiate(graph.native, 0)
        value = self._context.graphs.instantiated(graph, native) if int(error) == 0 else None
        return Outcome(self._context.error(error), value)

    def graph_upload(self, executable: GraphExec, stream: Stream) -> Outcome[None]:
        """Bring an executable to the device."""
        (code,) = self._context.rt.cudaGraphUpload(executable.native, stream.native)
        return self._context.on(stream, code, records=False)

    def graph_launch(self, executable: GraphExec, stream: Stream) -> Outcome[None]:
        """Replay what was baked."""
        (code,) = self._context.rt.cudaGraphLaunch(executable.native, stream.native)
        outcome = self._context.on(stream, code, records=False)
        if outcome.error != SUCCESS or outcome.capture:
            return outcome
        reads, writes = self._context.graphs.touched(executable)
        return outcome._replace(reads=reads, writes=writes)

    def graph_exec_update(self, executable: GraphExec, graph: Graph) -> Outcome[str]:
        """Take over another graph's parameters; says why not when it is refused."""
        error, info = self._context.rt.cudaGraphExecUpdate(executable.native, graph.native)
        if int(error) == 0:
            self._context.graphs.updated(executable, graph)
            return Outcome(SUCCESS, info.result.name)
        name = self._context.error(error)
        if name != "cudaErrorGraphExecUpdateFailure":
            return Outcome(name)
        return Outcome(name, self._context.graphs.update_result(executable, graph))

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
        driver = self._context.driver
        params = driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = self._context.kernels.function(kernel)
        params.gridDimX, params.gridDimY, params.gridDimZ = grid
        params.blockDimX, params.blockDimY, params.blockDimZ = block
        params.kernelParams = self._context.kernels.packed(kernel, args).address
        (code,) = driver.cuGraphExecKernelNodeSetParams(
            driver.CUgraphExec(int(executable.native)),
            driver.CUgraphNode(int(self._context.graphs.native_node(executable.graph, node) or 0)),
            params,
        )
        outcome = self._context.plain((code,))
        if outcome.error == SUCCESS:
            reads, writes = accesses(kernel, args)
            self._context.graphs.rebake(
                executable, node, self._context.baked(kernel.name, reads, writes)
            )
        return outcome

    def graph_destroy(self, graph: Graph) -> Outcome[None]:
        """Destroy a graph."""
        outcome = self._context.plain(self._context.rt.cudaGraphDestroy(graph.native))
        if outcome.error == SUCCESS:
            self._context.graphs.forget(graph)
        return outcome

    def graph_exec_destroy(self, executable: GraphExec) -> Outcome[None]:
        """Destroy an executable."""
        outcome = self._context.plain(self._context.rt.cudaGraphExecDestroy(executable.native))
        if outcome.error == SUCCESS:
            self._context.graphs.forget_exec(executable)
        return outcome

    def graph_get_nodes(self, graph: Graph) -> Outcome[tuple[GraphNode, ...]]:
        """Every node with its dependencies and baked arguments."""
        error, nodes = self._context.graphs.walk(graph)
        return Outcome(error, nodes if error == SUCCESS else None)

    def graph_get_edges(self, graph: Graph) -> Outcome[tuple[tuple[int, int], ...]]:
        """Pairs of node ids, from and to."""
        error, nodes = self._context.graphs.walk(graph)
        if error != SUCCESS:
            return Outcome(error)
        return Outcome(error, tuple((d, node.id) for node in nodes for d in node.dependencies))
