"""The gates of graph caches on hand-made traces: green, red, vacuous."""

import pytest

from capturegate import notes
from capturegate.backend import Outcome
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.run.result import Verdict
from capturegate.trace import CAPABILITIES, Recorder

OK = Outcome("cudaSuccess")
CAPTURED = Outcome("cudaSuccess", capture=1)

HIT = "later-observations-replay"
FIRST = "never-launched-unproven"
BOUND = "executables-are-bounded"


class Cache:
    """Writes the trace of a graph cache, call by call."""

    def __init__(self):
        self.recorder = Recorder()
        self.notes = notes.GraphNotes(self.recorder)

    def call(self, api, handle=0, outcome=OK):
        self.recorder.call(api, outcome, 2, handle=handle)
        return self

    def observe(self, identity="a", properties="1"):
        self.what = ("prompt", identity, properties)
        self.notes.observed(*self.what)
        return self

    def work(self, kernel="embed", capture=0, at=0):
        writes = () if capture else ((1, at, 64),)
        outcome = Outcome("cudaSuccess", capture=capture, writes=writes)
        return self.call("cudaLaunchKernel", kernel, outcome)

    def ran(self):
        self.notes.ran_directly(*self.what)
        return self

    def made(self, executable=7):
        self.call("cudaGraphInstantiate", executable)
        return self.holds(executable)

    def holds(self, executable=7):
        self.notes.holds(executable, *self.what)
        return self

    def seed(self, identity="a", properties="1", executable=7):
        return self.observe(identity, properties).work().ran().made(executable)

    def launch(self, executable=7):
        return self.call("cudaGraphLaunch", executable)

    def destroy(self, executable=7):
        return self.call("cudaGraphExecDestroy", executable)

    def drop(self, executable=7):
        self.notes.dropped(executable)
        return self.destroy(executable)

    def release(self, namespace="prompt"):
        self.notes.released(namespace)
        return self

    def judge(self, gate, **params):
        evidence = Evidence(trace=self.recorder.trace(CAPABILITIES), runs=[])
        return all_gates()[gate].judge(evidence, params)


def test_a_known_observation_that_is_one_launch_holds():
    judged = Cache().seed().observe().launch().judge(HIT)
    assert (judged.verdict, judged.figures) == (
        Verdict.HELD,
        {"observations": 2, "known": 1, "replayed": 1},
    )


def test_a_known_observation_that_runs_directly_again_is_broken():
    judged = Cache().seed().observe().work().ran().judge(HIT)
    assert (judged.verdict, judged.witness[0].api) == (Verdict.BROKEN, "graph.observed")


def test_a_known_observation_that_takes_two_launches_is_broken():
    judged = Cache().seed().observe().launch().launch().judge(HIT)
    assert "took 2 launches" in judged.reason


def test_a_known_observation_that_runs_beside_its_launch_is_broken():
    seeded = Cache().observe().work().ran().work(capture=1).made()
    judged = seeded.observe().launch().work().judge(HIT)
    assert (judged.verdict, judged.figures["replayed"]) == (Verdict.BROKEN, 0)
    assert "ran directly beside its launch" in judged.reason


def test_other_work_after_a_launch_is_no_direct_run():
    seeded = Cache().observe().work().ran().work(capture=1).made()
    judged = seeded.observe().launch().work(at=8192).work("sample").judge(HIT)
    assert judged.verdict is Verdict.HELD


def test_a_direct_run_of_less_than_was_captured_proves_nothing():
    seeded = Cache().observe().work().ran()
    seeded.work(capture=1).work("norm", capture=1).made()
    assert seeded.observe().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_window_of_another_driver_is_not_what_an_executable_holds():
    seeded = Cache().observe().work().ran().work(capture=1).made()
    story = seeded.work("decode", capture=1).observe().launch()
    assert story.judge(FIRST).verdict is Verdict.HELD
    assert story.judge(HIT).verdict is Verdict.HELD


