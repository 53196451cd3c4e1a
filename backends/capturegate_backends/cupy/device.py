"""A CUDA device behind the backend interface: every call is the runtime's own.

Kernel launches, host functions, module loads and node parameters go through the driver, since
cuda-python has no runtime call for them that can be replayed; their refusals carry the runtime's
name of the same code, and do not become the runtime's last error.
"""

from __future__ import annotations

from capturegate.backend.handles import (
    Stream,
    StreamKind,
)
from capturegate.trace import CAPABILITIES
from capturegate_backends.cupy.binding import driver_version, load
from capturegate_backends.cupy.capture_calls import CaptureCalls
from capturegate_backends.cupy.context import Context
from capturegate_backends.cupy.graph_calls import GraphCalls
from capturegate_backends.cupy.memory_calls import MemoryCalls
from capturegate_backends.cupy.stream_calls import StreamCalls
from capturegate_backends.cupy.work_calls import WorkCalls


class CupyDevice:
    """One NVIDIA device of this process."""

    def __init__(self, seed: int = 0, ordinal: int = 0) -> None:  # noqa: ARG002
        """Open the device.

        `seed` is what every backend takes for its schedule; a real device has its own.

        Raises:
            InputError: cuda-python, the driver or the device is missing.
        """
        self._context = context = Context(load(), ordinal)
        rt = context.rt
        self._legacy = Stream(0, StreamKind.LEGACY, rt.cudaStream_t(rt.cudaStreamLegacy))
        self._own = Stream(1, StreamKind.PER_THREAD, rt.cudaStream_t(rt.cudaStreamPerThread))
        self._take_memory(MemoryCalls(context))
        self._take_work(WorkCalls(context))
        self._take_streams(StreamCalls(context))
        self._take_captures(CaptureCalls(context))
        self._take_graphs(GraphCalls(context))

    def _take_memory(self, memory: MemoryCalls) -> None:
        self.malloc = memory.malloc
        self.free = memory.free
        self.malloc_async = memory.malloc_async
        self.free_async = memory.free_async
        self.malloc_host = memory.malloc_host
        self.free_host = memory.free_host
        self.malloc_managed = memory.malloc_managed
        self.host_register = memory.host_register
        self.host_unregister = memory.host_unregister
        self.mem_get_info = memory.mem_get_info
        self.pointer_get_attributes = memory.pointer_get_attributes
        self.device_get_default_mem_pool = memory.device_get_default_mem_pool
        self.mem_pool_trim_to = memory.mem_pool_trim_to
        self.pageable = memory.pageable
        self.host_read = memory.host_read
        self.host_write = memory.host_write
        self.peek = memory.peek
        self.poke = memory.poke
        self._give_back = memory.close

    def _take_work(self, work: WorkCalls) -> None:
        self.memcpy = work.memcpy
        self.memcpy_async = work.memcpy_async
        self.memcpy_batch_async = work.memcpy_batch_async
        self.memset = work.memset
        self.memset_async = work.memset_async
        self.launch_kernel = work.launch_kernel
        self.launch_host_func = work.launch_host_func
        self.module_load_data = work.module_load_data

    def _take_streams(self, streams: StreamCalls) -> None:
        self.stream_create = streams.stream_create
        self.stream_destroy = streams.stream_destroy
        self.stream_synchronize = streams.stream_synchronize
        self.stream_query = streams.stream_query
        self.stream_wait_event = streams.stream_wait_event
        self.event_create = streams.event_create
        self.event_destroy = streams.event_destroy
        self.event_record = streams.event_record
        self.event_query = streams.event_query
        self.event_synchronize = streams.event_synchronize
        self.device_synchronize = streams.device_synchronize
        self.device_get_attribute = streams.device_get_attribute
        self.set_device = streams.set_device
        self.get_last_error = streams.get_last_error
        self.peek_at_last_error = streams.peek_at_last_error

    def _take_captures(self, captures: CaptureCalls) -> None:
        self.stream_begin_capture = captures.stream_begin_capture
        self.stream_begin_capture_to_graph = captures.stream_begin_capture_to_graph
        self.stream_end_capture = captures.stream_end_capture
        self.stream_is_capturing = captures.stream_is_capturing
        self.stream_get_capture_info = captures.stream_get_capture_info
        self.thread_exchange_stream_capture_mode = captures.thread_exchange_stream_capture_mode

    def _take_graphs(self, graphs: GraphCalls) -> None:
        self.graph_create = graphs.graph_create
        self.graph_add_child_graph_node = graphs.graph_add_child_graph_node
        self.graph_instantiate = graphs.graph_instantiate
        self.graph_upload = graphs.graph_upload
        self.graph_launch = graphs.graph_launch
        self.graph_exec_update = graphs.graph_exec_update
        self.graph_exec_kernel_node_set_params = graphs.graph_exec_kernel_node_set_params
        self.graph_destroy = graphs.graph_destroy
        self.graph_exec_destroy = graphs.graph_exec_destroy
        self.graph_get_nodes = graphs.graph_get_nodes
        self.graph_get_edges = graphs.graph_get_edges

    @property
    def name(self) -> str:
        """`cupy`."""
        return "cupy"

    @property
    def description(self) -> dict[str, str]:
        """Device, driver and CUDA versions, for reports."""
        rt = self._context.rt
        return {
            "device": self._context.properties.name.decode().strip("\0"),
            "driver": driver_version() or f"CUDA {rt.cudaDriverGetVersion()[1]}",
            "cuda": str(rt.cudaRuntimeGetVersion()[1]),
        }

    @property
    def capabilities(self) -> frozenset[str]:
        """Everything but the engine's own pool events."""
        return CAPABILITIES - {"pool"}

    @property
    def legacy_stream(self) -> Stream:
        """The stream that implicitly orders itself against blocking streams."""
        return self._legacy

    @property
    def per_thread_stream(self) -> Stream:
        """The calling thread's own default stream."""
        return self._own

    def close(self) -> None:
        """Wait for the device and give its memory back."""
        self._context.rt.cudaDeviceSynchronize()
        self._give_back()
