"""What the host had not awaited when a capture began, read from the trace of a step."""

import pytest

from capturegate.backend import Backend, CaptureMode, Outcome, StreamKind
from capturegate.run.drive import trace_counters
from capturegate.trace import CAPABILITIES, Recorder
from capturegate_backends.fake.device import FakeDevice

NOT_READY = "cudaErrorNotReady"


BLOCKING = {2, 3}


def work(stream=2):
    return "cudaLaunchKernel", stream, 0, "cudaSuccess"


def record(event, stream=2):
    return "cudaEventRecord", stream, event, "cudaSuccess"


def wait(event, stream):
    return "cudaStreamWaitEvent", stream, event, "cudaSuccess"


def host(api, stream=-1, event=0, error="cudaSuccess"):
    return api, stream, event, error


def copy(within_device=False):
    return "cudaMemcpy", -1, 0, "cudaSuccess", {"within_device": within_device}


def in_flight(*calls, stream=2, blocking=()):
    """The counter after these calls and the begin of a capture of a stream."""
    recorder = Recorder()
    for api, on, handle, error, *detail in calls:
        recorder.call(api, Outcome(error), on, handle=handle, detail=detail[0] if detail else None)
    recorder.call("cudaStreamBeginCapture", Outcome("cudaSuccess", capture=1), stream)
    events = recorder.trace(CAPABILITIES).events
    return trace_counters(events, blocking)["in_flight_at_begin"]


def test_work_that_nobody_awaited_is_counted_call_by_call():
    assert in_flight(work(), work(3), work()) == 2


@pytest.mark.parametrize(
    "joins",
    [
        host("cudaStreamSynchronize", 2),
        host("cudaStreamQuery", 2),
        host("cudaDeviceSynchronize"),
    ],
    ids=lambda call: call[0],
)
def test_a_host_that_awaited_the_stream_leaves_nothing_in_flight(joins):
    assert in_flight(work(), joins) == 0
    assert in_flight(work(), joins, work()) == 1


@pytest.mark.parametrize("api", ["cudaEventSynchronize", "cudaEventQuery"])
def test_an_event_awaits_what_lay_before_its_record(api):
    assert in_flight(work(), record(7), host(api, event=7)) == 0
    assert in_flight(work(), record(7), work(), work(), host(api, event=7)) == 2
    assert in_flight(record(7), work(), host(api, event=7)) == 1
    assert in_flight(work(), record(7, 3), host(api, event=7)) == 1


def test_an_event_that_was_recorded_again_awaits_its_last_record():
    assert in_flight(work(), record(7), work(), record(7), host("cudaEventSynchronize", -1, 7)) == 0


@pytest.mark.parametrize(
    "asks",
    [
        host("cudaStreamQuery", 2, error=NOT_READY),
        host("cudaEventQuery", event=7, error=NOT_READY),
        host("cudaStreamSynchronize", 3),
        host("cudaMemcpy"),
        host("cudaMemset"),
        host("cudaFreeAsync", 2),
        host("cudaFree"),
        host("cudaFreeHost"),
    ],
    ids=lambda call: call[0],
)
def test_a_call_that_does_not_await_the_stream_leaves_its_work_in_flight(asks):
    assert in_flight(work(), record(7), asks) == 1


def test_a_blocking_copy_awaits_the_legacy_stream():
    legacy = (work(0), record(7, 0), wait(7, 2))
    assert in_flight(*legacy) == 1
    assert in_flight(*legacy, copy()) == 0


@pytest.mark.parametrize(
    "asks", [copy(within_device=True), host("cudaMemset")], ids=["copy", "set"]
)
def test_a_copy_within_the_device_and_a_set_are_work_that_may_not_be_done(asks):
    assert in_flight(work(0), asks, record(7, 0), wait(7, 2)) == 2
    assert in_flight(asks, record(7, 0), wait(7, 2), copy()) == 0
    assert in_flight(work(), asks, blocking=BLOCKING) == 1


def test_a_blocking_copy_awaits_the_blocking_streams_and_no_other():
    assert in_flight(work(), work(3), copy(), blocking=BLOCKING) == 0
    assert in_flight(work(), work(3), copy(), blocking={3}) == 1
    assert in_flight(work(), host("cudaStreamSynchronize", 0), blocking=BLOCKING) == 0
    assert in_flight(work(), host("cudaStreamSynchronize", 0)) == 1


