"""The fake answers every recorded legality row as the real device did."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from capturegate.backend import (
    Access,
    Backend,
    CaptureMode,
    Kernel,
    Param,
    Status,
    Stream,
    StreamKind,
)
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.truth.legality import LegalityRow, load_legality

ITEMS = 1024
NBYTES = 4 * ITEMS


def _add_one(x: Any, n: int) -> None:
    x[:n] += 1


ADD_ONE = Kernel(
    name="add1",
    params=(Param("x", Access.INOUT), Param("n", Access.SCALAR, "int32")),
    body=_add_one,
    cuda='extern "C" __global__ void add1(float* x, int n) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 1.f; }",
)


class Program:
    """The recorder's program on a fresh device: begin, a kernel, the call, end."""

    def __init__(self) -> None:
        self.backend = backend = Backend(FakeDevice())
        self.capture_on = {
            "blocking": backend.stream_create(StreamKind.BLOCKING),
            "nonblocking": backend.stream_create(StreamKind.NON_BLOCKING),
        }
        self.other_blocking = backend.stream_create(StreamKind.BLOCKING)
        self.other_nonblocking = backend.stream_create(StreamKind.NON_BLOCKING)
        self.device, self.device2 = backend.malloc(NBYTES), backend.malloc(NBYTES)
        self.pinned, self.page = backend.malloc_host(NBYTES), backend.pageable(NBYTES)
        self.event = backend.event_create()
        backend.event_record(self.event, self.other_nonblocking)
        backend.device_synchronize()
        stream = self.capture_on["nonblocking"]
        backend.stream_begin_capture(stream, CaptureMode.RELAXED)
        self.launch(stream)
        self.graph = backend.stream_end_capture(stream)
        self.executable = backend.graph_instantiate(self.graph)
        self.spare_device = backend.malloc(NBYTES)
        self.spare_pinned = backend.malloc_host(NBYTES)
        self.spare_pooled = backend.malloc_async(NBYTES, self.other_nonblocking)
        self.spare_event = backend.event_create()
        self.spare_stream = backend.stream_create(StreamKind.BLOCKING)
        backend.device_synchronize()

    def launch(self, stream: Stream) -> Status[None]:
        return self.backend.raw.launch_kernel(
            ADD_ONE, (4, 1, 1), (256, 1, 1), (self.device.array((ITEMS,)), ITEMS), stream
        )

    def call(self, name: str, stream: Stream) -> str:
        """Make the call that a row names; the error name that the recorder wrote down."""
        status = CALLS[name](self, stream)
        # What cudaGetLastError returns is the error itself.
        return str(status.value) if name == "cudaGetLastError" else status.error

    def target(self, rel: str, stream: Stream) -> Stream:
        return {
            "origin": stream,
            "other_blocking": self.other_blocking,
            "other_nonblocking": self.other_nonblocking,
            "legacy": self.backend.legacy_stream,
            "other_thread": stream,
            "other_thread_other_stream": self.other_nonblocking,
        }[rel]

    def answer(self, row: LegalityRow) -> tuple[str, str, str, int | None]:
        """What the fake answers to a row's program: err, status, end, nodes."""
        raw = self.backend.raw
        stream = self.capture_on[row.cap]
        assert raw.stream_begin_capture(stream, CaptureMode(row.mode)).ok
        assert self.launch(stream).ok
        target = self.target(row.rel, stream)
        answers: list[str] = []
        if row.rel.startswith("other_thread"):
            thread = threading.Thread(target=lambda: answers.append(self.call(row.call, target)))
            thread.start()
            thread.join()
        else:
            answers.append(self.call(row.call, target))
        status = raw.stream_is_capturing(stream).unwrap().value
        ended = raw.stream_end_capture(stream)
        nodes = len(raw.graph_get_nodes(ended.value).unwrap()) if ended.ok and ended.value else None
        return answers[0], status, ended.error, nodes


def _copy(dst: str, src: str) -> Callable[[Program, Stream], Status[Any]]:
    def call(p: Program, stream: Stream) -> Status[Any]:
        target, source = getattr(p, dst), getattr(p, src)
        return p.backend.raw.memcpy_async(target, source, NBYTES, stream)

    return call


