"""The gates of graph caches on hand-made traces: green, red, vacuous."""

import pytest

from cache_stories import BOUND, CAPTURED, FIRST, HIT, Cache
from capturegate.backend import Outcome
from capturegate.run.result import Verdict


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
    seeded = Cache().observe().work().ran().captured("embed").made()
    judged = seeded.observe().launch().work().judge(HIT)
    assert (judged.verdict, judged.figures["replayed"]) == (Verdict.BROKEN, 0)
    assert "ran directly beside its launch" in judged.reason


def test_other_work_after_a_launch_is_no_direct_run():
    seeded = Cache().observe().work().ran().captured("embed").made()
    judged = seeded.observe().launch().work(at=8192).work("sample").judge(HIT)
    assert judged.verdict is Verdict.HELD


def test_a_part_of_it_after_a_launch_is_no_direct_run():
    seeded = Cache().observe().work().work("norm").ran().captured("embed", "norm").made()
    assert seeded.observe().launch().work("norm").judge(HIT).verdict is Verdict.HELD


def test_the_same_work_in_a_later_step_is_no_direct_run_beside_the_launch():
    seeded = Cache().step("1:cold").observe().work().ran().captured("embed").made()
    judged = seeded.step("2:warm").observe().launch().step("3:declined").work().judge(HIT)
    assert (judged.verdict, judged.figures["replayed"]) == (Verdict.HELD, 1)


def test_a_direct_run_beside_a_launch_is_seen_in_another_order_of_its_branches():
    seeded = Cache().observe().work("attn").work("mlp").ran().captured("attn", "mlp").made()
    judged = seeded.observe().launch().work("mlp").work("attn").judge(HIT)
    assert "ran directly beside its launch" in judged.reason


def test_copies_that_run_again_beside_a_launch_as_a_batch_are_seen():
    seeded = Cache().observe().copy("cudaMemcpyBatchAsync").ran()
    seeded.copy(capture=1).captured().made()
    judged = seeded.observe().launch().copy("cudaMemcpyBatchAsync").judge(HIT)
    assert "ran directly beside its launch" in judged.reason


def test_a_direct_run_of_less_than_was_captured_proves_nothing():
    seeded = Cache().observe().work().ran().captured("embed", "norm").made()
    assert seeded.observe().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_direct_run_that_made_a_call_once_does_not_prove_it_twice():
    seeded = Cache().observe().work().ran().captured("embed", "embed").made()
    assert seeded.observe().launch().judge(FIRST).verdict is Verdict.BROKEN


@pytest.mark.parametrize("times", [1, 2], ids=["in the second", "after two direct runs"])
def test_other_work_captured_in_a_later_observation_is_unproven(times):
    story = Cache()
    for _ in range(times):
        story.observe().work().ran()
    story.captured("other").made().observe().launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


def test_work_captured_and_launched_without_a_direct_run_of_it_is_unproven():
    story = Cache().observe().work().ran().observe().captured("other").made().launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


def test_a_second_executable_of_other_work_is_unproven_beside_its_proven_twin():
    story = Cache().observe().work().ran().captured("embed").made(7)
    story.observe().captured("other", capture=2).made(8)
    assert story.observe().launch(7).judge(FIRST).verdict is Verdict.HELD
    judged = story.observe().launch(8).judge(FIRST)
    assert (judged.verdict, judged.witness[0].handle) == (Verdict.BROKEN, 8)


def test_an_update_from_other_work_is_unproven_whatever_the_cache_says_it_holds():
    story = Cache().observe().work().ran().captured("embed").made()
    story.observe().captured("other", capture=2).updated().holds().observe().launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


def test_a_refused_update_leaves_an_executable_what_it_was():
    refused = Outcome("cudaErrorGraphExecUpdateFailure")
    story = Cache().observe().work().ran().captured("embed").made()
    story.observe().captured("other", capture=2).updated(outcome=refused).observe().launch()
    assert story.judge(FIRST).verdict is Verdict.HELD


