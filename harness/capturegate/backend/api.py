"""The ordinary layer: what engines use. A call returns its value or raises CUDA's error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    Stream,
    StreamKind,
)
from capturegate.backend.kernel import Argument, Kernel
from capturegate.backend.raw import RawBackend
from capturegate.trace import Recorder, Trace


class Backend:
    """One device that can capture, recorded.

    Every call raises `CudaError` with CUDA's name when it does not succeed. The same calls on
    `raw` answer a status instead.

    Attributes:
        raw: the layer that answers statuses.
        recorder: collects the trace; engines tell their own events through `recorder.note`.
    """

    def __init__(self, device: Device, recorder: Recorder | None = None) -> None:
        self.device = device
        self.recorder = recorder or Recorder()
        self.raw = RawBackend(device, self.recorder)

    @property
    def name(self) -> str:
        """`fake` or `cupy`."""
        return self.device.name

    @property
    def legacy_stream(self) -> Stream:
        """The stream that implicitly orders itself against blocking streams."""
        return self.device.legacy_stream

    @property
    def per_thread_stream(self) -> Stream:
        """The calling thread's own default stream."""
        return self.device.per_thread_stream

    def trace(self, *, pool: bool = False) -> Trace:
        """The trace so far; `pool` says that the engine told its pool events."""
        extra = frozenset({"pool"}) if pool else frozenset()
        return self.recorder.trace(self.device.capabilities | extra)

    def launch(
        self, kernel: Kernel, args: Sequence[Argument], stream: Stream, threads: int = 1
    ) -> None:
        """Launch a kernel over `threads` threads in blocks of 128."""
        self.launch_kernel(kernel, ((threads + 127) // 128, 1, 1), (128, 1, 1), args, stream)

    def harness_read(self, pointer: Pointer, nbytes: int) -> bytes:
        """The harness reads any memory once the device is idle; marked as its own access."""
        with self.recorder.as_harness():
            out = self.device.peek(pointer, nbytes)
            return self.recorder.call("harness.read", out, nbytes=nbytes).unwrap()  # type: ignore[no-any-return]

    def harness_write(self, pointer: Pointer, data: bytes) -> None:
        """The harness overwrites any memory once the device is idle; marked as its own access."""
        with self.recorder.as_harness():
            out = self.device.poke(pointer, data)
            self.recorder.call("harness.write", out, nbytes=len(data)).unwrap()

    def close(self) -> None:
        """Release what the device holds for this backend."""
        self.device.close()

    # memory

    def malloc(self, nbytes: int) -> Pointer:
        """Device memory of `nbytes` bytes."""
        return self.raw.malloc(nbytes).unwrap()

    def free(self, pointer: Pointer) -> None:
        """Give device memory back."""
        self.raw.free(pointer).unwrap()

    def malloc_async(self, nbytes: int, stream: Stream) -> Pointer:
        """Stream-ordered device memory."""
        return self.raw.malloc_async(nbytes, stream).unwrap()

    def free_async(self, pointer: Pointer, stream: Stream) -> None:
        """Give memory back in stream order."""
        self.raw.free_async(pointer, stream).unwrap()

    def malloc_host(self, nbytes: int) -> Pointer:
        """Pinned host memory."""
        return self.raw.malloc_host(nbytes).unwrap()

    def free_host(self, pointer: Pointer) -> None:
        """Give pinned host memory back."""
        self.raw.free_host(pointer).unwrap()

    def malloc_managed(self, nbytes: int) -> Pointer:
        """Managed memory."""
        return self.raw.malloc_managed(nbytes).unwrap()

    def host_register(self, pointer: Pointer) -> None:
        """Pin pageable memory in place."""
        self.raw.host_register(pointer).unwrap()

    def host_unregister(self, pointer: Pointer) -> None:
        """Undo `host_register`."""
        self.raw.host_unregister(pointer).unwrap()

    def mem_get_info(self) -> tuple[int, int]:
        """Free and total device memory in bytes."""
        return self.raw.mem_get_info().unwrap()

    def pointer_get_attributes(self, pointer: Pointer) -> str:
        """The memory type of a pointer."""
        return self.raw.pointer_get_attributes(pointer).unwrap()

    def device_get_default_mem_pool(self) -> int:
        """Handle of the device's default stream-ordered pool."""
        return self.raw.device_get_default_mem_pool().unwrap()

    def mem_pool_trim_to(self, pool: int, nbytes: int) -> None:
        """Release what the pool holds above `nbytes` bytes."""
        self.raw.mem_pool_trim_to(pool, nbytes).unwrap()

    # work

    def memcpy(self, dst: Pointer, src: Pointer, nbytes: int) -> None:
        """Copy and wait; the kind follows from the two spaces."""
        self.raw.memcpy(dst, src, nbytes).unwrap()

    def memcpy_async(self, dst: Pointer, src: Pointer, nbytes: int, stream: Stream) -> None:
        """Copy in stream order."""
        self.raw.memcpy_async(dst, src, nbytes, stream).unwrap()

    def memcpy_batch_async(self, copies: Sequence[Copy], stream: Stream) -> None:
        """Several copies in one call."""
        self.raw.memcpy_batch_async(copies, stream).unwrap()

    def memset(self, dst: Pointer, value: int, nbytes: int) -> None:
        """Set bytes and wait."""
        self.raw.memset(dst, value, nbytes).unwrap()

    def memset_async(self, dst: Pointer, value: int, nbytes: int, stream: Stream) -> None:
        """Set bytes in stream order."""
        self.raw.memset_async(dst, value, nbytes, stream).unwrap()

    def launch_kernel(
        self, kernel: Kernel, grid: Dim3, block: Dim3, args: Sequence[Argument], stream: Stream
    ) -> None:
        """Launch a kernel; its arguments are baked by value."""
        self.raw.launch_kernel(kernel, grid, block, args, stream).unwrap()

    def launch_host_func(self, function: Callable[[], None], stream: Stream) -> None:
        """Run a host function in stream order."""
        self.raw.launch_host_func(function, stream).unwrap()

    def module_load_data(self, kernel: Kernel) -> None:
        """Load a kernel's module without launching it."""
        self.raw.module_load_data(kernel).unwrap()

    # streams and events

    def stream_create(self, kind: StreamKind = StreamKind.BLOCKING) -> Stream:
        """A new stream."""
        return self.raw.stream_create(kind).unwrap()

    def stream_destroy(self, stream: Stream) -> None:
        """Destroy a stream."""
        self.raw.stream_destroy(stream).unwrap()

    def stream_synchronize(self, stream: Stream) -> None:
        """Wait until the stream is idle."""
        self.raw.stream_synchronize(stream).unwrap()

    def stream_query(self, stream: Stream) -> None:
        """CudaSuccess when idle, cudaErrorNotReady when not."""
        self.raw.stream_query(stream).unwrap()

    def stream_wait_event(self, stream: Stream, event: Event, external: bool = False) -> None:
        """Make the stream wait for an event; fork into a capture."""
        self.raw.stream_wait_event(stream, event, external).unwrap()

    def event_create(self) -> Event:
        """A new event."""
        return self.raw.event_create().unwrap()

    def event_destroy(self, event: Event) -> None:
        """Destroy an event."""
        self.raw.event_destroy(event).unwrap()

    def event_record(self, event: Event, stream: Stream, external: bool = False) -> None:
        """Record an event in stream order."""
        self.raw.event_record(event, stream, external).unwrap()

    def event_query(self, event: Event) -> None:
        """CudaSuccess when reached, cudaErrorNotReady when not."""
        self.raw.event_query(event).unwrap()

    def event_synchronize(self, event: Event) -> None:
        """Wait until the event is reached."""
        self.raw.event_synchronize(event).unwrap()

    def device_synchronize(self) -> None:
        """Wait until the device is idle."""
        self.raw.device_synchronize().unwrap()

    def device_get_attribute(self, attribute: str) -> int:
        """A device attribute, by CUDA's name."""
        return self.raw.device_get_attribute(attribute).unwrap()

    def set_device(self, ordinal: int) -> None:
        """Make a device current."""
        self.raw.set_device(ordinal).unwrap()

    def get_last_error(self) -> str:
        """The thread's last error by name; resets it unless sticky."""
        return self.raw.get_last_error().unwrap()

    def peek_at_last_error(self) -> str:
        """The thread's last error by name, left as it is."""
        return self.raw.peek_at_last_error().unwrap()

    # capture

    def stream_begin_capture(self, stream: Stream, mode: CaptureMode) -> None:
        """Begin to capture a stream."""
        self.raw.stream_begin_capture(stream, mode).unwrap()

    def stream_begin_capture_to_graph(
        self, stream: Stream, graph: Graph, dependencies: Sequence[int], mode: CaptureMode
    ) -> None:
        """Capture into an existing graph, after the given nodes."""
        self.raw.stream_begin_capture_to_graph(stream, graph, dependencies, mode).unwrap()

    def stream_end_capture(self, stream: Stream) -> Graph:
        """End the capture; the graph that was recorded."""
        return self.raw.stream_end_capture(stream).unwrap()

    def stream_is_capturing(self, stream: Stream) -> CaptureStatus:
        """Whether the stream captures."""
        return self.raw.stream_is_capturing(stream).unwrap()

    def stream_get_capture_info(self, stream: Stream) -> CaptureInfo:
        """Status and id of the stream's capture."""
        return self.raw.stream_get_capture_info(stream).unwrap()

    def thread_exchange_stream_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        """Set the calling thread's own mode; the former one."""
        return self.raw.thread_exchange_stream_capture_mode(mode).unwrap()

    # graphs

    def graph_create(self) -> Graph:
        """An empty graph."""
        return self.raw.graph_create().unwrap()

    def graph_add_child_graph_node(
        self, graph: Graph, dependencies: Sequence[int], child: Graph
    ) -> int:
        """Embed a copy of another graph as one node, after the given nodes; the node's id."""
        return self.raw.graph_add_child_graph_node(graph, dependencies, child).unwrap()

    def graph_instantiate(self, graph: Graph) -> GraphExec:
        """An executable of the graph."""
        return self.raw.graph_instantiate(graph).unwrap()

    def graph_upload(self, executable: GraphExec, stream: Stream) -> None:
        """Bring an executable to the device."""
        self.raw.graph_upload(executable, stream).unwrap()

    def graph_launch(self, executable: GraphExec, stream: Stream) -> None:
        """Replay exactly what was baked."""
        self.raw.graph_launch(executable, stream).unwrap()

    def graph_exec_update(self, executable: GraphExec, graph: Graph) -> str:
        """Put a graph's parameters into an executable; the result's name."""
        return self.raw.graph_exec_update(executable, graph).unwrap()

    def graph_exec_kernel_node_set_params(
        self,
        executable: GraphExec,
        node: int,
        kernel: Kernel,
        grid: Dim3,
        block: Dim3,
        args: Sequence[Argument],
    ) -> None:
        """Bake other arguments into one kernel node."""
        self.raw.graph_exec_kernel_node_set_params(
            executable, node, kernel, grid, block, args
        ).unwrap()

    def graph_destroy(self, graph: Graph) -> None:
        """Destroy a graph."""
        self.raw.graph_destroy(graph).unwrap()

    def graph_exec_destroy(self, executable: GraphExec) -> None:
        """Destroy an executable."""
        self.raw.graph_exec_destroy(executable).unwrap()

    def graph_get_nodes(self, graph: Graph) -> tuple[GraphNode, ...]:
        """The nodes with what was baked."""
        return self.raw.graph_get_nodes(graph).unwrap()

    def graph_get_edges(self, graph: Graph) -> tuple[tuple[int, int], ...]:
        """The edges as pairs of node ids."""
        return self.raw.graph_get_edges(graph).unwrap()

    # host memory

    def pageable(self, nbytes: int) -> Pointer:
        """Ordinary host memory that copies may use; not a runtime call."""
        return self.raw.pageable(nbytes).unwrap()

    def host_read(self, pointer: Pointer, nbytes: int) -> bytes:
        """The host reads host memory; recorded, since a graph may write it."""
        return self.raw.host_read(pointer, nbytes).unwrap()

    def host_write(self, pointer: Pointer, data: bytes) -> None:
        """The host writes host memory; recorded, since a graph may read it."""
        self.raw.host_write(pointer, data).unwrap()
