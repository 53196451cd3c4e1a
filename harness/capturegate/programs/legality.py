"""One program of the legality table: begin, a kernel, one call, end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from capturegate.backend import Access, CaptureMode, Kernel, Param, Stream, StreamKind
from capturegate.backend.device import Device
from capturegate.programs.bench import must
from capturegate.status import SUCCESS, Outcome

ITEMS = 1024
NBYTES = 4 * ITEMS

Answer = tuple[str, str, str, int | None]
"""What the call returned, the capture's status after it, what the end returned, the nodes."""


class LegalityRow(Protocol):
    """What a row of the table says of its program, and what the device answered.

    Attributes:
        cap: kind of the stream that captures, `blocking` or `nonblocking`.
        mode: the mode of the capture.
        rel: from where the call is made, such as `origin`, `legacy`, `other_thread`.
        call: the call by its name in the table.
        err: what the call returned.
        status: the status of the capture after it.
        end: what the end of the capture returned.
        nodes: how many nodes the graph has, None without a graph.
    """

    @property
    def cap(self) -> str: ...  # noqa: D102
    @property
    def mode(self) -> str: ...  # noqa: D102
    @property
    def rel(self) -> str: ...  # noqa: D102
    @property
    def call(self) -> str: ...  # noqa: D102
    @property
    def err(self) -> str: ...  # noqa: D102
    @property
    def status(self) -> str: ...  # noqa: D102
    @property
    def end(self) -> str: ...  # noqa: D102
    @property
    def nodes(self) -> int | None: ...  # noqa: D102


def _add_one(x: Any, n: int) -> None:
    x[:n] += 1


ADD_ONE = Kernel(
    name="add1",
    params=(Param("x", Access.INOUT), Param("n", Access.SCALAR, "int32")),
    body=_add_one,
    cuda='extern "C" __global__ void add1(float* x, int n) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1.f; }",
)


class LegalityProgram:
    """What stands ready on a fresh device for the program of one row."""

    def __init__(self, device: Device) -> None:
        self.device = device
        blocking, other = StreamKind.BLOCKING, StreamKind.NON_BLOCKING
        self._capture_on = {
            "blocking": self._made(device.stream_create(blocking)),
            "nonblocking": self._made(device.stream_create(other)),
        }
        self.other_blocking: Stream = self._made(device.stream_create(blocking))
        self.other_nonblocking: Stream = self._made(device.stream_create(other))
        self.block, self.block2 = (self._made(device.malloc(NBYTES)) for _ in range(2))
        self.pinned = self._made(device.malloc_host(NBYTES))
        self.page = self._made(device.pageable(NBYTES))
        self.event = self._made(device.event_create())
        self._made(device.event_record(self.event, self.other_nonblocking, False))  # noqa: FBT003
        self._made(device.device_synchronize())
        stream = self._capture_on["nonblocking"]
        self._made(device.stream_begin_capture(stream, CaptureMode.RELAXED))
        self._made(self.launch(stream))
        self.graph = self._made(device.stream_end_capture(stream))
        self.executable = self._made(device.graph_instantiate(self.graph))
        self.spare_block = self._made(device.malloc(NBYTES))
        self.spare_pinned = self._made(device.malloc_host(NBYTES))
        self.spare_pooled = self._made(device.malloc_async(NBYTES, self.other_nonblocking))
        self.spare_event = self._made(device.event_create())
        self.spare_stream = self._made(device.stream_create(blocking))
        self._made(device.device_synchronize())

    def answer(self, row: LegalityRow) -> Answer:
        """Run the row's program."""
        device, stream = self.device, self._capture_on[row.cap]
        self._made(device.stream_begin_capture(stream, CaptureMode(row.mode)))
        self._made(self.launch(stream))
        target = self._target(row.rel, stream)
        answers: list[str] = []
        if row.rel.startswith("other_thread"):
            thread = threading.Thread(target=lambda: answers.append(self._call(row.call, target)))
            thread.start()
            thread.join()
        else:
            answers.append(self._call(row.call, target))
        status = self._made(device.stream_is_capturing(stream)).value
        ended = device.stream_end_capture(stream)
        nodes = None
        if ended.error == SUCCESS and ended.value is not None:
            nodes = len(self._made(device.graph_get_nodes(ended.value)))
        return answers[0], status, ended.error, nodes

    def launch(self, stream: Stream) -> Outcome[None]:
        """Launch the kernel."""
        args = (self.block.array((ITEMS,)), ITEMS)
        return self.device.launch_kernel(ADD_ONE, (4, 1, 1), (256, 1, 1), args, stream)

    def _call(self, name: str, stream: Stream) -> str:
        out = CALLS[name](self, stream)
        # What cudaGetLastError returns is the error itself.
        return str(out.value) if name == "cudaGetLastError" else out.error

    def _target(self, rel: str, stream: Stream) -> Stream:
        return {
            "origin": stream,
            "other_blocking": self.other_blocking,
            "other_nonblocking": self.other_nonblocking,
            "legacy": self.device.legacy_stream,
            "other_thread": stream,
            "other_thread_other_stream": self.other_nonblocking,
        }[rel]

    def _made(self, outcome: Outcome[Any]) -> Any:
        return must(outcome, "what the program stands on")


