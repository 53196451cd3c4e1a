"""The parts of the runner that keep a verdict from being false, each on its own."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
import traceback
from dataclasses import replace

import pytest

from capturegate.errors import InputError, Location
from capturegate.run.plan import expand, load
from capturegate.run.pool import Answer, Pool
from capturegate.run.result import CaseResult, GateResult, Skip, Verdict
from capturegate_mutations import controls
from capturegate_mutations.batch import Outcome, Settings, budget, collect, tasks_of
from capturegate_mutations.ground import BaselineRefused, Ground, refuse_flaky, refuse_red
from capturegate_mutations.plan import Plan
from capturegate_mutations.prepare import Mutant
from capturegate_mutations.runner import Prepared, Runner
from capturegate_mutations.serve import (
    NotServedError,
    Served,
    ServingFinder,
    check_served,
    serve,
)
from capturegate_mutations.tree import tree_hash
from capturegate_mutations.verdict import Proof
from mutation_toys import write_toy

PLAN = Plan(
    name="p", about="", flips=(), expect={}, also={}, reasons={}, path="", where=Location("p")
)

# serving source


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    path = tmp_path / "toy_served.py"
    path.write_text("VALUE = 1\n\ndef f():\n    raise ValueError('old')\n")
    text = path.read_text().replace("old", "new").replace("VALUE = 1", "VALUE = 2")
    yield Served(module="toy_served", path=str(path), text=text)
    sys.modules.pop("toy_served", None)
    linecache.cache.pop(str(path), None)


def test_a_served_module_has_the_files_path_the_new_lines_and_no_bytecode(served, tmp_path):
    serve([served])
    module = importlib.import_module("toy_served")

    with pytest.raises(ValueError, match="new") as caught:
        module.f()

    assert (2, served.path) == (module.VALUE, module.__file__)
    assert "    raise ValueError('new')" in "".join(traceback.format_exception(caught.value))
    assert [] == list(tmp_path.rglob("*.pyc"))


def test_a_stale_bytecode_file_beside_the_source_is_never_read(served, tmp_path):
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path)], check=True)
    assert list(tmp_path.rglob("*.pyc"))

    serve([served])

    assert sys.modules["toy_served"].VALUE == 2


def test_a_module_that_is_loaded_already_is_not_said_to_be_served(served):
    importlib.import_module("toy_served")

    with pytest.raises(NotServedError, match="toy_served is loaded already"):
        serve([served])


def test_a_module_that_another_served_one_replaced_is_not_said_to_be_served(served):
    serve([served])
    sys.modules["toy_served"].__file__ = "another.py"

    with pytest.raises(NotServedError, match="toy_served was imported from elsewhere"):
        check_served([served])


def test_a_module_that_somebody_else_serves_is_not_said_to_be_ours(served, monkeypatch):
    monkeypatch.setattr(ServingFinder, "find_spec", lambda *_: None)

    with pytest.raises(NotServedError, match="toy_served was imported from elsewhere"):
        serve([served])


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        (("toy_core",), "loaded before the fork: toy_core"),
        ((), "not applied: toy_core is loaded already"),
    ],
    ids=["zygote", "child"],
)
def test_a_zygote_that_holds_the_flipped_module_makes_no_mutant(
    tmp_path, monkeypatch, absent, said
):
    write_toy(tmp_path, {})
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = expand(load([tmp_path / "toy.scenario.yaml"]), "fake")[:1]
    mutant = controls.noop(["toy_core"], cases)
    settings = Settings(seed=0, time_limit_s=30.0, preload=("toy_core",))

    tasks = tasks_of(mutant, settings, bare=False)
    assert [("toy_core",)] == [task.absent for task in tasks]
    with Pool(workers=1) as pool:
        answers = [pool.call(replace(task, absent=absent)) for task in tasks]

    outcome = collect(answers, cases)
    assert outcome.proof is Proof.INVALID
    assert said in outcome.reason


# what children answer


def value(**fields) -> Answer:
    return Answer(value=fields, fate="answered")


@pytest.mark.parametrize(
    ("answer", "proof", "reason"),
    [
        (value(not_served="m is loaded already"), "invalid", "not applied: m is loaded already"),
        (value(import_error="NameError: x"), "crash", "failed to import:\nNameError: x"),
        (value(cases=[{"case": "a", "raised": "SystemExit"}]), "crash", "a: SystemExit"),
        (value(cases=[{"case": "a", "overran": "too many"}]), "timeout", "a: too many"),
        (Answer(value=None, fate="timeout", error="late"), "timeout", "late"),
        (Answer(value=None, fate="not started", error="unclean"), "invalid", "unclean"),
        (
            Answer(value=None, fate="signal", error="died", output="case a\ncase b\nnoise\n"),
            "crash",
            "died, during case b",
        ),
        (Answer(value=None, fate="lost", error="gone"), "crash", "gone"),
    ],
)
def test_an_answer_without_results_is_what_it_is(answer, proof, reason):
    outcome = collect([answer], ())

    assert proof == outcome.proof
    assert reason in outcome.reason


def test_a_case_that_the_harness_could_not_judge_is_a_crash():
    told = {"case": "a[l/r]", "result": result("a", harness_error="broken pipe").to_json()}

    assert Proof.CRASH is collect([value(cases=[told])], ()).proof


def test_results_belong_to_the_case_that_they_name_in_whatever_order_they_come(cases):
    told = [
        {"case": case.name, "result": replace(green("toy"), lane=case.lane.name).to_json()}
        for case in cases
    ]

    outcome = collect([value(cases=told[1:]), value(cases=told[:1])], cases)

    assert [case.name for case in cases] == list(outcome.results)
    assert ["plain", "idle"] == [result.lane for result in outcome.results.values()]


class Backwards:
    """A pool that answers the last task first; each answer has the task's first case alone."""

    def __init__(self):
        self._tasks = []

    def submit(self, task):
        self._tasks.append(task)
        return len(self._tasks)

    def answers(self):
        for ticket in range(len(self._tasks), 0, -1):
            case = self._tasks[ticket - 1].request["cases"][0]
            name = f"toy[{case['lane']}/{case['arm']}]"
            told = replace(green("toy", events=ticket), lane=case["lane"], arm=case["arm"])
            yield ticket, value(cases=[{"case": name, "result": told.to_json()}])


