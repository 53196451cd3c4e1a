"""What is left at teardown, on hand-made traces."""

import pytest

from capturegate.backend import Outcome
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.run.result import Verdict
from capturegate.trace import CAPABILITIES, Recorder

OK = Outcome("cudaSuccess")
PAIRS = [
    ("cudaGraphInstantiate", "cudaGraphExecDestroy", "executable"),
    ("cudaStreamEndCapture", "cudaGraphDestroy", "graph"),
    ("cudaEventCreate", "cudaEventDestroy", "event"),
    ("cudaMalloc", "cudaFree", "device block"),
    ("cudaMallocHost", "cudaFreeHost", "pinned host block"),
]


def judge(*calls, actor="engine"):
    recorder = Recorder()
    recorder.actor = actor
    for api, error in calls:
        recorder.call(api, Outcome(error), stream=5, allocation=3, handle=5)
    evidence = Evidence(trace=recorder.trace(CAPABILITIES), runs=[])
    return all_gates()["nothing-left-at-teardown"].judge(evidence, {})


@pytest.mark.parametrize(("make", "end", "kind"), PAIRS)
def test_what_was_made_and_ended_is_not_left(make, end, kind):
    judged = judge((make, "cudaSuccess"), (end, "cudaSuccess"))
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"made": 1, "left": 0})


@pytest.mark.parametrize(("make", "end", "kind"), PAIRS)
def test_what_was_made_and_stays_is_named(make, end, kind):
    judged = judge((make, "cudaSuccess"))
    assert (judged.verdict, judged.reason) == (Verdict.BROKEN, f"1 {kind}(s) left at teardown")
    assert judged.witness[0].api == make


@pytest.mark.parametrize(("make", "end", "kind"), PAIRS)
def test_an_end_that_was_refused_ends_nothing(make, end, kind):
    judged = judge((make, "cudaSuccess"), (end, "cudaErrorInvalidValue"))
    assert judged.verdict is Verdict.BROKEN


def test_a_stream_is_gone_when_it_is_destroyed():
    made = ("cudaStreamCreateWithFlags", "cudaSuccess")
    assert judge(made).reason == "1 stream(s) left at teardown"
    assert judge(made, ("cudaStreamDestroy", "cudaSuccess")).verdict is Verdict.HELD


def test_what_was_refused_was_never_made():
    assert judge(("cudaMalloc", "cudaErrorMemoryAllocation")).verdict is Verdict.VACUOUS


def test_what_the_harness_made_is_not_the_engines():
    assert judge(("cudaMalloc", "cudaSuccess"), actor="harness").verdict is Verdict.VACUOUS
