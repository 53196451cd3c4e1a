import pytest

import plugin_samples
from capturegate.run.pool import Pool
from capturegate_mutations import controls

pytest_plugins = ["pytester"]

ONE_ARM = plugin_samples.SCENARIO.replace("  plain: {}\n", "")


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with the toy engine and its scenario; `project.plan` writes a plan beside them."""
    monkeypatch.setenv("COLUMNS", "100")
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n")
    (pytester.path / "toy.py").write_text(plugin_samples.TOY)
    (pytester.path / "toy.scenario.yaml").write_text(ONE_ARM)
    pytester.syspathinsert()

    def write(text, name="it"):
        (pytester.path / f"{name}.mutation.yaml").write_text(text)

    pytester.plan = write
    return pytester


def test_collecting_a_plan_starts_no_child(project, monkeypatch):
    project.plan(plugin_samples.PLAN)
    monkeypatch.setattr(Pool, "submit", lambda *_: pytest.fail("a child was started"))
    result = project.runpytest("--collect-only", "-q", "it.mutation.yaml")
    assert (0, "it.mutation.yaml::allocates-always") == (result.ret, result.outlines[0])


def test_a_proved_plan_passes_on_the_scenarios_beside_it(project):
    project.plan(plugin_samples.PLAN)
    result = project.runpytest("it.mutation.yaml")
    result.assert_outcomes(passed=1)
    assert [] == [line for line in result.outlines if line.startswith("cases:")]


def test_a_plan_that_is_not_proved_fails_with_its_evidence_and_no_traceback(project):
    expected = "{no-driver-allocation-in-window: {verdict: broken, witness: Toy.record}}"
    project.plan(plugin_samples.PLAN.replace(expected, "{replay-matches-eager: broken}"))
    result = project.runpytest("it.mutation.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "_* mutation allocates-always _*",
            "allocates-always: wrong-reason",
            "  | -        if self.allocates:",
            "  | +        if True:",
            "  expected  toy[[]default/relaxed]  replay-matches-eager: broken",
            "  observed  toy[[]default/relaxed]  no-driver-allocation-in-window: broken",
            "  again     capturegate mutate it.mutation.yaml -k allocates-always --scenarios .",
            "FAILED it.mutation.yaml::allocates-always - wrong-reason: *",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_flip_that_cannot_be_applied_fails(project):
    project.plan(plugin_samples.PLAN.replace("old: if self.allocates", "old: if self.alocates"))
    result = project.runpytest("it.mutation.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["FAILED it.mutation.yaml::allocates-always - invalid: *"])


def test_every_plan_on_a_red_baseline_fails(project):
    (project.path / "toy.scenario.yaml").write_text(ONE_ARM.replace("replays: 2", "replays: 3"))
    project.plan(plugin_samples.PLAN)
    project.plan(plugin_samples.PLAN.replace("allocates-always", "again"), "again")
    result = project.runpytest("it.mutation.yaml", "again.mutation.yaml")
    result.assert_outcomes(failed=2)
    assert 2 == sum("- baseline-red: " in line for line in result.outlines)


def test_a_wrong_plan_is_a_collection_error_with_its_place(project):
    project.plan(plugin_samples.PLAN.replace("[default/relaxed]", "[default/tight]"))
    result = project.runpytest()
    assert 2 == result.ret
    result.stdout.fnmatch_lines(["it.mutation.yaml:7:3: *toy[[]default/tight]*"])
    assert "Traceback" not in result.stdout.str()


def test_two_plans_of_one_name_are_refused(project):
    project.plan(plugin_samples.PLAN)
    project.plan(plugin_samples.PLAN, "same")
    result = project.runpytest()
    assert 2 == result.ret
    result.stdout.fnmatch_lines(["*: mutation 'allocates-always' exists already, in *"])


def test_another_distribution_plugs_a_suffix_in(project, monkeypatch):
    info = project.path / "plugged-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[capturegate.pytest_collectors]\n.toy.txt = plugged_items:items_of\n"
    )
    (project.path / "plugged_items.py").write_text(
        """\
import pytest

from capturegate.errors import InputError


class Line(pytest.Item):
    def runtest(self):
        if self.name == "bad":
            raise ValueError("bad line")


def items_of(file):
    lines = file.path.read_text().split()
    if not lines:
        raise InputError("no line", where=str(file.path.name))
    return [Line.from_parent(file, name=line) for line in lines]
"""
    )
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=":")
    (project.path / "a.toy.txt").write_text("good bad\n")
    project.runpytest_subprocess("a.toy.txt").assert_outcomes(passed=1, failed=1)
    (project.path / "b.toy.txt").write_text("")
    result = project.runpytest_subprocess("b.toy.txt")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["b.toy.txt: no line"])


def test_a_plan_says_its_own_verdict_where_options_turn_every_run_red(project):
    project.plan(plugin_samples.PLAN)
    idle = plugin_samples.PLAN.replace("allocates-always", "idle").replace(
        "new: if True", "new: if bool(self.allocates)"
    )
    project.plan(idle, "idle")
    project.makeconftest("def pytest_sessionfinish(session):\n    session.exitstatus = 1\n")
    options = ("--junit-xml", "junit.xml", "-W", "error", "--maxfail", "9")
    result = project.runpytest(*options, "it.mutation.yaml", "idle.mutation.yaml")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["FAILED idle.mutation.yaml::idle - survived: *"])
    junit = (project.path / "junit.xml").read_text()
    assert (2, 1) == (junit.count("<testcase "), junit.count("<failure "))
    assert 'errors="0" failures="1" skipped="0" tests="2"' in junit


def test_a_plan_that_changes_files_while_it_is_proved_has_no_verdict(project):
    writes = 'if open("toy.scenario.yaml", "a").write("#")'
    project.plan(plugin_samples.PLAN.replace("new: if True", f"new: '{writes}'"))
    result = project.runpytest("it.mutation.yaml")
    result.assert_outcomes(failed=1)
    said = "*no verdict counts: tracked files changed during the run*"
    result.stdout.fnmatch_lines([said])


def test_no_plan_has_a_verdict_where_a_control_failed(project, monkeypatch):
    project.plan(plugin_samples.PLAN)
    project.plan(plugin_samples.PLAN.replace("allocates-always", "again"), "again")
    monkeypatch.setattr(controls, "_RAISES", "\n")
    result = project.runpytest("it.mutation.yaml", "again.mutation.yaml")
    result.assert_outcomes(failed=2)
    assert 2 == sum("- no verdict counts: a mutant of toy" in line for line in result.outlines)


def test_a_scenario_that_does_not_fit_its_engine_proves_nothing(project):
    (project.path / "toy.scenario.yaml").write_text(ONE_ARM.replace("replay_step", "replay"))
    project.plan(plugin_samples.PLAN)
    result = project.runpytest("it.mutation.yaml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*toy.scenario.yaml:*: unknown verb 'replay'*"])
