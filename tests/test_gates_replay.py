"""CG005 on hand-made traces and comparisons: green, red, vacuous, unknown."""

import pytest

from capturegate.backend import Outcome
from capturegate.gates.base import Comparison, Judgement, StepRun
from capturegate.run.result import Verdict
from stories import E, H, Story, judge


def compared(phase, digest, **more):
    facts = {"rows": 1, "span": (5, 0, 64), "difference": "", "poisoned": True, "output": "logits"}
    return Comparison(phase=phase, expected_digest=digest, **(facts | more))


def replays(*comparisons, writes=((5, 0, 64),), **more):
    """A replay for each step of the comparisons, and their evidence."""
    story = Story()
    for phase in dict.fromkeys(comparison.phase for comparison in comparisons):
        story.phase(phase).launch(writes=writes)
    return story.evidence(comparisons=comparisons, **more)


TWO = (compared("1", "a"), compared("2", "b"))


def test_replays_that_equal_the_oracle_hold():
    judged = judge(E, replays(*TWO))
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"replays": 2, "rows": 2})


def test_an_output_that_differs_is_broken():
    judged = judge(E, replays(compared("1", "a", difference="differs in 1 of 1 row(s)")))
    assert (judged.verdict, judged.witness[0].api) == (Verdict.BROKEN, "cudaGraphLaunch")


@pytest.mark.parametrize(
    "comparisons",
    [
        (),
        (compared("1", "a", poisoned=False), compared("2", "b", poisoned=False)),
        (compared("1", "a", rows=0), compared("2", "b", rows=0)),
        (compared("1", "a"),),
        (compared("1", "a"), compared("2", "a")),
        (compared("1", "a"), compared("1", "b", output="hidden"), compared("2", "a")),
        (*TWO, compared("3", "c", degenerate="all zero")),
        (compared("1", "a", span=(5, 0, 128)), compared("2", "b", span=(5, 0, 128))),
        (compared("1", "a", span=(6, 0, 64)), compared("2", "b", span=(6, 0, 64))),
    ],
    ids=[
        "nothing replayed",
        "not poisoned",
        "no rows",
        "one replay shows no change",
        "never changed",
        "two constant outputs do not change each other",
        "all zero",
        "the replay wrote half of it",
        "the replay wrote something else",
    ],
)
def test_replays_that_show_nothing_are_vacuous(comparisons):
    assert judge(E, replays(*comparisons)).verdict is Verdict.VACUOUS


def test_a_refused_launch_is_no_replay():
    story = Story()
    for phase in ("1", "2"):
        story.phase(phase).launch(error="cudaErrorInvalidValue")
    assert judge(E, story.evidence(comparisons=TWO)).verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    ("comparisons", "more"),
    [
        (TWO, {"oracle_error": "ValueError in x: y"}),
        (TWO, {"oracle_error": "it captured in step 2:x"}),
        ((*TWO, compared("3", "", unmatched=True)), {}),
    ],
    ids=["it failed", "it captured", "it has no such output"],
)
def test_without_a_reference_there_is_no_verdict(comparisons, more):
    assert judge(E, replays(*comparisons, **more)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("error", ["cudaSuccess", "cudaErrorInvalidValue"])
def test_a_replay_that_raises_is_broken_though_its_capture_was_fine(error):
    story = Story().phase("1").launch(error=error)
    evidence = story.evidence(failure="CudaError in step: cudaErrorIllegalAddress")
    evidence.runs = [StepRun(step="replay", verb="replay_step", phase="1", raised=True)]
    assert judge(E, evidence).verdict is Verdict.BROKEN


def test_a_case_that_ended_in_its_capture_blocks_the_comparison():
    evidence = replays(compared("1", "a"), failure="CudaError in capture")
    evidence.judged[H] = Judgement(verdict=Verdict.BROKEN)
    assert (judge(E, evidence).verdict, judge(E, evidence).blocked_by) == (Verdict.UNKNOWN, H)


def pad_story(second_phase, written_by=None):
    """Two replays, and a read of the padding row after the first one."""
    story = Story().phase("1").launch(writes=((5, 0, 128),))
    write = Outcome("cudaSuccess", writes=((5, 64, 64),))
    if written_by == "harness":
        with story.recorder.as_harness():
            story.recorder.call("harness.write", write)
    elif written_by == "engine":
        story.recorder.call("cudaMemsetAsync", write, 2)
    story.phase(second_phase)
    story.recorder.call("cudaMemcpy", Outcome("cudaSuccess", reads=((5, 100, 4),)), nbytes=4)
    story.phase("2").launch(writes=((5, 0, 128),))
    pads = {"pad_span": (5, 64, 64)}
    return story.evidence(comparisons=(compared("1", "a", **pads), compared("2", "b", **pads)))


@pytest.mark.parametrize("second_phase", ["1", "2"], ids=["in its step", "in the next one"])
@pytest.mark.parametrize("written_by", [None, "harness"])
def test_a_padding_row_that_somebody_reads_after_the_replay_is_broken(second_phase, written_by):
    judged = judge(E, pad_story(second_phase, written_by))
    assert judged.reason == "a padding row of logits was read after its replay"


def test_a_padding_row_that_the_engine_wrote_anew_is_nobodys_business():
    assert judge(E, pad_story("2", "engine")).verdict is Verdict.HELD


def test_an_output_that_is_written_again_after_the_replay_was_not_replayed():
    story = Story()
    for phase in ("1", "2"):
        story.phase(phase).launch(writes=((5, 0, 64),))
        story.recorder.call("cudaMemcpyAsync", Outcome("cudaSuccess", writes=((5, 32, 4),)), 2)
    assert judge(E, story.evidence(comparisons=TWO)).verdict is Verdict.VACUOUS


def test_replays_of_different_executables_do_not_show_that_one_of_them_changed():
    story = Story()
    story.phase("1").launch(writes=((5, 0, 64),), handle=1)
    story.phase("2").launch(writes=((5, 0, 64),), handle=2)
    judged = judge(E, story.evidence(comparisons=TWO))
    assert judged.reason == "logits never changed from replay to replay of one executable"
