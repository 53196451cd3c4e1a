"""The gates of the foundation on hand-made traces: green, red, vacuous, unknown."""

from threading import Thread

import pytest

from capturegate import notes
from capturegate.backend import Outcome
from capturegate.gates.base import Judgement, StepRun
from capturegate.run.result import Verdict
from capturegate.scenario.grammar import parse_expectation
from capturegate.trace import CAPABILITIES
from stories import INVALIDATED, UNSUPPORTED, B, C, H, Story, W, judge


def test_an_allocation_outside_the_window_holds():
    story = Story().drained().phase("3:capture").grow().begin().take(512).end()
    judged = judge(W, story.evidence())
    assert (judged.verdict, judged.figures) == (
        Verdict.HELD,
        {"inside": 0, "step": 1, "windows": 1},
    )


def test_an_allocation_inside_the_window_is_broken_with_class_free_and_needed():
    story = Story().drained().phase("3:capture").begin().take(512, free=0).malloc().end()
    judged = judge(W, story.evidence())
    assert judged.verdict is Verdict.BROKEN
    assert judged.figures == {
        "inside": 1,
        "step": 1,
        "windows": 1,
        "class": 512,
        "free": 0,
        "needed": 511,
    }
    assert judged.witness[0].api == "cudaMalloc"


def test_a_refused_attempt_counts_as_an_allocation():
    story = Story().drained().phase("3:capture").begin().malloc(UNSUPPORTED).end(error=INVALIDATED)
    judged = judge(W, story.evidence())
    assert (judged.verdict, judged.figures["inside"]) == (Verdict.BROKEN, 1)
    assert "1 of them refused" in judged.reason


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (
            Story().phase("3:c").grow().begin().take(512).end(),
            "the pool was not drained in an earlier step",
        ),
        (
            Story().drained(0).phase("3:c").grow().begin().take(512).end(),
            "the pool was not drained in an earlier step",
        ),
        (
            Story().drained(pool="other").phase("3:c").grow().begin().take(512).end(),
            "the pool was not drained in an earlier step",
        ),
        (
            Story().drained().phase("3:c").begin().take(512).end(),
            "its window took nothing that the step had to fetch from the driver",
        ),
        (
            Story().drained().phase("3:c").grow(9).begin().take(512).end(),
            "its window took nothing that the step had to fetch from the driver",
        ),
        (
            Story().drained().phase("3:c").begin().take(512).end().grow(),
            "its window took nothing that the step had to fetch from the driver",
        ),
    ],
    ids=[
        "not drained",
        "drained of nothing",
        "another pool drained",
        "nothing fetched",
        "something else fetched",
        "fetched too late",
    ],
)
def test_a_window_that_could_not_have_gone_red_is_vacuous(story, reason):
    judged = judge(W, story.evidence())
    assert (judged.verdict, judged.reason) == (
        Verdict.VACUOUS,
        f"step 3:c captured, and {reason}",
    )


def test_one_tested_window_does_not_speak_for_another_steps():
    story = Story().drained().phase("3:c").grow().begin(1).take(512).end(1)
    story.phase("4:c").begin(2).take(512).end(2)
    judged = judge(W, story.evidence())
    assert judged.verdict is Verdict.VACUOUS
    assert judged.reason.startswith("step 4:c captured")


def test_a_window_that_took_nothing_fetched_is_vacuous_beside_one_of_its_step_that_did():
    story = Story().drained().phase("3:c").grow(7).begin(1).take(512, 7).end(1)
    story.begin(2).take(512, 9).end(2)
    assert judge(W, story.evidence()).verdict is Verdict.VACUOUS


def test_a_segment_that_needs_no_memory_leaves_the_verdict_to_the_others():
    story = Story().drained().phase("3:c").grow(7).begin(1).end(1).begin(2).take(512, 7).end(2)
    assert judge(W, story.evidence()).verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("freed_bytes", "fetched", "verdict"),
    [(64, True, Verdict.HELD), (0, True, Verdict.VACUOUS), (64, False, Verdict.VACUOUS)],
)
def test_without_pool_events_frees_and_allocations_tell(freed_bytes, fetched, verdict):
    story = Story().phase("1:cold")
    story.recorder.call("cudaFree", Outcome("cudaSuccess"), nbytes=freed_bytes)
    story.phase("2:c")
    if fetched:
        story.malloc()
    story.begin().end()
    assert judge(W, story.evidence(CAPABILITIES - {"pool"})).verdict is verdict


def test_no_window_at_all_is_vacuous():
    assert judge(W, Story().drained().malloc().evidence()).verdict is Verdict.VACUOUS


def test_the_harness_itself_may_not_be_blamed_for_an_allocation():
    story = Story().drained().phase("3:capture").grow().begin().take(512)
    with story.recorder.as_harness():
        story.malloc()
    assert judge(W, story.end().evidence()).verdict is Verdict.HELD


