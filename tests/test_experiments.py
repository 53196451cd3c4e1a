"""Pre-registered experiments: what a file may say, and how two arms are read."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

import capturegate_scenarios
from capturegate.cli.main import main
from capturegate.errors import InputError
from capturegate.experiment.conduct import _case_answer, holds, judge
from capturegate.experiment.model import ArmReport, Result
from capturegate.experiment.reader import code_of, load_experiment, load_experiments
from capturegate.run.pool import Answer
from capturegate.scenario.grammar import parse_expectation

SHIPPED = Path(capturegate_scenarios.__file__).parent / "experiments"
LEVER = SHIPPED / "1-async-lever.experiment.yaml"

SMALL = """\
experiment: small
about: A small one.
claim: Taking twice makes a hit.
engine: reference.pool
steps:
  - get: {nbytes: 1000, name: a}
  - put: {name: a}
  - get: {id: again, nbytes: 1000, name: b}
variable: env.CAPTUREGATE_POOL_BYPASS
control: "1"
treatment: "0"
took_effect:
  control: {put.driver_frees: 1}
  treatment: {put.driver_frees: 0}
reproduces: misses
outcomes:
  misses: {when: {again.driver_allocations: 1}, reads: refutes, means: The pool kept nothing.}
  hits: {when: {again.driver_allocations: 0}, reads: proves, means: The pool kept the block.}
faults: [again.refused_calls]
next: Read the pool's notes.
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="small"):
        path = tmp_path / f"{name}.experiment.yaml"
        path.write_text(text)
        return path

    return write


def run(*arguments):
    ran = CliRunner().invoke(main, ["experiment", *map(str, arguments)], standalone_mode=False)
    code = 2 if isinstance(ran.exception, InputError) else ran.return_value
    return code, ran.output or str(ran.exception)


def test_an_experiment_is_run_and_read_as_it_was_registered(write):
    code, output = run(write(SMALL), "--json", "-")
    [report] = json.loads(output)["experiments"]
    assert (code, report["result"], report["means"]) == (0, "proves", "The pool kept the block.")
    assert [arm["outcome"] for arm in report["arms"]] == ["misses", "hits"]
    assert report["faults"] == {"again.refused_calls": {"control": "0", "treatment": "0"}}


def test_the_steps_of_an_experiment_are_for_both_of_its_arms(tmp_path):
    path = tmp_path / "small.experiment.yaml"
    path.write_text(SMALL.replace("  - put: {name: a}", "  - put: {name: a, only: [control]}"))
    with pytest.raises(InputError) as caught:
        load_experiment(path)

    assert str(caught.value).startswith(f"{path}:7:5: step 'put' is for some arms only")


def test_a_treatment_that_did_not_take_effect_decides_nothing(write):
    text = SMALL.replace("treatment: {put.driver_frees: 0}", "treatment: {put.driver_frees: 7}")
    code, output = run(write(text), "--json", "-")
    [report] = json.loads(output)["experiments"]
    assert (code, report["result"], report["next"]) == (1, "no effect", "Read the pool's notes.")


def test_a_control_that_reproduces_nothing_decides_nothing(write):
    code, output = run(write(SMALL.replace("reproduces: misses", "reproduces: hits")))
    assert (code, "not reproduced" in output) == (1, True)


def test_what_is_not_selected_is_told_as_not_run(write):
    first = write(SMALL)
    second = write(SMALL.replace("experiment: small", "experiment: other"), "other")
    code, output = run(first, second, "--only", "other", "--json", "-")
    results = {r["name"]: r["result"] for r in json.loads(output)["experiments"]}
    assert (code, results) == (0, {"other": "proves", "small": "not run"})


def test_a_question_that_is_settled_is_not_asked_again(write):
    first = write(SMALL)
    second = write(SMALL.replace("experiment: small", "experiment: zweites"), "zweites")
    _, output = run(first, second, "--until-settled", "--json", "-")
    reports = json.loads(output)["experiments"]
    assert [report["result"] for report in reports] == ["proves", "not run"]
    assert reports[1]["reason"] == "small settled the question"


def test_an_arm_that_does_not_come_to_its_end_is_not_run(write):
    text = SMALL.replace("variable: env", "  - put: {id: wrong, name: z}\nvariable: env")
    code, output = run(write(text), "--json", "-")
    [report] = json.loads(output)["experiments"]
    assert (code, report["result"]) == (5, "not run")
    assert "no block 'z' is out" in report["reason"]


def test_a_variant_that_does_not_run_is_told_in_a_line():
    told = "Traceback (most recent call last):\n  File \"x.py\", line 1\nKeyError: 'profile'\n"
    answer = Answer(value={"cases": [{"case": "small", "raised": told}]}, fate="answered")
    assert _case_answer(answer).error == "KeyError: 'profile'"


@pytest.mark.skipif(find_spec("cuda") is not None, reason="cuda-python is installed here")
def test_a_backend_that_does_not_work_here_is_refused_before_anything_runs(write):
    code, output = run(write(SMALL), "--backend", "cupy")
    assert (code, "the cupy backend needs" in output) == (2, True)


