"""Pinned memory that is freed, or unregistered, before and after the work on it is awaited."""

import threading

import pytest

from capturegate.backend import Backend, CaptureMode, Outcome, StreamKind
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.run.result import Verdict
from capturegate.trace import CAPABILITIES, Recorder
from capturegate_backends.fake.device import FakeDevice

NBYTES = 64
GATE = all_gates()["pinned-memory-outlives-its-work"]


class Bench:
    """A device with pinned memory, a buffer to upload to, and two streams."""

    def __init__(self):
        self.backend = Backend(FakeDevice())
        self.pinned = self.backend.malloc_host(NBYTES)
        self.backend.host_write(self.pinned, bytes(NBYTES))
        self.buffer = self.backend.malloc(NBYTES)
        self.stream = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.other = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.event = self.backend.event_create()

    def upload(self):
        self.backend.memcpy_async(self.buffer, self.pinned, NBYTES, self.stream)

    def captured_upload(self):
        self.backend.stream_begin_capture(self.stream, CaptureMode.THREAD_LOCAL)
        self.upload()
        return self.backend.graph_instantiate(self.backend.stream_end_capture(self.stream))

    def until_ready(self):
        while self.backend.raw.stream_query(self.stream).error != "cudaSuccess":
            pass

    def judge(self):
        evidence = Evidence(trace=self.backend.trace(), runs=[])
        return GATE.judge(evidence, {})


@pytest.fixture
def bench():
    return Bench()


def test_memory_that_is_freed_under_an_upload_is_told_with_both_calls(bench):
    bench.upload()
    bench.backend.free_host(bench.pinned)
    judged = bench.judge()

    assert Verdict.BROKEN is judged.verdict
    assert "cudaFreeHost while a cudaMemcpyAsync on it is in flight" == judged.reason
    assert ["cudaFreeHost", "cudaMemcpyAsync"] == [event.api for event in judged.witness]
    assert {"freed": 1, "in_flight": 1} == judged.figures


@pytest.mark.parametrize(
    "awaits",
    [
        lambda bench: bench.backend.stream_synchronize(bench.stream),
        lambda bench: bench.backend.device_synchronize(),
        lambda bench: bench.until_ready(),
    ],
    ids=["stream", "device", "query"],
)
def test_memory_whose_upload_is_awaited_is_freed_in_time(bench, awaits):
    bench.upload()
    awaits(bench)
    bench.backend.free_host(bench.pinned)

    assert (Verdict.HELD, {"freed": 1, "in_flight": 0}) == (
        bench.judge().verdict,
        bench.judge().figures,
    )


def test_an_event_does_for_what_lies_before_it_alone(bench):
    bench.upload()
    bench.backend.event_record(bench.event, bench.stream)
    bench.backend.event_synchronize(bench.event)
    bench.upload()
    bench.backend.event_synchronize(bench.event)
    bench.backend.free_host(bench.pinned)

    assert (Verdict.BROKEN, 1) == (bench.judge().verdict, bench.judge().figures["in_flight"])


def test_another_stream_that_is_awaited_helps_nobody(bench):
    bench.upload()
    bench.backend.stream_synchronize(bench.other)
    bench.backend.free_host(bench.pinned)

    assert Verdict.BROKEN is bench.judge().verdict


def test_a_stream_that_waits_for_the_upload_does_for_it(bench):
    bench.upload()
    bench.backend.event_record(bench.event, bench.stream)
    bench.backend.stream_wait_event(bench.other, bench.event)
    bench.backend.stream_synchronize(bench.other)
    bench.backend.free_host(bench.pinned)

    assert Verdict.HELD is bench.judge().verdict


def test_a_launch_reads_the_memory_that_its_graph_bakes(bench):
    executable = bench.captured_upload()
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.free_host(bench.pinned)
    judged = bench.judge()

    assert Verdict.BROKEN is judged.verdict
    assert ["cudaFreeHost", "cudaGraphLaunch"] == [event.api for event in judged.witness]


def test_a_captured_upload_that_never_ran_is_no_use_of_the_memory(bench):
    bench.captured_upload()
    bench.backend.free_host(bench.pinned)

    assert (Verdict.VACUOUS, {"freed": 0, "in_flight": 0}) == (
        bench.judge().verdict,
        bench.judge().figures,
    )


def test_memory_that_is_kept_proves_nothing(bench):
    bench.upload()

    assert Verdict.VACUOUS is bench.judge().verdict


def test_other_memory_may_go_under_an_upload(bench):
    other = bench.backend.malloc_host(NBYTES)
    bench.upload()
    bench.backend.free_host(other)
    bench.backend.stream_synchronize(bench.stream)
    bench.backend.free_host(bench.pinned)

    assert (Verdict.HELD, 1) == (bench.judge().verdict, bench.judge().figures["freed"])


def test_a_download_into_pinned_memory_is_a_use_of_it(bench):
    bench.backend.memset_async(bench.buffer, 1, NBYTES, bench.stream)
    bench.backend.memcpy_async(bench.pinned, bench.buffer, NBYTES, bench.stream)
    bench.backend.free_host(bench.pinned)

    assert Verdict.BROKEN is bench.judge().verdict


def test_pages_that_are_unregistered_under_an_upload_are_told(bench):
    page = bench.backend.pageable(NBYTES)
    bench.backend.host_write(page, bytes(NBYTES))
    bench.backend.host_register(page)
    bench.backend.memcpy_async(bench.buffer, page, NBYTES, bench.stream)
    bench.backend.host_unregister(page)

    assert "cudaHostUnregister while a cudaMemcpyAsync on it is in flight" == bench.judge().reason