LegalityCall = Callable[[LegalityProgram, Stream], Outcome[Any]]


def _copy(dst: str, src: str) -> LegalityCall:
    def call(p: LegalityProgram, stream: Stream) -> Outcome[Any]:
        return p.device.memcpy_async(getattr(p, dst), getattr(p, src), NBYTES, stream)

    return call


CALLS: Mapping[str, LegalityCall] = {
    "cudaMalloc": lambda p, _: p.device.malloc(4096),
    "cudaMallocBig": lambda p, _: p.device.malloc(64 << 20),
    "cudaFree": lambda p, _: p.device.free(p.spare_block),
    "cudaMallocAsync": lambda p, s: p.device.malloc_async(4096, s),
    "cudaFreeAsync(uncaptured ptr)": lambda p, s: p.device.free_async(p.spare_pooled, s),
    "cudaMallocHost": lambda p, _: p.device.malloc_host(4096),
    "cudaFreeHost": lambda p, _: p.device.free_host(p.spare_pinned),
    "cudaMallocManaged": lambda p, _: p.device.malloc_managed(4096),
    "cudaMemcpy H2D pageable": lambda p, _: p.device.memcpy(p.block, p.page, NBYTES),
    "cudaMemcpy D2D": lambda p, _: p.device.memcpy(p.block, p.block2, NBYTES),
    "cudaMemset": lambda p, _: p.device.memset(p.block, 0, NBYTES),
    "cudaMemcpyAsync H2D pageable": _copy("block", "page"),
    "cudaMemcpyAsync H2D pinned": _copy("block", "pinned"),
    "cudaMemcpyAsync D2H pageable": _copy("page", "block"),
    "cudaMemcpyAsync D2D": _copy("block", "block2"),
    "cudaMemsetAsync": lambda p, s: p.device.memset_async(p.block, 0, NBYTES, s),
    "kernel launch": lambda p, s: p.launch(s),
    "cudaStreamSynchronize": lambda p, s: p.device.stream_synchronize(s),
    "cudaDeviceSynchronize": lambda p, _: p.device.device_synchronize(),
    "cudaStreamQuery": lambda p, s: p.device.stream_query(s),
    "cudaEventCreate": lambda p, _: p.device.event_create(),
    "cudaEventRecord": lambda p, s: p.device.event_record(p.spare_event, s, external=False),
    "cudaEventQuery(uncaptured)": lambda p, _: p.device.event_query(p.event),
    "cudaEventSynchronize(uncaptured)": lambda p, _: p.device.event_synchronize(p.event),
    "cudaStreamWaitEvent(uncaptured)": lambda p, s: p.device.stream_wait_event(
        s, p.event, external=False
    ),
    "cudaStreamCreate": lambda p, _: p.device.stream_create(StreamKind.BLOCKING),
    "cudaStreamDestroy(idle other)": lambda p, _: p.device.stream_destroy(p.spare_stream),
    "cudaLaunchHostFunc": lambda p, s: p.device.launch_host_func(lambda: None, s),
    "cudaMemGetInfo": lambda p, _: p.device.mem_get_info(),
    "cudaPointerGetAttributes": lambda p, _: p.device.pointer_get_attributes(p.block),
    "cudaDeviceGetAttribute": lambda p, _: p.device.device_get_attribute(
        "cudaDevAttrMultiProcessorCount"
    ),
    "cudaSetDevice": lambda p, _: p.device.set_device(0),
    "cudaStreamIsCapturing": lambda p, s: p.device.stream_is_capturing(s),
    "cudaGraphInstantiate(other)": lambda p, _: p.device.graph_instantiate(p.graph),
    "cudaGraphLaunch(other)": lambda p, s: p.device.graph_launch(p.executable, s),
    "cudaGraphUpload(other)": lambda p, s: p.device.graph_upload(p.executable, s),
    "cudaStreamBeginCapture(again)": lambda p, s: p.device.stream_begin_capture(
        s, CaptureMode.GLOBAL
    ),
    "cuModuleLoadData": lambda p, _: p.device.module_load_data(ADD_ONE),
    "cudaHostRegister": lambda p, _: p.device.host_register(p.page),
    "cudaDeviceGetDefaultMemPool": lambda p, _: p.device.device_get_default_mem_pool(),
    "cudaMemPoolTrimTo": lambda p, _: p.device.mem_pool_trim_to(
        p.device.device_get_default_mem_pool().value or 0, 0
    ),
    "cudaGetLastError": lambda p, _: p.device.get_last_error(),
}
