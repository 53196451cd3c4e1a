"""What the host had not awaited when a capture began, read from the trace of a step."""

import pytest

from capturegate.backend import Outcome
from capturegate.run.drive import trace_counters
from capturegate.trace import CAPABILITIES, Recorder

NOT_READY = "cudaErrorNotReady"


def work(stream=2):
    return "cudaLaunchKernel", stream, 0, "cudaSuccess"


def record(event, stream=2):
    return "cudaEventRecord", stream, event, "cudaSuccess"


def wait(event, stream):
    return "cudaStreamWaitEvent", stream, event, "cudaSuccess"


def host(api, stream=-1, event=0, error="cudaSuccess"):
    return api, stream, event, error


def in_flight(*calls, stream=2):
    """The counter after these calls and the begin of a capture of a stream."""
    recorder = Recorder()
    for api, on, handle, error in calls:
        recorder.call(api, Outcome(error), on, handle=handle)
    recorder.call("cudaStreamBeginCapture", Outcome("cudaSuccess", capture=1), stream)
    return trace_counters(recorder.trace(CAPABILITIES).events)["in_flight_at_begin"]


def test_work_that_nobody_awaited_is_counted_call_by_call():
    assert in_flight(work(), work(3), work()) == 2


@pytest.mark.parametrize(
    "joins",
    [
        host("cudaStreamSynchronize", 2),
        host("cudaStreamQuery", 2),
        host("cudaDeviceSynchronize"),
        host("cudaFree"),
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
    ],
    ids=lambda call: call[0],
)
def test_a_call_that_does_not_await_the_stream_leaves_its_work_in_flight(asks):
    assert in_flight(work(), record(7), asks) == 1


@pytest.mark.parametrize("api", ["cudaMemcpy", "cudaMemset"])
def test_a_blocking_copy_or_set_awaits_the_legacy_stream(api):
    legacy = (work(0), record(7, 0), wait(7, 2))
    assert in_flight(*legacy) == 1
    assert in_flight(*legacy, host(api)) == 0


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