@pytest.mark.parametrize(("part", "verdict"), [("embed", Verdict.HELD), ("other", Verdict.BROKEN)])
def test_what_a_child_graph_holds_is_among_what_an_executable_is_made_of(part, verdict):
    story = Cache().observe().work().work("norm").ran()
    story.captured(part, graph=50).captured("norm", capture=2, graph=60)
    story.call("cudaGraphAddChildGraphNode", 60, child=50).made()
    assert story.observe().launch().judge(FIRST).verdict is verdict


def test_captures_into_the_same_graph_are_all_in_its_executable():
    story = Cache().observe().work("norm").ran()
    story.captured("other", graph=60).captured("norm", capture=2, graph=60).made()
    assert story.observe().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_branches_may_be_submitted_in_another_order_than_they_were_captured():
    story = Cache().observe().work("mlp").work("attn").ran().captured("attn", "mlp").made()
    assert story.observe().launch().judge(FIRST).verdict is Verdict.HELD


@pytest.mark.parametrize("api", ["cudaMemcpyBatchAsync", "cudaLaunchHostFunc"])
def test_a_direct_run_may_consist_of_any_work(api):
    story = Cache().observe().copy(api).ran().made().observe().launch()
    assert story.judge(FIRST).verdict is Verdict.HELD


def test_a_host_function_that_was_captured_is_asked_for():
    story = Cache().observe().work().ran().copy("cudaLaunchHostFunc", capture=1)
    story.captured("embed").made().observe().launch()
    assert story.judge(FIRST).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("directly", "verdict"),
    [("cudaMemcpyBatchAsync", Verdict.HELD), ("cudaMemsetAsync", Verdict.BROKEN)],
)
def test_a_batch_stands_for_the_single_copies_that_were_captured(directly, verdict):
    story = Cache().observe().copy(directly).work().ran()
    story.copy(capture=1).copy(capture=1).captured("embed").made()
    assert story.observe().launch().judge(FIRST).verdict is verdict


def test_a_batch_stands_for_no_kernel():
    story = Cache().observe().copy("cudaMemcpyBatchAsync").ran().captured("embed").made()
    assert story.observe().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_capture_into_a_graph_that_was_instantiated_before_changes_no_executable():
    story = Cache().observe().work().ran().captured("embed").made()
    story.captured("other", capture=2, graph=story.graph).observe().launch()
    assert story.judge(FIRST).verdict is Verdict.HELD


def test_a_claim_without_a_call_takes_nothing_from_an_earlier_run():
    story = Cache().seed().observe().ran()
    assert story.observe().launch().judge(FIRST).verdict is Verdict.HELD


def test_a_claim_about_other_work_than_was_observed_counts_for_nothing():
    story = Cache().observe().work()
    story.notes.ran_directly("prompt", "b", "1")
    assert story.made().observe().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_window_of_another_driver_is_not_what_an_executable_holds():
    seeded = Cache().observe().work().ran().captured("embed").made()
    story = seeded.captured("decode", capture=2).observe().launch()
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
    assert (judged.verdict, judged.figures) == (
        Verdict.HELD,
        {"launches": 1, "unproven": 0, "mismatched": 0},
    )


def test_a_launch_in_the_first_observation_is_broken():
    assert Cache().seed().launch().judge(FIRST).verdict is Verdict.BROKEN


def test_a_launch_after_an_update_without_a_direct_run_is_broken():
    story = Cache().seed().observe(properties="2").updated().holds().launch()
    judged = story.judge(FIRST)
    assert (judged.verdict, judged.witness[0].api) == (Verdict.BROKEN, "cudaGraphLaunch")


def test_a_launch_after_an_update_that_nobody_told_of_is_broken():
    judged = Cache().seed().observe().updated().launch().judge(FIRST)
    assert "nobody knows what" in judged.reason


def test_an_update_to_what_ran_directly_before_may_be_launched_at_once():
    story = Cache().seed(properties="1")
    story.observe(properties="2").work().ran().updated().holds()
    story.observe(properties="1").updated().holds().launch()
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
