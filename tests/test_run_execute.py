"""What a case comes to, on small engines with one fault each."""

import pytest

from capturegate.errors import InputError
from capturegate.gates import registry
from capturegate.run.execute import judge_case
from capturegate.run.result import Verdict
from capturegate.scenario.loader import load_scenario
from capturegate.scenario.model import Case

E = "replay-matches-eager"
W = "no-driver-allocation-in-window"
H = "capture-completes"

STEPS = """
  - step: {id: cold}
  - step: {id: capture, check: {captures: 1}}
  - step: {id: replay, times: 3, check: {replays: 3}}
"""


@pytest.fixture
def run(tmp_path):
    def run_one(engine, gates=(H, E), steps=STEPS, arm="{}"):
        path = tmp_path / "toy.scenario.yaml"
        path.write_text(
            f"scenario: toy\nabout: A toy.\nengine: toy_engines:{engine}\n"
            f"arms: {{only: {arm}}}\nsteps:{steps}gates: [{', '.join(gates)}]\n"
        )
        scenario = load_scenario(path)
        return judge_case(
            Case(
                scenario=scenario,
                lane=scenario.lanes[0],
                arm=scenario.arms[0],
                backend="fake",
            )
        )

    return run_one


LAST_ERROR = """
  - step: {{id: cold, check: {{last_error: cudaSuccess}}}}
  - step: {{id: capture, check: {{last_error: {left}}}}}
"""


@pytest.mark.parametrize(
    ("engine", "left"),
    [
        ("Doubling", "cudaSuccess"),
        ("LeavesAnError", "cudaErrorInvalidDevice"),
        ("CapturesInAThread", "unknown since another thread made calls"),
    ],
)
def test_a_step_tells_the_last_error_that_it_left(run, engine, left):
    assert run(engine, (H,), LAST_ERROR.format(left=left)).as_expected
    assert not run(engine, (H,), LAST_ERROR.format(left="cudaErrorUnknown")).as_expected


def verdict_of(result, gate):
    return next(g.verdict for g in result.gates if g.gate == gate)


def test_an_engine_without_a_fault_is_green(run):
    result = run("Doubling")
    assert result.as_expected
    assert [verdict_of(result, gate) for gate in (H, E)] == [Verdict.HELD, Verdict.HELD]


@pytest.mark.parametrize(
    ("engine", "verdict"),
    [
        ("Stale", Verdict.BROKEN),
        ("FewerRows", Verdict.BROKEN),
        ("LosesOutput", Verdict.BROKEN),
        ("CapturingOracle", Verdict.UNKNOWN),
        ("PoisonsPart", Verdict.VACUOUS),
        ("EagerBehind", Verdict.VACUOUS),
    ],
)
def test_a_replay_that_was_not_seen_to_equal_the_eager_run_is_not_green(run, engine, verdict):
    result = run(engine)
    assert (verdict_of(result, E), result.as_expected) == (verdict, False)


@pytest.mark.parametrize(("kind", "observed"), [("blocking", "0"), ("nonblocking", "1")])
def test_what_is_in_flight_depends_on_the_kind_of_a_stream_made_before_the_step(
    run, kind, observed
):
    steps = STEPS.replace("captures: 1", "in_flight_at_begin: 0")
    result = run("CopiesBeforeItsCapture", steps=steps, arm=f"{{kind: {kind}}}")
    assert result.checks[0].observed == observed


def test_a_require_that_the_oracle_does_not_meet_hides_nothing(run):
    steps = STEPS.replace("check: {captures: 1}", "require: {captures: 1}")
    assert verdict_of(run("Stale", steps=steps), E) is Verdict.BROKEN


def test_a_red_arm_does_not_excuse_an_exception_that_has_nothing_to_do_with_it(run):
    arm = f"{{capture_mode: relaxed, expect: {{{W}: broken}}}}"
    result = run("AllocatesThenTrips", gates=(W,), arm=arm)
    assert verdict_of(result, W) is Verdict.BROKEN
    assert result.failure.type == "AttributeError"
    assert not result.as_expected


def test_a_red_arm_excuses_the_refusal_that_its_gate_shows(run):
    arm = f"{{expect: {{{W}: broken, {H}: broken, {E}: unknown}}}}"
    result = run("AllocatesThenTrips", gates=(W, H, E), arm=arm)
    assert result.failure.cuda_error == "cudaMalloc cudaErrorStreamCaptureUnsupported"
    assert result.as_expected


@pytest.mark.parametrize(
    ("raises", "as_expected"),
    [("NotImplementedError", True), ("RuntimeError", False)],
)
def test_an_exception_of_the_engines_own_is_excused_by_its_type_alone(run, raises, as_expected):
    arm = f"{{raises: {raises}, expect: {{{H}: broken, {E}: unknown}}}}"
    assert run("RefusesItself", arm=arm).as_expected is as_expected


def test_a_word_has_to_be_told_by_every_run_of_a_step(run):
    steps = "\n  - step: {times: 2, check: {state: later}}\n"
    result = run("Doubling", steps=steps, gates=(H,), arm=f"{{expect: {{{H}: vacuous}}}}")
    (check,) = result.checks
    assert (check.outcome, check.observed) == ("failed", "cold, later")


def test_an_engine_that_exits_is_an_engine_that_failed(run):
    result = run("Exits")
    assert (result.failure.type, result.as_expected) == ("SystemExit", False)


def test_a_mistake_of_the_scenario_is_told_at_its_step(run):
    with pytest.raises(InputError) as caught:
        run("RefusesInput")
    assert (str(caught.value.where).rpartition("/")[2], caught.value.expected) == (
        "toy.scenario.yaml:7:5",
        "something else",
    )


def test_a_gate_that_fails_to_judge_is_red_though_nobody_named_it(run, monkeypatch):
    def fail(*_):
        raise RuntimeError("the judge is ill")

    gate = registry.all_gates()[E]
    monkeypatch.setattr(type(gate), "judge", fail)
    result = run("Doubling", gates=(H,))
    assert verdict_of(result, E) is Verdict.UNKNOWN
    assert not result.as_expected


def test_a_value_of_an_arm_that_the_engine_refuses_is_told_at_the_arms_key(tmp_path):
    path = tmp_path / "decode.scenario.yaml"
    path.write_text(
        "scenario: decode\nabout: No rows.\nengine: reference.decode\n"
        "arms:\n  some: {retiled_rows: 1}\n  none: {retiled_rows: 0}\n"
        "steps: [step: {check: {state: cold}}]\n"
    )
    scenario = load_scenario(path)
    case = Case(scenario=scenario, lane=scenario.lanes[0], arm=scenario.arms[1], backend="fake")
    with pytest.raises(InputError) as caught:
        judge_case(case)

    assert f"{path}:6:10" == str(caught.value.where)
