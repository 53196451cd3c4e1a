"""Each gate on hand-made traces: green, red, vacuous, unknown."""

import pytest

from capturegate import notes
from capturegate.backend import Outcome
from capturegate.gates.base import Comparison, Evidence, Judgement, StepRun
from capturegate.gates.registry import all_gates
from capturegate.run.result import Verdict
from capturegate.trace import CAPABILITIES, Recorder

INVALIDATED = "cudaErrorStreamCaptureInvalidated"
UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"


class Story:
    """Writes a trace the way a backend would."""

    def __init__(self):
        self.recorder = Recorder()
        self.notes = notes.PoolNotes(self.recorder, "main")

    def phase(self, label):
        self.recorder.phase = label
        return self

    def begin(self, capture=1):
        outcome = Outcome("cudaSuccess", capture=capture)
        self.recorder.call("cudaStreamBeginCapture", outcome, 2, detail={"mode": "relaxed"})
        return self

    def end(self, capture=1, nodes=3, error="cudaSuccess"):
        outcome = Outcome(error, capture=capture)
        self.recorder.call("cudaStreamEndCapture", outcome, 2, detail={"nodes": nodes})
        return self

    def malloc(self, error="cudaSuccess", capture=0):
        self.recorder.call("cudaMalloc", Outcome(error, capture=capture), nbytes=512)
        return self

    def launch(self):
        self.recorder.call("cudaGraphLaunch", Outcome("cudaSuccess"), 2, handle=1)
        return self

    def take(self, size_class, allocation=1, free=1):
        self.notes.get(size_class, size_class - 1, free, 0)
        self.notes.got(size_class, allocation, "hit")
        return self

    def drained(self, freed_bytes=4096):
        self.phase("2:drain").notes.drain(freed_bytes)
        return self

    def evidence(self, capabilities=CAPABILITIES, **more):
        return Evidence(trace=self.recorder.trace(capabilities), runs=[], **more)


def judge(name, evidence):
    return all_gates()[name].judge(evidence, {})


W = "no-driver-allocation-in-window"
C = "profile-covers-window"
B = "pregrow-is-used"
H = "capture-completes"
E = "replay-matches-eager"


def test_an_allocation_outside_the_window_holds():
    story = Story().drained().phase("3:capture").malloc().begin().take(512).end()
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


def test_a_pool_that_was_not_drained_makes_the_window_vacuous():
    story = Story().phase("3:capture").malloc().begin().end()
    assert judge(W, story.evidence()).verdict is Verdict.VACUOUS


def test_a_drain_of_nothing_makes_the_window_vacuous():
    story = Story().drained(0).phase("3:capture").malloc().begin().end()
    assert judge(W, story.evidence()).verdict is Verdict.VACUOUS


def test_a_step_that_allocates_nothing_makes_the_window_vacuous():
    story = Story().drained().phase("3:capture").begin().end()
    assert judge(W, story.evidence()).verdict is Verdict.VACUOUS


def test_no_window_at_all_is_vacuous():
    assert judge(W, Story().drained().malloc().evidence()).verdict is Verdict.VACUOUS


def test_the_harness_itself_may_not_be_blamed_for_an_allocation():
    story = Story().drained().phase("3:capture").malloc().begin()
    with story.recorder.as_harness():
        story.malloc()
    assert judge(W, story.end().evidence()).verdict is Verdict.HELD


def test_a_window_that_nobody_ended_runs_to_the_end_of_the_case():
    story = Story().drained().phase("3:capture").begin().phase("4:later").malloc()
    evidence = story.evidence()
    assert judge(W, evidence).figures["inside"] == 1
    assert judge(H, evidence).reason == "a capture began and nobody ended it"


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
    [(1, Verdict.HELD), (2, Verdict.BROKEN), (0, Verdict.BROKEN), (None, Verdict.HELD)],
)
def test_the_number_of_captures_is_the_scenarios(wanted, verdict):
    evidence = Story().begin().end().evidence(captures_expected=wanted)
    assert judge(H, evidence).verdict is verdict


def test_no_capture_at_all_is_vacuous_and_missing_ones_are_broken():
    assert judge(H, Story().evidence()).verdict is Verdict.VACUOUS
    assert judge(H, Story().evidence(captures_expected=1)).verdict is Verdict.BROKEN


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


def compared(phase, digest, **more):
    facts = {"rows": 1, "mismatched_rows": (), "poisoned": True} | more
    return Comparison(phase=phase, output="logits", expected_digest=digest, **facts)


def replays(*comparisons, **more):
    story = Story()
    for comparison in comparisons:
        story.phase(comparison.phase).launch()
    return story.evidence(comparisons=comparisons, **more)


def test_replays_that_equal_the_oracle_hold():
    judged = judge(E, replays(compared("1", "a"), compared("2", "b")))
    assert (judged.verdict, judged.figures) == (Verdict.HELD, {"replays": 2, "rows": 2})


def test_a_row_that_differs_is_broken():
    evidence = replays(compared("1", "a", mismatched_rows=(0,), first_difference="first at 0"))
    judged = judge(E, evidence)
    assert (judged.verdict, judged.witness[0].api) == (Verdict.BROKEN, "cudaGraphLaunch")


@pytest.mark.parametrize(
    "comparisons",
    [
        (),
        (compared("1", "a", poisoned=False),),
        (compared("1", "a", rows=0),),
        (compared("1", "a"), compared("2", "a")),
        (compared("1", "a", degenerate="all zero"),),
    ],
    ids=["nothing replayed", "not poisoned", "no rows", "never changed", "all zero"],
)
def test_replays_that_show_nothing_are_vacuous(comparisons):
    assert judge(E, replays(*comparisons)).verdict is Verdict.VACUOUS


def test_a_failed_oracle_is_unknown():
    evidence = replays(compared("1", "a"), oracle_error="ValueError in x: y")
    assert judge(E, evidence).verdict is Verdict.UNKNOWN


def test_a_replay_that_raises_is_broken_though_its_capture_was_fine():
    evidence = replays(compared("1", "a"), failure="CudaError in step: cudaErrorIllegalAddress")
    evidence.runs = [StepRun(step="replay", verb="replay_step", phase="1", raised=True)]
    assert judge(E, evidence).verdict is Verdict.BROKEN


def test_a_case_that_ended_in_its_capture_blocks_the_comparison():
    evidence = replays(compared("1", "a"), failure="CudaError in capture")
    evidence.judged[H] = Judgement(verdict=Verdict.BROKEN)
    assert (judge(E, evidence).verdict, judge(E, evidence).blocked_by) == (Verdict.UNKNOWN, H)


def test_a_padding_row_that_somebody_reads_is_broken():
    evidence = replays(compared("1", "a", pad_spans=((5, 64, 64),)), compared("2", "b"))
    story = Story().phase("1").launch()
    reads = Outcome("cudaSuccess", reads=((5, 100, 4),))
    story.recorder.call("cudaMemcpy", reads, nbytes=4)
    read = story.evidence(comparisons=evidence.comparisons)
    assert judge(E, read).reason == "a padding row of logits was read"