def runner_over(*mutants: Mutant) -> Runner:
    prepared = [
        Prepared(plan=replace(PLAN, name=str(number)), mutant=mutant)
        for number, mutant in enumerate(mutants)
    ]
    settings = Settings(seed=0, time_limit_s=1.0)
    return Runner(pool=Backwards(), cases=(), prepared=prepared, settings=settings, all_cases=True)


def test_outcomes_belong_to_the_mutant_whose_children_told_them(cases):
    runner = runner_over(Mutant(cases=tuple(cases)), Mutant(cases=tuple(cases[:1])))

    outcomes = {
        item.plan.name: [told.events for told in outcome.results.values()]
        for item, outcome in runner.mutants({"0", "1"}, Ground(baseline={}))
    }

    assert {"0": [1, 2], "1": [3]} == outcomes


def test_a_mutant_that_lost_a_case_on_the_way_has_crashed(cases):
    other = replace(cases[0], arm=replace(cases[0].arm, name="other"))
    runner = runner_over(Mutant(cases=(cases[0], other)))

    [(_, outcome)] = runner.mutants({"0"}, Ground(baseline={}))

    assert (Proof.CRASH, "the mutant did not run every case") == (outcome.proof, outcome.reason)


def test_there_is_nothing_to_prove_without_a_case():
    with pytest.raises(InputError, match="there is no case to prove anything on"):
        runner_over().ground()


def test_the_budget_depends_on_the_baseline_alone():
    assert 20_000 == budget({})
    assert 60_000 == budget({"a": result("a", events=3_000), "b": result("b", events=10)})


# the baseline


def result(name: str, **fields) -> CaseResult:
    return CaseResult(case=name, scenario=name, lane="l", arm="r", backend="fake", **fields)


def green(name: str, **fields) -> CaseResult:
    return result(name, gates=[GateResult(gate="w", verdict=Verdict.HELD)], **fields)


@pytest.fixture
def cases(tmp_path):
    write_toy(tmp_path, {})
    return expand(load([tmp_path / "toy.scenario.yaml"]), "fake")


def refusal(outcome, cases) -> str:
    with pytest.raises(BaselineRefused) as caught:
        refuse_red(outcome, cases)
    assert caught.value.proof is Proof.BASELINE_RED
    return caught.value.reason


def test_a_baseline_without_a_result_for_every_case_is_refused(cases):
    outcome = Outcome(results={cases[0].name: green("toy")})

    assert "the baseline did not run every case" == refusal(outcome, cases)
    assert "the baseline did not run every case" == refusal(Outcome(), cases)


def test_a_baseline_that_skipped_everything_is_refused(cases):
    skip = Skip(predicate="p", reason="r", judged_in="l")
    outcome = Outcome(results={case.name: result("toy", skip=skip) for case in cases})

    assert "the baseline judged nothing: all was skipped" == refusal(outcome, cases)


def test_a_baseline_that_crashed_is_refused(cases):
    outcome = Outcome(proof=Proof.CRASH, reason="SIGSEGV")

    assert "the baseline did not run: SIGSEGV" == refusal(outcome, cases)