def test_a_window_that_nobody_ended_runs_to_the_end_of_the_case():
    story = Story().drained().phase("3:capture").begin().phase("4:later").malloc()
    evidence = story.evidence()
    assert judge(W, evidence).figures["inside"] == 1
    assert judge(H, evidence).reason == "a capture began and nobody ended it"


def destroyed(error="cudaSuccess"):
    """A window, and its stream destroyed, and later memory taken on its thread."""
    story = Story().drained().phase("3:capture").begin()
    story.recorder.call("cudaStreamDestroy", Outcome(error), 2)
    return story.phase("4:later").malloc()


def test_the_destroy_of_its_stream_closes_a_window():
    evidence = destroyed().evidence()
    judged = judge(H, evidence)
    assert judge(W, evidence).figures["inside"] == 0
    assert judged.reason == "a capture began and its stream was destroyed before anybody ended it"
    assert [event.api for event in judged.witness] == [
        "cudaStreamBeginCapture",
        "cudaStreamDestroy",
    ]


def test_a_destroy_that_is_refused_leaves_the_window_open():
    evidence = destroyed("cudaErrorInvalidResourceHandle").evidence()
    assert judge(W, evidence).figures["inside"] == 1
    assert "nobody ended it" in judge(H, evidence).reason


def test_the_destroy_of_a_stream_after_the_end_changes_nothing():
    story = Story().begin().end()
    story.recorder.call("cudaStreamDestroy", Outcome("cudaSuccess"), 2)
    assert judge(H, story.evidence()).verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"nodes": 0}, "the capture recorded no node"),
        ({"nodes": None}, "the capture recorded no node"),
        (
            {"error": INVALIDATED, "nodes": None},
            f"the capture was lost: its end returned {INVALIDATED}",
        ),
    ],
)
def test_a_capture_that_did_not_complete_is_broken(end, reason):
    judged = judge(H, Story().begin().end(**end).evidence())
    assert (judged.verdict, judged.reason) == (Verdict.BROKEN, reason)


def test_the_witness_of_a_lost_capture_is_the_call_that_lost_it():
    story = Story().begin().malloc(UNSUPPORTED, capture=1).end(error=INVALIDATED, nodes=None)
    assert judge(H, story.evidence()).witness[0].api == "cudaMalloc"


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [
        ("1", Verdict.HELD),
        ("> 0", Verdict.HELD),
        ("2", Verdict.BROKEN),
        ("0", Verdict.BROKEN),
    ],
)
def test_a_step_has_as_many_captures_as_it_says(wanted, verdict):
    evidence = Story().phase("3:c").begin().end().evidence()
    evidence.runs = [StepRun(step="c", verb="v", phase="3:c", raised=False)]
    evidence.captures_said = {"c": parse_expectation(wanted)}
    assert judge(H, evidence).verdict is verdict


def test_a_step_that_says_nothing_of_captures_may_capture():
    evidence = Story().phase("3:c").begin().end().evidence()
    evidence.runs = [StepRun(step="c", verb="v", phase="3:c", raised=False)]
    evidence.captures_said = {"other": parse_expectation("0")}
    assert judge(H, evidence).verdict is Verdict.HELD


def test_no_capture_at_all_is_vacuous_and_missing_ones_are_broken():
    evidence = Story().evidence()
    assert judge(H, evidence).verdict is Verdict.VACUOUS
    evidence.captures_said = {"c": parse_expectation("1")}
    assert judge(H, evidence).verdict is Verdict.BROKEN


def refused(story, api, error="cudaErrorIllegalState"):
    story.recorder.call(api, Outcome(error), 2, detail={"mode": "relaxed"})
    return story


@pytest.mark.parametrize(
    "story",
    [
        refused(Story().begin(), "cudaStreamBeginCapture").end(),
        refused(Story().begin(), "cudaStreamEndCapture").end(),
        refused(Story().begin().end(), "cudaStreamEndCapture"),
        refused(Story(), "cudaStreamEndCapture"),
    ],
    ids=["second begin", "refused end before the end", "second end", "end without a begin"],
)
def test_a_window_has_one_begin_and_one_end(story):
    assert judge(H, story.evidence()).verdict is Verdict.BROKEN


def test_the_witness_of_a_capture_that_a_sibling_lost_is_the_siblings_call():
    story = Story().begin()
    thread = Thread(target=lambda: story.malloc(UNSUPPORTED))
    thread.start()
    thread.join()
    judged = judge(H, story.end(error=INVALIDATED, nodes=None).evidence())
    assert (judged.witness[0].api, judged.witness[0].thread) == ("cudaMalloc", 1)


