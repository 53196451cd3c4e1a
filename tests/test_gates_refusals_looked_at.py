"""Refusals that somebody looks at, or nobody, on hand-made traces."""

import pytest

from capturegate.backend import Backend, CaptureMode, CudaError, Outcome, StreamKind
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.run.result import Verdict
from capturegate.trace import CAPABILITIES, Recorder
from capturegate_backends.fake.device import FakeDevice

REFUSED = Outcome("cudaErrorStreamCaptureUnsupported")


def judge(recorder):
    evidence = Evidence(trace=recorder.trace(CAPABILITIES), runs=[])
    return all_gates()["refusals-are-looked-at"].judge(evidence, {})


def test_a_refusal_that_nobody_looks_at_is_named():
    recorder = Recorder()
    recorder.call("cudaMalloc", Outcome("cudaSuccess"))
    recorder.call("cudaMemcpyBatchAsync", REFUSED, 5)
    judged = judge(recorder)
    assert judged.verdict is Verdict.BROKEN
    assert judged.reason == (
        "cudaMemcpyBatchAsync returned cudaErrorStreamCaptureUnsupported and nobody looked at it"
    )
    assert [event.seq for event in judged.witness] == [1]
    assert judged.figures == {"refused": 1, "unlooked": 1}


@pytest.mark.parametrize("look", [lambda s: s.error, lambda s: s.ok])
def test_a_refusal_whose_code_is_read_is_looked_at(look):
    recorder = Recorder()
    look(recorder.call("cudaMemcpyBatchAsync", REFUSED, 5))
    assert (judge(recorder).verdict, judge(recorder).figures) == (
        Verdict.HELD,
        {"refused": 1, "unlooked": 0},
    )


def test_a_value_is_no_look_at_the_code():
    recorder = Recorder()
    assert recorder.call("cudaStreamEndCapture", REFUSED, 5).value is None
    assert judge(recorder).verdict is Verdict.BROKEN


def test_one_look_does_not_do_for_two_refusals():
    recorder = Recorder()
    assert not recorder.call("cudaMalloc", REFUSED).ok
    recorder.call("cudaMalloc", REFUSED)
    judged = judge(recorder)
    assert (judged.verdict, judged.figures) == (Verdict.BROKEN, {"refused": 2, "unlooked": 1})


def test_what_is_raised_is_looked_at():
    backend = Backend(FakeDevice())
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    backend.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    with pytest.raises(CudaError):
        backend.malloc(64)
    assert judge(backend.recorder).verdict is Verdict.HELD


def test_nothing_refused_is_vacuous():
    recorder = Recorder()
    recorder.call("cudaMalloc", Outcome("cudaSuccess"))
    recorder.call("cudaStreamQuery", Outcome("cudaErrorNotReady"))
    assert (judge(recorder).verdict, judge(recorder).reason) == (
        Verdict.VACUOUS,
        "no call was refused",
    )


def test_what_the_harness_was_refused_is_not_the_engines():
    recorder = Recorder()
    with recorder.as_harness():
        recorder.call("harness.read", REFUSED)
    assert judge(recorder).verdict is Verdict.VACUOUS
