"""The fake device: every call of the backend interface, answered by CUDA's rules on a CPU."""

from __future__ import annotations

from capturegate.backend import Stream
from capturegate.trace import CAPABILITIES
from capturegate_backends.fake.context import Context
from capturegate_backends.fake.graph_calls import CaptureCalls, GraphCalls
from capturegate_backends.fake.graphs import ExecState, GraphState
from capturegate_backends.fake.memory_calls import MemoryCalls
from capturegate_backends.fake.stream_calls import StreamCalls
from capturegate_backends.fake.work_calls import WorkCalls


class FakeDevice:
    """One device without a GPU.

    `seed` chooses in which legal order streams progress. `driver` is the driver version whose
    recorded answers it gives.

    Raises:
        InputError: nobody recorded that driver.
    """

    def __init__(self, seed: int = 0, driver: str = "580") -> None:
        self._context = context = Context(seed, driver)
        self._driver = driver
        memory = MemoryCalls(context)
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

        work = WorkCalls(context)
        self.memcpy = work.memcpy
        self.memcpy_async = work.memcpy_async
        self.memcpy_batch_async = work.memcpy_batch_async
        self.memset = work.memset
        self.memset_async = work.memset_async
        self.launch_kernel = work.launch_kernel
        self.launch_host_func = work.launch_host_func
        self.module_load_data = work.module_load_data

        streams = StreamCalls(context)
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

        self._take_graphs(context, seed)

    def _take_graphs(self, context: Context, seed: int) -> None:
        graphs_by_id: dict[int, GraphState] = {}
        executables: dict[int, ExecState] = {}
        captures = CaptureCalls(context, graphs_by_id, executables)
        self.stream_begin_capture = captures.stream_begin_capture
        self.stream_begin_capture_to_graph = captures.stream_begin_capture_to_graph
        self.stream_end_capture = captures.stream_end_capture
        self.stream_is_capturing = captures.stream_is_capturing
        self.stream_get_capture_info = captures.stream_get_capture_info
        self.thread_exchange_stream_capture_mode = captures.thread_exchange_stream_capture_mode

        graphs = GraphCalls(context, graphs_by_id, executables, seed)
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
        """`fake`."""
        return "fake"

    @property
    def description(self) -> dict[str, str]:
        """What reports say of it."""
        return {"device": "fake", "driver": self._driver, "cuda": "13.0"}

    @property
    def capabilities(self) -> frozenset[str]:
        """Everything that a trace can show, but for what an engine has to tell itself."""
        return CAPABILITIES - {"pool"}

    @property
    def legacy_stream(self) -> Stream:
        """The stream that orders itself against blocking ones."""
        return self._context.legacy.handle

    @property
    def per_thread_stream(self) -> Stream:
        """The handle that stands for the calling thread's own default stream."""
        return self._context.per_thread

    @property
    def capacity_bytes(self) -> int:
        """How much device memory there is; may be set, to run out of it."""
        return self._context.memory.capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, nbytes: int) -> None:
        self._context.memory.capacity_bytes = nbytes

    def close(self) -> None:
        """Finish what was submitted."""
        with self._context.lock:
            self._context.scheduler.finish_all()