def test_a_profile_that_covers_the_peak_holds():
    story = Story().phase("3:c")
    story.notes.profile({512: 2})
    story.begin().take(512).take(512).notes.put(512, 1)
    judged = judge(C, story.take(512).end().evidence())
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"demand": 2, "profile": 2})


def test_a_profile_that_is_short_by_one_is_broken_in_its_class():
    story = Story().phase("3:c")
    story.notes.profile({512: 1, 64: 1})
    judged = judge(C, story.begin().take(64).take(512).take(512).end().evidence())
    assert (judged.verdict, judged.figures) == (
        Verdict.BROKEN,
        {"class": 512, "peak": 2, "profile": 1},
    )


def test_a_window_without_a_profile_is_broken_and_without_a_request_vacuous():
    assert judge(C, Story().begin().take(512).end().evidence()).verdict is Verdict.BROKEN
    assert judge(C, Story().begin().end().evidence()).verdict is Verdict.VACUOUS


def test_a_window_that_was_lost_before_its_first_request_is_unknown_not_vacuous():
    judged = judge(C, Story().begin().end(error=INVALIDATED).evidence())
    assert (judged.verdict, judged.blocked_by) == (Verdict.UNKNOWN, H)


def test_a_profile_of_a_lost_window_is_unknown():
    story = Story().phase("3:c")
    story.notes.profile({512: 2})
    judged = judge(C, story.begin().take(512).end(error=INVALIDATED).evidence())
    assert (judged.verdict, judged.blocked_by) == (Verdict.UNKNOWN, H)


def test_each_pool_is_judged_against_its_own_profile():
    story = Story().phase("3:c")
    story.notes.profile({512: 1})
    notes.PoolNotes(story.recorder, "other").profile({512: 9})
    judged = judge(C, story.begin().take(512).take(512).end().evidence())
    assert (judged.verdict, judged.figures["profile"]) == (Verdict.BROKEN, 1)


def test_what_a_helper_thread_takes_in_the_windows_time_counts():
    story = Story().phase("3:c")
    story.notes.profile({512: 1})
    story.begin().take(512)
    thread = Thread(target=lambda: story.take(512))
    thread.start()
    thread.join()
    assert judge(C, story.end().evidence()).verdict is Verdict.BROKEN


def test_a_pre_grown_block_that_a_helper_thread_takes_is_used():
    story = Story().phase("3:c")
    story.notes.pre_grew({512: (7,)})
    story.begin()
    thread = Thread(target=lambda: story.take(512, 7))
    thread.start()
    thread.join()
    evidence = story.end().evidence()
    evidence.judged[W] = Judgement(verdict=Verdict.HELD)
    assert judge(B, evidence).verdict is Verdict.HELD


def test_a_pre_grown_block_that_another_class_borrows_is_not_used():
    story = Story().phase("3:c")
    story.notes.pre_grew({512: (7,)})
    evidence = story.begin().take(256, 7).end().evidence()
    evidence.judged[W] = Judgement(verdict=Verdict.HELD)
    assert judge(B, evidence).verdict is Verdict.BROKEN


def test_each_window_of_one_step_has_the_pre_grow_before_it():
    story = Story().phase("3:c")
    story.notes.pre_grew({512: (7,)})
    story.begin(1).take(512, 7).end(1)
    story.notes.pre_grew({512: (8,)})
    evidence = story.begin(2).take(512, 8).end(2).evidence()
    evidence.judged[W] = Judgement(verdict=Verdict.HELD)
    assert judge(B, evidence).verdict is Verdict.HELD


def pre_grown(taken):
    story = Story().phase("3:c")
    story.notes.pre_grew({512: (7, 8)})
    story.begin()
    for allocation in taken:
        story.take(512, allocation)
    evidence = story.end().evidence()
    evidence.judged[W] = Judgement(verdict=Verdict.HELD)
    return evidence


def test_blocks_that_the_pre_grow_made_are_all_taken():
    assert judge(B, pre_grown([7, 8])).verdict is Verdict.HELD


def test_a_pre_grown_block_that_the_window_never_takes_is_broken():
    judged = judge(B, pre_grown([7, 9]))
    assert (judged.verdict, judged.figures) == (
        Verdict.BROKEN,
        {"class": 512, "created": 2, "unused": 1},
    )


def test_pre_grown_blocks_are_not_judged_where_the_window_went_to_the_driver():
    evidence = pre_grown([7])
    evidence.judged[W] = Judgement(verdict=Verdict.BROKEN)
    assert (judge(B, evidence).verdict, judge(B, evidence).blocked_by) == (Verdict.UNKNOWN, W)


def test_no_pre_grown_block_is_vacuous():
    evidence = Story().begin().end().evidence()
    evidence.judged[W] = Judgement(verdict=Verdict.HELD)
    assert judge(B, evidence).verdict is Verdict.VACUOUS