@pytest.mark.parametrize(
    "story",
    [
        Cache().seed(),
        Cache().seed("a").seed("b", executable=8),
        Cache().seed(properties="1").observe(properties="2").work().ran(),
        Cache().seed().drop().observe().work().ran(),
        Cache(),
    ],
    ids=["once", "another graph", "other addresses", "dropped in between", "nothing"],
)
def test_nothing_that_was_known_is_vacuous(story):
    assert story.judge(HIT).verdict is Verdict.VACUOUS


def test_an_entry_that_was_dropped_while_its_twin_stays_still_has_to_hit():
    story = Cache().seed(executable=7).seed(executable=8).drop(7).observe().work().ran()
    assert story.judge(HIT).verdict is Verdict.BROKEN


def test_a_launch_of_what_ran_directly_before_holds():
    judged = Cache().seed().observe().launch().judge(FIRST)
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"launches": 1, "unproven": 0})


def test_a_launch_in_the_first_observation_is_broken():
    assert Cache().seed().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_launch_after_an_update_without_a_direct_run_is_broken():
    story = Cache().seed().observe(properties="2").call("cudaGraphExecUpdate", 7).holds().launch()
    judged = story.judge(FIRST)
    assert (judged.verdict, judged.witness[0].api) == (Verdict.BROKEN, "cudaGraphLaunch")


def test_a_launch_after_an_update_that_nobody_told_of_is_broken():
    judged = Cache().seed().observe().call("cudaGraphExecUpdate", 7).launch().judge(FIRST)
    assert "nobody knows what" in judged.reason


def test_an_update_to_what_ran_directly_before_may_be_launched_at_once():
    story = Cache().seed(properties="1")
    story.observe(properties="2").work().ran().call("cudaGraphExecUpdate", 7).holds()
    story.observe(properties="1").call("cudaGraphExecUpdate", 7).holds().launch()
    assert story.judge(FIRST).verdict is Verdict.HELD


@pytest.mark.parametrize("outcome", [None, CAPTURED], ids=["no call", "captured calls alone"])
def test_a_direct_run_that_no_call_bears_out_counts_for_nothing(outcome):
    story = Cache().observe()
    if outcome is not None:
        story.call("cudaLaunchKernel", "embed", outcome)
    judged = story.ran().made().observe().launch().judge(FIRST)
    assert judged.verdict is Verdict.BROKEN


def test_executables_that_no_cache_told_of_are_not_judged():
    assert Cache().call("cudaGraphInstantiate", 9).launch(9).judge(FIRST).verdict is Verdict.VACUOUS


def test_executables_within_the_bound_hold_when_more_were_wanted():
    story = Cache().seed("a", executable=7).seed("b", executable=8).drop(7).seed("c", executable=9)
    judged = story.judge(BOUND, executables_max=2)
    assert (judged.verdict, judged.figures) == (
        Verdict.HELD,
        {"executables": 2, "different": 3, "releases": 0},
    )


def test_one_executable_too_many_is_broken():
    story = Cache().seed("a", executable=7).seed("b", executable=8)
    assert story.judge(BOUND, executables_max=1).verdict is Verdict.BROKEN


def test_a_bound_that_nothing_pressed_against_is_vacuous():
    assert Cache().seed().judge(BOUND, executables_max=1).verdict is Verdict.VACUOUS


def test_a_release_that_leaves_nothing_behind_holds():
    assert Cache().seed().destroy().release().judge(BOUND).verdict is Verdict.HELD


def test_an_executable_that_a_release_leaves_behind_is_broken():
    judged = Cache().seed().release().judge(BOUND)
    assert (judged.verdict, judged.reason) == (
        Verdict.BROKEN,
        "1 executable(s) left behind by the release of prompt",
    )
    assert [event.api for event in judged.witness] == ["graph.released", "cudaGraphInstantiate"]


def test_a_release_of_another_namespace_proves_nothing():
    assert Cache().seed().release("decode").judge(BOUND).verdict is Verdict.VACUOUS