def test_a_baseline_that_differs_in_verdicts_figures_or_calls_is_flaky():
    baseline = {"a[l/r]": green("a", events=3)}

    refuse_flaky(baseline, Outcome(results={"a[l/r]": green("a", events=3)}))
    judged = GateResult(gate="w", verdict=Verdict.VACUOUS)
    counted = GateResult(gate="w", verdict=Verdict.HELD, figures={"inside": 1})
    others = (
        {},
        {"a[l/r]": green("a", events=4)},
        {"a[l/r]": result("a", gates=[judged], events=3)},
        {"a[l/r]": result("a", gates=[counted], events=3)},
    )
    for other in others:
        with pytest.raises(BaselineRefused, match="differs between two runs"):
            refuse_flaky(baseline, Outcome(results=other))
    with pytest.raises(BaselineRefused, match="ran once, and not again: SIGSEGV"):
        refuse_flaky(baseline, Outcome(proof=Proof.CRASH, reason="SIGSEGV"))


# the controls


def test_a_noop_that_changes_a_verdict_is_no_control():
    baseline = {"a[l/r]": green("a")}
    changed = result("a", gates=[GateResult(gate="w", verdict=Verdict.VACUOUS)])

    controls.check_noop(Outcome(results=dict(baseline)), baseline)
    with pytest.raises(controls.ControlError, match=r"changed a\[l/r\]: w is vacuous"):
        controls.check_noop(Outcome(results={"a[l/r]": changed}), baseline)
    with pytest.raises(controls.ControlError, match="did not run: dead"):
        controls.check_noop(Outcome(proof=Proof.CRASH, reason="dead"), baseline)


def test_a_canary_that_survives_or_ran_nowhere_is_no_control():
    baseline = {"a[l/r]": green("a")}
    broken = result("a", gates=[GateResult(gate="w", verdict=Verdict.BROKEN)])

    controls.check_canary(Outcome(results={"a[l/r]": broken}), baseline)
    with pytest.raises(controls.ControlError, match="left a"):
        controls.check_canary(Outcome(results=dict(baseline)), baseline)
    with pytest.raises(controls.ControlError, match="the canary did not run: dead"):
        controls.check_canary(Outcome(proof=Proof.CRASH, reason="dead"), baseline)
    with pytest.raises(controls.ControlError, match="no case with anything green"):
        controls.check_canary(Outcome(), baseline)


def test_a_module_that_raises_on_import_and_does_not_crash_is_not_served():
    crashed = Outcome(proof=Proof.CRASH, reason="RuntimeError: the canary")

    controls.check_raiser("m", crashed)
    for outcome in (Outcome(), Outcome(proof=Proof.CRASH, reason="SIGSEGV")):
        with pytest.raises(controls.ControlError, match="flips of it are not served"):
            controls.check_raiser("m", outcome)


def test_the_canary_appends_to_functions_that_exist():
    mutant = controls.canary(())

    assert ["capturegate.run.judge", "capturegate.run.drive"] == list(mutant.modules)
    for source in mutant.sources:
        name = "def _judge_check(" if source["module"].endswith("drive") else "def _judge("
        assert 2 == source["text"].count(name)


# the tree


def test_the_tree_of_a_package_changes_with_any_of_its_files(tmp_path):
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    one, other = package / "one.py", package.parent / "other.py"
    one.write_text("1")
    other.write_text("1")
    before = tree_hash([one])

    other.write_text("2")
    changed = tree_hash([one])
    other.write_text("1")

    assert before != changed
    assert before == tree_hash([one])


def test_the_tree_of_a_checkout_is_all_that_is_tracked(tmp_path):
    (tmp_path / "src").mkdir()
    code, data, loose = tmp_path / "src" / "m.py", tmp_path / "data.bin", tmp_path / "loose"
    for file in (code, data):
        file.write_text("1")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), "add", "."], check=True)
    before = tree_hash([code])

    loose.write_text("not tracked")
    assert before == tree_hash([code])
    data.unlink()
    assert before != tree_hash([code])


def test_parts_share_the_cases_of_an_environment_out(cases):
    mutant = Mutant(cases=(*cases, *cases))
    settings = Settings(seed=0, time_limit_s=1.0)

    whole = tasks_of(mutant, settings, bare=True)
    parts = tasks_of(mutant, settings, bare=True, parts=2)

    assert [2, 2] == [len(task.request["cases"]) for task in whole]
    assert [1, 1, 1, 1] == [len(task.request["cases"]) for task in parts]
    assert [{}, {"TOY_OFF": "1"}] == [task.env for task in whole]