def test_an_experiment_is_never_written_over(write):
    path = write(SMALL)
    code, output = run(path, "--json", path)
    assert (code, path.read_text()) == (2, SMALL)
    assert f"--json {path} would write over the experiment {path}" in output


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no/such/folder.json", "--json no/such/folder.json cannot be written"),
        ("/dev/full", "--json /dev/full is not a regular file"),
    ],
)
def test_a_report_that_cannot_be_written_is_refused_before_anything_runs(
    write, monkeypatch, target, said
):
    monkeypatch.setattr("capturegate.run.pool.Pool.submit", lambda *_: pytest.fail("it runs"))
    code, output = run(write(SMALL), "--json", target)
    assert (code, said in output) == (2, True)


def test_a_report_in_a_file_comes_beside_the_text(write, tmp_path):
    target = tmp_path / "report.json"
    code, output = run(write(SMALL), "--json", target)
    [report] = json.loads(target.read_text())["experiments"]
    assert (code, report["result"], "proves" in output) == (0, "proves", True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('treatment: "0"', 'treatment: "1"', "both arms give env.CAPTUREGATE_POOL_BYPASS the same"),
        ("variable: env.CAPTUREGATE_POOL_BYPASS", "variable: env", "'variable' is the text 'env'"),
        ("engine:", "code: x\nengine:", ""),
        ("reproduces: misses", "reproduces: mises", "did you mean 'misses'?"),
        ("reads: proves", "reads: shows", "unknown reading 'shows'"),
        ("again.refused_calls", "agian.refused_calls", "unknown step 'agian'"),
        ("name: b}", "name: b, check: {misses: 0}}", "an experiment has outcomes"),
        ("claim:", "calim:", "unknown key 'calim'"),
        ("  treatment: {put.driver_frees: 0}\n", "", "'took_effect' says nothing of the treatment"),
    ],
)
def test_what_is_no_experiment_is_refused_with_its_place(write, old, new, said):
    assert old in SMALL
    path = write(SMALL.replace(old, new, 1))
    if not said:
        assert load_experiment(path).code == "x"
        return
    with pytest.raises(InputError) as refused:
        load_experiment(path)
    assert said in str(refused.value)
    assert f"{path}:" in str(refused.value)


def test_a_variable_that_both_arms_set_is_refused(write):
    text = SMALL.replace("steps:", 'env: {CAPTUREGATE_POOL_BYPASS: "1"}\nsteps:', 1)
    with pytest.raises(InputError, match="'env' sets it for both arms"):
        load_experiment(write(text))


def test_the_shipped_experiments_stand_in_their_order_and_differ_in_one_variable_each():
    experiments = load_experiments(SHIPPED.glob("*.experiment.yaml"))
    assert [(e.name, e.variable.spelled) for e in experiments] == [
        ("async-lever", "env.CAPTUREGATE_ASYNC_EXECUTOR"),
        ("fixed-code", "code"),
        ("graphs-off", "env.CAPTUREGATE_DECODE_GRAPH"),
    ]
    assert [code_of(experiments[1], arm) for arm in ("control", "treatment")] == [
        "pregrow-behind-dbuf",
        "",
    ]


def test_the_lever_proves_the_cause_on_the_unfixed_code():
    code, output = run(LEVER, "--json", "-")
    [report] = json.loads(output)["experiments"]
    assert (code, report["result"]) == (0, "proves")
    assert [arm["outcome"] for arm in report["arms"]] == ["dies", "serves"]


def arm(name, outcome, *, took_effect=True, failure=""):
    return ArmReport(arm=name, value="", outcome=outcome, took_effect=took_effect, failure=failure)


@pytest.mark.parametrize(
    ("control", "treatment", "result"),
    [
        (arm("control", "dies"), arm("treatment", "serves"), Result.PROVES),
        (arm("control", "dies"), arm("treatment", "dies"), Result.INCONCLUSIVE),
        (arm("control", "serves"), arm("treatment", "serves"), Result.NOT_REPRODUCED),
        (arm("control", "dies"), arm("treatment", ""), Result.UNREGISTERED),
        (
            arm("control", "dies"),
            arm("treatment", "serves", took_effect=False),
            Result.NO_EFFECT,
        ),
        (arm("control", "dies", failure="lost"), arm("treatment", "serves"), Result.NOT_RUN),
    ],
)
def test_two_arms_are_read_control_first_then_effect_then_outcome(control, treatment, result):
    report = judge(load_experiment(LEVER), {"control": control, "treatment": treatment})
    assert (report.result, bool(report.next)) == (result, not result.settles)


@pytest.mark.parametrize(
    ("reading", "wanted", "held"),
    [
        ("3", "3", True),
        ("0", "> 0", False),
        ("True", "true", True),
        ("replay", "replay", True),
        ("no such counter; this step has nothing", ">= 0", False),
    ],
)
def test_readings_are_compared_as_what_they_are(reading, wanted, held):
    assert holds({"step.fact": parse_expectation(wanted)}, {"step.fact": reading}) is held


def test_a_reading_that_is_missing_holds_for_nothing():
    assert not holds({"step.fact": parse_expectation("!= 1")}, {})
