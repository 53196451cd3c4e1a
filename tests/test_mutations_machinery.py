"""The parts of the runner that keep a verdict from being false, each on its own."""

from __future__ import annotations

import importlib
import linecache
import subprocess
import sys
import traceback

import pytest

from capturegate.run.plan import expand, load
from capturegate.run.pool import Answer, Pool
from capturegate.run.result import CaseResult, GateResult, Skip, Verdict
from capturegate_mutations import controls
from capturegate_mutations.batch import Outcome, Settings, budget, collect, tasks_of
from capturegate_mutations.ground import BaselineRefused, refuse_flaky, refuse_red
from capturegate_mutations.imports import import_graph, imported_by, importers_of
from capturegate_mutations.prepare import Mutant
from capturegate_mutations.serve import NotServedError, Served, ServingFinder, serve
from capturegate_mutations.tree import tree_hash
from capturegate_mutations.verdict import Proof
from mutation_toys import write_toy

# what imports what


def test_imports_are_found_in_functions_and_in_every_form():
    text = "import a.b\ndef f():\n    from c import d\n    from . import e\n    from ..g import h\n"

    found = imported_by("p.q.r", text)

    assert {"a", "a.b", "c", "c.d", "p.q", "p.q.e", "p", "p.g", "p.g.h"} == found


def test_importers_are_found_over_any_distance_and_strangers_are_not():
    graph = {"core": set(), "a": {"core"}, "b": {"a"}, "c": {"os"}, "d": {"c", "b"}}

    assert {"core", "a", "b", "d"} == importers_of({"core"}, graph)


def test_the_real_graph_knows_that_the_adapter_of_the_engine_reaches_its_driver():
    names = {f"capturegate_reference.{name}" for name in ("adapters", "engine", "decode", "ladder")}

    reached = importers_of({"capturegate_reference.decode"}, import_graph(names))

    assert names - {"capturegate_reference.ladder"} == reached


def test_a_package_that_is_flipped_reaches_its_modules():
    graph = import_graph({"capturegate.errors", "capturegate.gates.base", "capturegate.gates"})

    assert {"capturegate.gates", "capturegate.gates.base"} == importers_of(
        {"capturegate.gates"}, graph
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


def test_a_module_that_somebody_else_serves_is_not_said_to_be_ours(served, monkeypatch):
    monkeypatch.setattr(ServingFinder, "find_spec", lambda *_: None)

    with pytest.raises(NotServedError, match="toy_served was imported from elsewhere"):
        serve([served])


def test_a_zygote_that_holds_the_flipped_module_makes_no_mutant(tmp_path, monkeypatch):
    write_toy(tmp_path, {})
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = expand(load([tmp_path / "toy.scenario.yaml"]), "fake")[:1]
    mutant = controls.noop(["toy_core"], cases)
    settings = Settings(seed=0, time_limit_s=30.0, preload=("toy_core",))

    with Pool(workers=1) as pool:
        answers = [pool.call(task) for task in tasks_of(mutant, settings, bare=False)]

    outcome = collect(answers, cases)
    assert outcome.proof is Proof.INVALID
    assert "loaded before the fork: toy_core" in outcome.reason


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


def test_a_baseline_that_differs_in_figures_or_calls_is_flaky():
    baseline = {"a[l/r]": green("a", events=3)}

    refuse_flaky(baseline, Outcome(results={"a[l/r]": green("a", events=3)}))
    with pytest.raises(BaselineRefused, match="differs between two runs"):
        refuse_flaky(baseline, Outcome(results={"a[l/r]": green("a", events=4)}))
    with pytest.raises(BaselineRefused, match="differs between two runs"):
        refuse_flaky(baseline, Outcome(results={}))


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