@pytest.mark.parametrize(
    ("api", "answer", "verdict"),
    [
        ("cudaStreamQuery", "cudaErrorNotReady", Verdict.BROKEN),
        ("cudaStreamQuery", "cudaSuccess", Verdict.HELD),
        ("cudaEventQuery", "cudaErrorNotReady", Verdict.BROKEN),
        ("cudaEventQuery", "cudaSuccess", Verdict.HELD),
    ],
)
def test_whoever_asks_has_awaited_what_is_ready_and_nothing_else(api, answer, verdict):
    recorder = Recorder()
    recorder.call("cudaMallocHost", Outcome("cudaSuccess"), allocation=7)
    copied = Outcome("cudaSuccess", reads=((7, 0, NBYTES),))
    recorder.call("cudaMemcpyAsync", copied, 5)
    recorder.call("cudaEventRecord", Outcome("cudaSuccess"), 5, handle=3)
    if api == "cudaStreamQuery":
        recorder.call(api, Outcome(answer), 5)
    else:
        recorder.call(api, Outcome(answer), handle=3)
    recorder.call("cudaFreeHost", Outcome("cudaSuccess"), allocation=7)
    evidence = Evidence(trace=recorder.trace(CAPABILITIES), runs=[])

    assert verdict is GATE.judge(evidence, {}).verdict


@pytest.mark.parametrize("freed", [0, NBYTES])
def test_a_free_of_device_memory_awaits_nothing(bench, freed):
    other = bench.backend.malloc(freed)
    bench.upload()
    bench.backend.free(other)
    bench.backend.free_host(bench.pinned)

    assert Verdict.BROKEN is bench.judge().verdict


def recording(bench, *, first=False):
    """An executable of an upload and a record of the event, the record `first` or last."""
    backend = bench.backend
    backend.stream_begin_capture(bench.stream, CaptureMode.THREAD_LOCAL)
    if first:
        backend.event_record(bench.event, bench.stream, external=True)
    bench.upload()
    if not first:
        backend.event_record(bench.event, bench.stream, external=True)
    return backend.graph_instantiate(backend.stream_end_capture(bench.stream))


@pytest.mark.parametrize(
    ("first", "verdict"), [(False, Verdict.HELD), (True, Verdict.BROKEN)], ids=["last", "first"]
)
def test_an_event_that_a_graph_records_awaits_what_was_captured_before_it(bench, first, verdict):
    executable = recording(bench, first=first)
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.event_synchronize(bench.event)
    bench.backend.free_host(bench.pinned)

    assert verdict is bench.judge().verdict


def test_an_event_of_a_graph_that_was_not_launched_since_awaits_nothing(bench):
    executable = recording(bench)
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.event_synchronize(bench.event)
    bench.upload()
    bench.backend.event_synchronize(bench.event)
    bench.backend.free_host(bench.pinned)

    assert Verdict.BROKEN is bench.judge().verdict


def test_a_stream_may_wait_for_the_event_that_a_graph_records(bench):
    executable = recording(bench)
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.stream_wait_event(bench.other, bench.event)
    bench.backend.stream_synchronize(bench.other)
    bench.backend.free_host(bench.pinned)

    assert Verdict.HELD is bench.judge().verdict


def test_an_event_that_was_recorded_outside_before_is_that_of_the_launch(bench):
    executable = recording(bench)
    bench.backend.event_record(bench.event, bench.other)
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.event_synchronize(bench.event)
    bench.backend.free_host(bench.pinned)

    assert Verdict.HELD is bench.judge().verdict


def test_a_thread_that_awaits_its_own_stream_awaits_nobody_elses(bench):
    own = bench.backend.per_thread_stream

    def upload():
        bench.backend.memcpy_async(bench.buffer, bench.pinned, NBYTES, own)

    # One after the other, so that the system may give both the same name.
    for work in (upload, lambda: bench.backend.stream_synchronize(own)):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    bench.backend.free_host(bench.pinned)

    assert Verdict.BROKEN is bench.judge().verdict


def test_a_graph_that_outlives_what_it_bakes_is_told_when_it_is_launched(bench):
    executable = bench.captured_upload()
    bench.backend.graph_launch(executable, bench.stream)
    bench.backend.stream_synchronize(bench.stream)
    bench.backend.free_host(bench.pinned)
    bench.backend.raw.graph_launch(executable, bench.stream)
    judged = bench.judge()

    assert (
        "a graph is launched whose pinned memory was freed since its last launch" == judged.reason
    )
    assert ["cudaGraphLaunch", "cudaFreeHost"] == [event.api for event in judged.witness]


def test_a_graph_that_bakes_something_else_by_then_is_launched_rightly(bench):
    backend = bench.backend
    executable = bench.captured_upload()
    backend.graph_launch(executable, bench.stream)
    backend.stream_synchronize(bench.stream)
    kept, bench.pinned = bench.pinned, backend.malloc_host(NBYTES)
    backend.host_write(bench.pinned, bytes(NBYTES))
    backend.stream_begin_capture(bench.stream, CaptureMode.THREAD_LOCAL)
    bench.upload()
    backend.graph_exec_update(executable, backend.stream_end_capture(bench.stream))
    backend.free_host(kept)
    backend.graph_launch(executable, bench.stream)

    assert (Verdict.HELD, 1) == (bench.judge().verdict, bench.judge().figures["freed"])


def test_the_last_work_on_the_memory_is_the_one_that_is_told(bench):
    bench.upload()
    bench.backend.memcpy_async(bench.pinned, bench.buffer, NBYTES, bench.other)
    bench.upload()
    bench.backend.stream_synchronize(bench.stream)
    bench.backend.free_host(bench.pinned)
    judged = bench.judge()

    assert (1, bench.other.id) == (judged.figures["in_flight"], judged.witness[1].stream)
