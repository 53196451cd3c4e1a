"""Gate CG006 on hand-made traces."""

import pytest

from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.notes import PoolNotes
from capturegate.run.result import Verdict
from capturegate.status import Outcome
from capturegate.trace import CAPABILITIES, Recorder

GRAPH, EXECUTABLE = 8, 9


class Story:
    """A trace written by hand: one graph, its executable, and who gets memory when."""

    def __init__(self):
        self.recorder = Recorder()
        self.notes = PoolNotes(self.recorder, "main")

    def call(self, api, error="cudaSuccess", **facts):
        parts = {name: facts.pop(name) for name in ("reads", "writes", "capture") if name in facts}
        self.recorder.call(api, Outcome(error, **parts), **facts)
        return self

    def captured(self):
        self.call("cudaStreamEndCapture", handle=GRAPH)
        return self.call("cudaGraphInstantiate", handle=EXECUTABLE, detail={"graph": GRAPH})

    def got(self, allocation):
        self.notes.got(512, allocation, "hit")
        return self

    def malloc(self, allocation, **more):
        return self.call("cudaMalloc", allocation=allocation, **more)

    def launch(self, *writes, reads=()):
        spans = {
            "writes": tuple((a, 0, 4) for a in writes),
            "reads": tuple((a, 0, 4) for a in reads),
        }
        return self.call("cudaGraphLaunch", handle=EXECUTABLE, **spans)

    def judged(self):
        evidence = Evidence(trace=self.recorder.trace(CAPABILITIES), runs=[])
        return all_gates()["replay-touches-only-its-own"].judge(evidence, {})


def test_a_replay_that_keeps_to_what_the_capture_had_holds():
    judged = Story().got(1).captured().got(2).launch(1).judged()
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"launches": 1, "tenants": 1})


def test_a_replay_that_writes_to_a_block_of_the_next_tenant_is_broken():
    judged = Story().got(1).captured().launch(1).got(1).launch(1).judged()
    assert (judged.verdict, judged.reason) == (
        Verdict.BROKEN,
        "a replay writes memory that was handed out after its capture",
    )
    assert [event.api for event in judged.witness] == ["cudaGraphLaunch", "pool.got"]


def test_a_replay_that_only_reads_it_is_broken_too():
    judged = Story().captured().got(1).launch(2, reads=[1]).judged()
    assert judged.reason == "a replay reads memory that was handed out after its capture"


def test_memory_that_the_driver_made_after_the_capture_is_somebody_elses():
    assert Story().captured().malloc(1).launch(1).judged().verdict is Verdict.BROKEN
    refused = Story().captured().got(2).malloc(1, error="cudaErrorMemoryAllocation").launch(1)
    assert refused.judged().verdict is Verdict.HELD


def test_what_is_given_out_between_the_end_and_the_instantiation_counts():
    story = Story().call("cudaStreamEndCapture", handle=GRAPH).got(1)
    story.call("cudaGraphInstantiate", handle=EXECUTABLE, detail={"graph": GRAPH})
    assert story.launch(1).judged().verdict is Verdict.BROKEN


def test_a_replay_after_its_memory_was_freed_is_broken():
    story = Story().captured().launch(1).call("cudaFree", allocation=1).got(2)
    assert story.launch().judged().reason == (
        "a replay follows the free of memory that its graph uses"
    )


def test_a_graph_that_was_updated_answers_for_its_new_capture_only():
    story = Story().captured().launch(1).got(2).call("cudaStreamEndCapture", handle=GRAPH + 10)
    story.call("cudaGraphExecUpdate", handle=EXECUTABLE, detail={"graph": GRAPH + 10})
    assert story.got(3).launch(2).judged().verdict is Verdict.HELD


@pytest.mark.parametrize("story", [Story(), Story().captured().launch(1), Story().got(1)])
def test_nobody_in_between_is_vacuous(story):
    assert story.judged().verdict is Verdict.VACUOUS


def test_the_harness_is_nobody():
    story = Story().captured()
    with story.recorder.as_harness():
        story.malloc(1)
    assert story.launch(1).judged().verdict is Verdict.VACUOUS


def test_a_capture_that_was_lost_leaves_it_unknown():
    story = Story().call("cudaStreamBeginCapture", capture=1, detail={"mode": "relaxed"})
    story.call("cudaStreamEndCapture", "cudaErrorStreamCaptureInvalidated", capture=1)
    judged = story.judged()
    assert (judged.verdict, judged.blocked_by) == (Verdict.UNKNOWN, "capture-completes")


def set_params(story):
    return story.call("cudaGraphExecKernelNodeSetParams", handle=EXECUTABLE)


def test_a_node_with_other_arguments_does_not_forget_an_earlier_tenant():
    story = Story().got(1).captured().launch(1).got(1)
    assert set_params(story).got(2).launch(1).judged().verdict is Verdict.BROKEN


def test_memory_that_a_node_was_given_later_is_its_own():
    story = set_params(Story().got(1).captured().launch(1).malloc(3))
    assert story.got(2).launch(1, 3).judged().verdict is Verdict.HELD


def test_a_second_capture_into_one_graph_does_not_forget_the_tenants_of_the_first():
    story = Story().got(1).call("cudaStreamEndCapture", handle=GRAPH).got(1)
    assert story.captured().got(2).launch(1).judged().verdict is Verdict.BROKEN