CALLS: dict[str, Callable[[Program, Stream], Status[Any]]] = {
    "cudaMalloc": lambda p, _: p.backend.raw.malloc(4096),
    "cudaMallocBig": lambda p, _: p.backend.raw.malloc(64 << 20),
    "cudaFree": lambda p, _: p.backend.raw.free(p.spare_device),
    "cudaMallocAsync": lambda p, s: p.backend.raw.malloc_async(4096, s),
    "cudaFreeAsync(uncaptured ptr)": lambda p, s: p.backend.raw.free_async(p.spare_pooled, s),
    "cudaMallocHost": lambda p, _: p.backend.raw.malloc_host(4096),
    "cudaFreeHost": lambda p, _: p.backend.raw.free_host(p.spare_pinned),
    "cudaMallocManaged": lambda p, _: p.backend.raw.malloc_managed(4096),
    "cudaMemcpy H2D pageable": lambda p, _: p.backend.raw.memcpy(p.device, p.page, NBYTES),
    "cudaMemcpy D2D": lambda p, _: p.backend.raw.memcpy(p.device, p.device2, NBYTES),
    "cudaMemset": lambda p, _: p.backend.raw.memset(p.device, 0, NBYTES),
    "cudaMemcpyAsync H2D pageable": _copy("device", "page"),
    "cudaMemcpyAsync H2D pinned": _copy("device", "pinned"),
    "cudaMemcpyAsync D2H pageable": _copy("page", "device"),
    "cudaMemcpyAsync D2D": _copy("device", "device2"),
    "cudaMemsetAsync": lambda p, s: p.backend.raw.memset_async(p.device, 0, NBYTES, s),
    "kernel launch": lambda p, s: p.launch(s),
    "cudaStreamSynchronize": lambda p, s: p.backend.raw.stream_synchronize(s),
    "cudaDeviceSynchronize": lambda p, _: p.backend.raw.device_synchronize(),
    "cudaStreamQuery": lambda p, s: p.backend.raw.stream_query(s),
    "cudaEventCreate": lambda p, _: p.backend.raw.event_create(),
    "cudaEventRecord": lambda p, s: p.backend.raw.event_record(p.spare_event, s),
    "cudaEventQuery(uncaptured)": lambda p, _: p.backend.raw.event_query(p.event),
    "cudaEventSynchronize(uncaptured)": lambda p, _: p.backend.raw.event_synchronize(p.event),
    "cudaStreamWaitEvent(uncaptured)": lambda p, s: p.backend.raw.stream_wait_event(s, p.event),
    "cudaStreamCreate": lambda p, _: p.backend.raw.stream_create(),
    "cudaStreamDestroy(idle other)": lambda p, _: p.backend.raw.stream_destroy(p.spare_stream),
    "cudaLaunchHostFunc": lambda p, s: p.backend.raw.launch_host_func(lambda: None, s),
    "cudaMemGetInfo": lambda p, _: p.backend.raw.mem_get_info(),
    "cudaPointerGetAttributes": lambda p, _: p.backend.raw.pointer_get_attributes(p.device),
    "cudaDeviceGetAttribute": lambda p, _: p.backend.raw.device_get_attribute(
        "cudaDevAttrMultiProcessorCount"
    ),
    "cudaSetDevice": lambda p, _: p.backend.raw.set_device(0),
    "cudaStreamIsCapturing": lambda p, s: p.backend.raw.stream_is_capturing(s),
    "cudaGraphInstantiate(other)": lambda p, _: p.backend.raw.graph_instantiate(p.graph),
    "cudaGraphLaunch(other)": lambda p, s: p.backend.raw.graph_launch(p.executable, s),
    "cudaGraphUpload(other)": lambda p, s: p.backend.raw.graph_upload(p.executable, s),
    "cudaStreamBeginCapture(again)": lambda p, s: p.backend.raw.stream_begin_capture(
        s, CaptureMode.GLOBAL
    ),
    "cuModuleLoadData": lambda p, _: p.backend.raw.module_load_data(ADD_ONE),
    "cudaHostRegister": lambda p, _: p.backend.raw.host_register(p.page),
    "cudaDeviceGetDefaultMemPool": lambda p, _: p.backend.raw.device_get_default_mem_pool(),
    "cudaMemPoolTrimTo": lambda p, _: p.backend.raw.mem_pool_trim_to(1, 0),
    "cudaGetLastError": lambda p, _: p.backend.raw.get_last_error(),
}


def test_the_table_names_its_device() -> None:
    table = load_legality()
    assert (table.device, table.driver, table.cuda) == ("NVIDIA H200", "580", "13.0")


def test_the_fake_answers_all_recorded_rows(capsys: pytest.CaptureFixture[str]) -> None:
    checked: Counter[str] = Counter()
    wrong = []
    for row in load_legality().rows:
        recorded = (row.err, row.status, row.end, row.nodes)
        answered = Program().answer(row)
        checked[row.call] += 1
        if recorded != answered:
            wrong.append(f"{row}: the fake answered {answered}")
    with capsys.disabled():
        print(f" legality: {checked.total()} rows of {len(checked)} calls checked ", end="")
    assert wrong == []
    assert checked.total() >= 1000
    assert (checked.total(), len(checked)) == (1512, 42)