def test_a_blocking_stream_is_behind_the_legacy_one_from_its_next_work_on():
    assert in_flight(work(0), blocking=BLOCKING) == 0
    assert in_flight(work(0), work(), blocking=BLOCKING) == 2
    assert in_flight(work(0), work()) == 1
    assert in_flight(work(3), work(0), work(), blocking=BLOCKING) == 3


def test_an_event_on_a_blocking_stream_lies_behind_the_legacy_one():
    awaited = (work(0), record(7, 2), host("cudaEventSynchronize", event=7))
    assert in_flight(*awaited, stream=0, blocking=BLOCKING) == 0
    assert in_flight(*awaited, stream=0) == 1


def test_a_record_on_a_blocking_stream_puts_it_behind_the_legacy_one():
    recorded = (work(0), record(7, 2), host("cudaStreamSynchronize", 2))
    assert in_flight(*recorded, stream=0, blocking=BLOCKING) == 0
    assert in_flight(*recorded, stream=0) == 1


def test_a_per_thread_stream_is_a_blocking_one():
    assert in_flight(work(0), work(1), host("cudaStreamSynchronize", 1), stream=0) == 0
    assert in_flight(work(1), host("cudaStreamSynchronize", 0), stream=1) == 0
    assert in_flight(work(1), copy(), stream=1) == 0


def test_an_event_on_the_legacy_stream_lies_behind_the_blocking_ones():
    crossed = (work(3), record(7, 0), wait(7, 2))
    assert in_flight(*crossed, blocking=BLOCKING) == 1
    assert in_flight(*crossed) == 0
    assert in_flight(*crossed, host("cudaEventSynchronize", event=7), blocking=BLOCKING) == 0


def test_the_kind_of_a_stream_is_read_from_its_creation():
    for kind, counted in ((StreamKind.BLOCKING, 0), (StreamKind.NON_BLOCKING, 2)):
        backend = Backend(FakeDevice(), Recorder())
        stream, memory = backend.stream_create(kind), backend.malloc(64)
        backend.memset_async(memory, 1, 64, stream)
        backend.memset_async(memory, 2, 64, stream)
        backend.memcpy(backend.malloc_host(64), memory, 64)
        backend.stream_begin_capture(stream, CaptureMode.RELAXED)
        assert trace_counters(backend.trace().events)["in_flight_at_begin"] == counted


def answers(kind, copies):
    """What a query of a stream says right after work on it and a copy, one by seed."""
    found = set()
    for seed in range(40):
        backend = Backend(FakeDevice(seed=seed), Recorder())
        stream, memory = backend.stream_create(kind), backend.malloc(64)
        for value in (1, 2, 3):
            backend.memset_async(memory, value, 64, stream)
        copies(backend)
        found.add(backend.raw.stream_query(stream).error)
    return found


def test_the_fake_device_awaits_what_the_counter_says_that_a_copy_awaits():
    def to_host(backend):
        backend.memcpy(backend.malloc_host(64), backend.malloc(64), 64)

    assert answers(StreamKind.BLOCKING, to_host) == {"cudaSuccess"}
    assert NOT_READY in answers(StreamKind.NON_BLOCKING, to_host)


def test_work_of_another_stream_counts_once_the_captured_one_waits_for_it():
    assert in_flight(work(3), record(7, 3), work(3), wait(7, 2)) == 1
    assert in_flight(work(4), record(6, 4), wait(6, 3), record(7, 3), wait(7, 2)) == 1


def test_a_stream_that_waits_for_another_awaits_its_work_as_well():
    forked = (work(3), record(7, 3), wait(7, 2))
    assert in_flight(*forked, host("cudaStreamSynchronize", 2), stream=3) == 0
    assert in_flight(*forked, host("cudaStreamSynchronize", 3)) == 0


def test_a_wait_for_what_was_already_awaited_brings_nothing_back():
    awaited = (work(3), record(7, 3), host("cudaStreamSynchronize", 3))
    assert in_flight(*awaited, wait(7, 2)) == 0
