"""The raw layer: every call answers a status, as the runtime does, and is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from capturegate.backend.device import Copy, Device, Dim3
from capturegate.backend.handles import (
    CaptureInfo,
    CaptureMode,
    CaptureStatus,
    Event,
    Graph,
    GraphExec,
    GraphNode,
    Pointer,
    Space,
    Stream,
    StreamKind,
)
from capturegate.backend.kernel import Argument, Kernel
from capturegate.status import Outcome, Status
from capturegate.trace import Recorder

_NOWHERE = Pointer(0, 0, 0)


class RawBackend:
    """Calls a device and records each call; errors are answers."""

    def __init__(self, device: Device, recorder: Recorder) -> None:
        self._device = device
        self._call = recorder.call

    def _at(
        self, api: str, out: Outcome[Any], at: Pointer, nbytes: int, stream: int = -1
    ) -> Status[Any]:
        """Record a call about memory."""
        return self._call(api, out, stream, nbytes, at.address, at.allocation)

    # memory

    def malloc(self, nbytes: int) -> Status[Pointer]:
        """Answer of cudaMalloc."""
        out = self._device.malloc(nbytes)
        return self._at("cudaMalloc", out, out.value or _NOWHERE, nbytes)

    def free(self, pointer: Pointer) -> Status[None]:
        """Answer of cudaFree."""
        out = self._device.free(pointer)
        return self._at("cudaFree", out, pointer, pointer.nbytes)

    def malloc_async(self, nbytes: int, stream: Stream) -> Status[Pointer]:
        """Answer of cudaMallocAsync."""
        out = self._device.malloc_async(nbytes, stream)
        return self._at("cudaMallocAsync", out, out.value or _NOWHERE, nbytes, stream.id)

    def free_async(self, pointer: Pointer, stream: Stream) -> Status[None]:
        """Answer of cudaFreeAsync."""
        out = self._device.free_async(pointer, stream)
        return self._at("cudaFreeAsync", out, pointer, pointer.nbytes, stream.id)

    def malloc_host(self, nbytes: int) -> Status[Pointer]:
        """Answer of cudaMallocHost."""
        out = self._device.malloc_host(nbytes)
        return self._at("cudaMallocHost", out, out.value or _NOWHERE, nbytes)

    def free_host(self, pointer: Pointer) -> Status[None]:
        """Answer of cudaFreeHost."""
        out = self._device.free_host(pointer)
        return self._at("cudaFreeHost", out, pointer, pointer.nbytes)

    def malloc_managed(self, nbytes: int) -> Status[Pointer]:
        """Answer of cudaMallocManaged."""
        out = self._device.malloc_managed(nbytes)
        return self._at("cudaMallocManaged", out, out.value or _NOWHERE, nbytes)

    def host_register(self, pointer: Pointer) -> Status[None]:
        """Answer of cudaHostRegister."""
        out = self._device.host_register(pointer)
        return self._at("cudaHostRegister", out, pointer, pointer.nbytes)

    def host_unregister(self, pointer: Pointer) -> Status[None]:
        """Answer of cudaHostUnregister."""
        out = self._device.host_unregister(pointer)
        return self._at("cudaHostUnregister", out, pointer, pointer.nbytes)

    def mem_get_info(self) -> Status[tuple[int, int]]:
        """Answer of cudaMemGetInfo."""
        return self._call("cudaMemGetInfo", self._device.mem_get_info())

    def pointer_get_attributes(self, pointer: Pointer) -> Status[str]:
        """Answer of cudaPointerGetAttributes."""
        out = self._device.pointer_get_attributes(pointer)
        return self._at("cudaPointerGetAttributes", out, pointer, pointer.nbytes)

    def device_get_default_mem_pool(self) -> Status[int]:
        """Answer of cudaDeviceGetDefaultMemPool."""
        return self._call("cudaDeviceGetDefaultMemPool", self._device.device_get_default_mem_pool())

    def mem_pool_trim_to(self, pool: int, nbytes: int) -> Status[None]:
        """Answer of cudaMemPoolTrimTo."""
        return self._call(
            "cudaMemPoolTrimTo", self._device.mem_pool_trim_to(pool, nbytes), nbytes=nbytes
        )

    # work

    def memcpy(self, dst: Pointer, src: Pointer, nbytes: int) -> Status[None]:
        """Answer of cudaMemcpy."""
        out = self._device.memcpy(dst, src, nbytes)
        within = {"within_device": not {dst.space, src.space} & {Space.PINNED, Space.PAGEABLE}}
        return self._call("cudaMemcpy", out, -1, nbytes, dst.address, dst.allocation, detail=within)

    def memcpy_async(self, dst: Pointer, src: Pointer, nbytes: int, stream: Stream) -> Status[None]:
        """Answer of cudaMemcpyAsync."""
        out = self._device.memcpy_async(dst, src, nbytes, stream)
        return self._at("cudaMemcpyAsync", out, dst, nbytes, stream.id)

    def memcpy_batch_async(self, copies: Sequence[Copy], stream: Stream) -> Status[None]:
        """Answer of cudaMemcpyBatchAsync."""
        return self._call(
            "cudaMemcpyBatchAsync", self._device.memcpy_batch_async(copies, stream), stream.id
        )

    def memset(self, dst: Pointer, value: int, nbytes: int) -> Status[None]:
        """Answer of cudaMemset."""
        out = self._device.memset(dst, value, nbytes)
        return self._at("cudaMemset", out, dst, nbytes)

    def memset_async(self, dst: Pointer, value: int, nbytes: int, stream: Stream) -> Status[None]:
        """Answer of cudaMemsetAsync."""
        out = self._device.memset_async(dst, value, nbytes, stream)
        return self._at("cudaMemsetAsync", out, dst, nbytes, stream.id)

    def launch_kernel(
        self, kernel: Kernel, grid: Dim3, block: Dim3, args: Sequence[Argument], stream: Stream
    ) -> Status[None]:
        """Answer of cudaLaunchKernel."""
        return self._call(
            "cudaLaunchKernel",
            self._device.launch_kernel(kernel, grid, block, args, stream),
            stream.id,
            handle=kernel.name,
        )

    def launch_host_func(self, function: Callable[[], None], stream: Stream) -> Status[None]:
        """Answer of cudaLaunchHostFunc."""
        return self._call(
            "cudaLaunchHostFunc", self._device.launch_host_func(function, stream), stream.id
        )

    def module_load_data(self, kernel: Kernel) -> Status[None]:
        """Answer of cuModuleLoadData."""
        return self._call(
            "cuModuleLoadData", self._device.module_load_data(kernel), handle=kernel.name
        )

    # streams and events

    def stream_create(self, kind: StreamKind = StreamKind.BLOCKING) -> Status[Stream]:
        """Answer of cudaStreamCreateWithFlags."""
        out = self._device.stream_create(kind)
        made = out.value.id if out.value else 0
        return self._call(
            "cudaStreamCreateWithFlags", out, handle=made, detail={"kind": kind.value}
        )

    def stream_destroy(self, stream: Stream) -> Status[None]:
        """Answer of cudaStreamDestroy."""
        return self._call("cudaStreamDestroy", self._device.stream_destroy(stream), stream.id)

    def stream_synchronize(self, stream: Stream) -> Status[None]:
        """Answer of cudaStreamSynchronize."""
        return self._call(
            "cudaStreamSynchronize", self._device.stream_synchronize(stream), stream.id
        )

    def stream_query(self, stream: Stream) -> Status[None]:
        """Answer of cudaStreamQuery."""
        return self._call("cudaStreamQuery", self._device.stream_query(stream), stream.id)

    def stream_wait_event(
        self, stream: Stream, event: Event, external: bool = False
    ) -> Status[None]:
        """Answer of cudaStreamWaitEvent."""
        return self._call(
            "cudaStreamWaitEvent",
            self._device.stream_wait_event(stream, event, external),
            stream.id,
            handle=event.id,
        )

    def event_create(self) -> Status[Event]:
        """Answer of cudaEventCreate."""
        out = self._device.event_create()
        made = out.value.id if out.value else 0
        return self._call("cudaEventCreate", out, handle=made)

    def event_destroy(self, event: Event) -> Status[None]:
        """Answer of cudaEventDestroy."""
        return self._call("cudaEventDestroy", self._device.event_destroy(event), handle=event.id)

    def event_record(self, event: Event, stream: Stream, external: bool = False) -> Status[None]:
        """Answer of cudaEventRecord."""
        return self._call(
            "cudaEventRecord",
            self._device.event_record(event, stream, external),
            stream.id,
            handle=event.id,
        )

    def event_query(self, event: Event) -> Status[None]:
        """Answer of cudaEventQuery."""
        return self._call("cudaEventQuery", self._device.event_query(event), handle=event.id)

    def event_synchronize(self, event: Event) -> Status[None]:
        """Answer of cudaEventSynchronize."""
        return self._call(
            "cudaEventSynchronize", self._device.event_synchronize(event), handle=event.id
        )

    def device_synchronize(self) -> Status[None]:
        """Answer of cudaDeviceSynchronize."""
        return self._call("cudaDeviceSynchronize", self._device.device_synchronize())

    def device_get_attribute(self, attribute: str) -> Status[int]:
        """Answer of cudaDeviceGetAttribute."""
        return self._call("cudaDeviceGetAttribute", self._device.device_get_attribute(attribute))

    def set_device(self, ordinal: int) -> Status[None]:
        """Answer of cudaSetDevice."""
        return self._call("cudaSetDevice", self._device.set_device(ordinal))

    def get_last_error(self) -> Status[str]:
        """Answer of cudaGetLastError."""
        return self._call("cudaGetLastError", self._device.get_last_error())

    def peek_at_last_error(self) -> Status[str]:
        """Answer of cudaPeekAtLastError."""
        return self._call("cudaPeekAtLastError", self._device.peek_at_last_error())

    # capture

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> Status[None]:
        """Answer of cudaStreamBeginCapture."""
        return self._call(
            "cudaStreamBeginCapture",
            self._device.stream_begin_capture(stream, mode),
            stream.id,
            detail={"mode": mode.value},
        )

    def stream_begin_capture_to_graph(
        self, stream: Stream, graph: Graph, dependencies: Sequence[int], mode: CaptureMode
    ) -> Status[None]:
        """Answer of cudaStreamBeginCaptureToGraph."""
        return self._call(
            "cudaStreamBeginCaptureToGraph",
            self._device.stream_begin_capture_to_graph(stream, graph, dependencies, mode),
            stream.id,
            handle=graph.id,
            detail={"mode": mode.value},
        )

    def stream_end_capture(self, stream: Stream) -> Status[Graph]:
        """Answer of cudaStreamEndCapture."""
        out = self._device.stream_end_capture(stream)
        nodes = self._device.graph_get_nodes(out.value).value if out.value else None
        detail = {"nodes": None if nodes is None else len(nodes)}
        made = out.value.id if out.value else 0
        return self._call("cudaStreamEndCapture", out, stream.id, handle=made, detail=detail)

    def stream_is_capturing(self, stream: Stream) -> Status[CaptureStatus]:
        """Answer of cudaStreamIsCapturing."""
        return self._call(
            "cudaStreamIsCapturing", self._device.stream_is_capturing(stream), stream.id
        )

    def stream_get_capture_info(self, stream: Stream) -> Status[CaptureInfo]:
        """Answer of cudaStreamGetCaptureInfo."""
        return self._call(
            "cudaStreamGetCaptureInfo", self._device.stream_get_capture_info(stream), stream.id
        )

    def thread_exchange_stream_capture_mode(self, mode: CaptureMode) -> Status[CaptureMode]:
        """Answer of cudaThreadExchangeStreamCaptureMode."""
        return self._call(
            "cudaThreadExchangeStreamCaptureMode",
            self._device.thread_exchange_stream_capture_mode(mode),
            detail={"mode": mode.value},
        )

    # graphs

    def graph_create(self) -> Status[Graph]:
        """Answer of cudaGraphCreate."""
        out = self._device.graph_create()
        made = out.value.id if out.value else 0
        return self._call("cudaGraphCreate", out, handle=made)

    def graph_add_child_graph_node(
        self, graph: Graph, dependencies: Sequence[int], child: Graph
    ) -> Status[int]:
        """Answer of cudaGraphAddChildGraphNode."""
        out = self._device.graph_add_child_graph_node(graph, dependencies, child)
        detail = {"child": child.id}
        return self._call("cudaGraphAddChildGraphNode", out, handle=graph.id, detail=detail)

    def graph_instantiate(self, graph: Graph) -> Status[GraphExec]:
        """Answer of cudaGraphInstantiate."""
        out = self._device.graph_instantiate(graph)
        made = out.value.id if out.value else 0
        return self._call("cudaGraphInstantiate", out, handle=made, detail={"graph": graph.id})

    def graph_upload(self, executable: GraphExec, stream: Stream) -> Status[None]:
        """Answer of cudaGraphUpload."""
        return self._call(
            "cudaGraphUpload",
            self._device.graph_upload(executable, stream),
            stream.id,
            handle=executable.id,
        )

    def graph_launch(self, executable: GraphExec, stream: Stream) -> Status[None]:
        """Answer of cudaGraphLaunch."""
        return self._call(
            "cudaGraphLaunch",
            self._device.graph_launch(executable, stream),
            stream.id,
            handle=executable.id,
        )

    def graph_exec_update(self, executable: GraphExec, graph: Graph) -> Status[str]:
        """Answer of cudaGraphExecUpdate."""
        return self._call(
            "cudaGraphExecUpdate",
            self._device.graph_exec_update(executable, graph),
            handle=executable.id,
            detail={"graph": graph.id},
        )

    def graph_exec_kernel_node_set_params(
        self,
        executable: GraphExec,
        node: int,
        kernel: Kernel,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Argument],
    ) -> Status[None]:
        """Answer of cudaGraphExecKernelNodeSetParams."""
        return self._call(
            "cudaGraphExecKernelNodeSetParams",
            self._device.graph_exec_kernel_node_set_params(
                executable, node, kernel, grid, block, args
            ),
            handle=executable.id,
        )

    def graph_destroy(self, graph: Graph) -> Status[None]:
        """Answer of cudaGraphDestroy."""
        return self._call("cudaGraphDestroy", self._device.graph_destroy(graph), handle=graph.id)

    def graph_exec_destroy(self, executable: GraphExec) -> Status[None]:
        """Answer of cudaGraphExecDestroy."""
        return self._call(
            "cudaGraphExecDestroy",
            self._device.graph_exec_destroy(executable),
            handle=executable.id,
        )

    def graph_get_nodes(self, graph: Graph) -> Status[tuple[GraphNode, ...]]:
        """Answer of cudaGraphGetNodes."""
        return self._call("cudaGraphGetNodes", self._device.graph_get_nodes(graph), handle=graph.id)

    def graph_get_edges(self, graph: Graph) -> Status[tuple[tuple[int, int], ...]]:
        """Answer of cudaGraphGetEdges."""
        return self._call("cudaGraphGetEdges", self._device.graph_get_edges(graph), handle=graph.id)

    # host memory

    def pageable(self, nbytes: int) -> Status[Pointer]:
        """Record host.pageable."""
        out = self._device.pageable(nbytes)
        return self._at("host.pageable", out, out.value or _NOWHERE, nbytes)

    def host_read(self, pointer: Pointer, nbytes: int) -> Status[bytes]:
        """Record host.read."""
        out = self._device.host_read(pointer, nbytes)
        return self._at("host.read", out, pointer, nbytes)

    def host_write(self, pointer: Pointer, data: bytes) -> Status[None]:
        """Record host.write."""
        out = self._device.host_write(pointer, data)
        return self._at("host.write", out, pointer, len(data))
