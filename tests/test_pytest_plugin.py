import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

import plugin_samples
from capturegate.run.pool import Pool

pytest_plugins = ["pytester"]

NAMES = [
    "toy.scenario.yaml::default/plain::capture-completes",
    "toy.scenario.yaml::default/plain::replay-matches-eager",
    "toy.scenario.yaml::default/plain::checks",
    "toy.scenario.yaml::default/relaxed::capture-completes",
    "toy.scenario.yaml::default/relaxed::replay-matches-eager",
    "toy.scenario.yaml::default/relaxed::checks",
]


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with the toy engine in it; `project.scenario` writes a scenario beside it."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TOY_LOG", str(pytester.path / "toy.log"))
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n")
    (pytester.path / "toy.py").write_text(plugin_samples.TOY)

    def write(text, name="toy"):
        (pytester.path / f"{name}.scenario.yaml").write_text(text)

    pytester.scenario = write
    return pytester


def log_of(project):
    path = project.path / "toy.log"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def names_of(result):
    return [line for line in result.outlines if "::" in line]


def test_the_plugin_imports_nothing_heavy():
    code = "import sys, capturegate.pytest_plugin; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "capturegate.pytest_plugin" in loaded
    assert set() == loaded & {"numpy", "yaml", "rich", "click", "capturegate.pytest_items"}


def test_collecting_names_every_gate_and_the_checks_and_starts_no_child(project, monkeypatch):
    project.scenario(plugin_samples.SCENARIO)
    monkeypatch.setattr(Pool, "submit", lambda *_: pytest.fail("a child was started"))
    result = project.runpytest("--collect-only", "-q")
    assert (0, NAMES) == (result.ret, names_of(result))


def test_a_green_scenario_passes_and_is_counted(project):
    project.scenario(plugin_samples.SCENARIO)
    result = project.runpytest()
    result.assert_outcomes(passed=6)
    wanted = "cases: 2 | 2 passed | 0 failed | 0 skipped · checks: 10 | 10 passed | 0 failed"
    assert [wanted] == [line for line in result.outlines if line.startswith("cases:")]


def test_a_case_runs_once_however_many_of_its_items_run(project):
    project.scenario(plugin_samples.SCENARIO)
    project.runpytest("-k", "plain").assert_outcomes(passed=3, deselected=3)
    assert ["oracle", "engine"] == log_of(project)


def test_only_the_cases_of_selected_items_run(project):
    project.scenario(plugin_samples.SCENARIO)
    result = project.runpytest(NAMES[4])
    result.assert_outcomes(passed=1)
    assert ["oracle", "engine"] == log_of(project)
    result.stdout.fnmatch_lines(
        ["cases: 1 | 1 passed | 0 failed | 0 skipped · checks: 1 | 1 passed | 0 failed"]
    )


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("toy[default/plain]", NAMES[:3]),
        ("relaxed and checks", NAMES[5:]),
        ("replay-matches-eager", [NAMES[1], NAMES[4]]),
    ],
)
def test_a_keyword_selects_by_case_and_by_gate(project, word, wanted):
    project.scenario(plugin_samples.SCENARIO)
    assert wanted == names_of(project.runpytest("--collect-only", "-q", "-k", word))


def test_a_broken_gate_fails_with_its_witness_and_no_traceback(project):
    project.scenario(plugin_samples.ALLOCATING, "allocating")
    result = project.runpytest()
    result.assert_outcomes(passed=2, failed=1)
    line = 1 + plugin_samples.TOY.splitlines().index("            self.backend.malloc(64)")
    result.stdout.fnmatch_lines(
        [
            "_* allocating[[]default/default] no-driver-allocation-in-window _*",
            "  no-driver-allocation-in-window (CG001): broken",
            f"  at        toy.py:{line} in toy.Toy.record",
            "  expected  held",
            "  observed  broken",
            "  again     capturegate run allocating.scenario.yaml -k 'allocating*default]@fake'",
            "FAILED allocating.scenario.yaml::*::no-driver-allocation-in-window - broken: 1 d*",
            "cases: 1 | 0 passed | 1 failed | 0 skipped · checks: 3 | 2 passed | 1 failed",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    assert "pytest_items.py" not in result.stdout.str()


def test_one_gates_failure_does_not_tell_of_another(project):
    project.scenario(plugin_samples.ALLOCATING.replace("captures: 1", "captures: 2"))
    result = project.runpytest()
    result.assert_outcomes(failed=3)
    sections = result.stdout.str().split("allocating[default/default] ")
    by_name = {text.split()[0]: text for text in sections[1:]}
    assert ["capture-completes", "no-driver-allocation-in-window", "checks"] == list(by_name)
    for name, text in by_name.items():
        assert (name == "capture-completes") == ("(CG004)" in text)
        assert (name == "no-driver-allocation-in-window") == ("(CG001)" in text)
        assert (name == "checks") == ("check capture_step.captures: failed" in text)


def test_the_expected_verdict_of_a_red_arm_passes(project):
    project.scenario(plugin_samples.RED_ARM)
    project.runpytest().assert_outcomes(passed=2)


@pytest.mark.parametrize("change", [("true, mode", "false, mode"), ("Toy.record", "Toy.copy")])
def test_a_red_arm_fails_with_another_verdict_or_witness(project, change):
    project.scenario(plugin_samples.RED_ARM.replace(*change))
    result = project.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["  expected  broken, with Toy.* in the stack of the witness"])


def test_a_declared_skip_names_predicate_reason_and_the_lane_that_judges(project):
    project.scenario(plugin_samples.SKIPPING)
    result = project.runpytest("-rs")
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "SKIPPED [[]2] toy.scenario.yaml:6: toy.off: an engine that is off * in lane live.",
            "cases: 2 | 1 passed | 0 failed | 1 skipped · checks: 2 | 2 passed | 0 failed",
        ]
    )


def test_a_guarantee_that_no_lane_judges_fails(project):
    off_as_well = "live: {skip_if: toy.never, judged_in: third}\n  third: {}"
    project.scenario(plugin_samples.SKIPPING.replace("live: {}", off_as_well))
    result = project.runpytest("-rf")
    result.assert_outcomes(passed=2, skipped=2, failed=2)
    result.stdout.fnmatch_lines(
        ["FAILED toy.scenario.yaml::idle/default::checks - never judged: toy.off skips it*"]
    )


def test_a_skip_is_excused_when_the_judging_lane_was_not_selected(project):
    project.scenario(plugin_samples.SKIPPING)
    project.runpytest("-k", "idle").assert_outcomes(skipped=2, deselected=2)


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("gates:", "gats:", "toy.scenario.yaml:10:1: unknown key 'gats' in a scenario"),
        ("matches-eager", "matches", "toy.scenario.yaml:10:28: unknown gate 'replay-matches'"),
        ("about: The", "about: [The", "toy.scenario.yaml:*"),
    ],
)
def test_a_wrong_file_is_a_collection_error_with_its_place(project, before, after, wanted):
    project.scenario(plugin_samples.SCENARIO.replace(before, after))
    result = project.runpytest()
    assert 2 == result.ret
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([wanted])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("- replay_step", "- replai_step", "toy.scenario.yaml:9:5: unknown verb 'replai_step'*"),
        ("mode: relaxed", "mod: relaxed", "toy.scenario.yaml:6:13: unknown configuration key *"),
        ("toy:Toy", "toy:Boy", "toy.scenario.yaml:3:1: engine 'toy:Boy' cannot be imported*"),
    ],
)
def test_what_does_not_fit_the_engine_is_an_error_with_its_place(project, before, after, wanted):
    project.scenario(plugin_samples.SCENARIO.replace(before, after))
    result = project.runpytest()
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines([wanted])
    assert "Traceback" not in result.stdout.str()
    assert "another exception" not in result.stdout.str()


def test_an_engine_that_raises_fails_what_it_kept_from_being_judged(project):
    project.scenario(plugin_samples.SCENARIO.replace("engine: toy:Toy", BREAKING.format("raise")))
    result = project.runpytest("-k", "plain")
    result.assert_outcomes(failed=3, deselected=3)
    result.stdout.fnmatch_lines(
        ["  the engine raised in step capture_step", "  what      RuntimeError: the toy broke"]
    )
    assert "Traceback" not in result.stdout.str()


BREAKING = "engine: toy:Toy\nconfig: {{does: {}}}"


def test_a_child_that_dies_fails_its_case_and_no_other(project):
    project.scenario(plugin_samples.SCENARIO.replace("plain: {}", "plain: {does: exit}"))
    result = project.runpytest()
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(
        [
            "  harness   the process exited with code 7 and without an answer",
            "cases: 2 | 1 passed | 1 failed | 0 skipped · checks: 5 | 5 passed | 0 failed",
        ]
    )


def test_a_gate_that_nobody_named_fails_the_item_of_the_checks(project):
    text = plugin_samples.SCENARIO.replace("gates: [capture-completes, ", "gates: [")
    project.scenario(text.replace("captures: 1", "captures: 2"))
    result = project.runpytest("-k", "plain")
    result.assert_outcomes(passed=1, failed=1, deselected=2)
    result.stdout.fnmatch_lines(["  capture-completes (CG004): broken"])


def test_junit_has_one_case_for_each_item(project):
    project.scenario(plugin_samples.ALLOCATING)
    project.runpytest("--junit-xml", "junit.xml", "-o", "junit_family=xunit2")
    cases = list(ET.parse(project.path / "junit.xml").iter("testcase"))
    assert [
        "capture-completes",
        "no-driver-allocation-in-window",
        "checks",
    ] == [case.get("name") for case in cases]
    assert {"toy.scenario.yaml.default/default"} == {case.get("classname") for case in cases}
    failures = [case.find("failure") for case in cases]
    assert [False, True, False] == [failure is not None for failure in failures]
    assert failures[1].get("message").startswith("broken: 1 driver allocation(s) inside")
    assert "in toy.Toy.record" in failures[1].text


def test_the_last_failed_run_again_and_the_first_failure_stops(project):
    project.scenario(plugin_samples.ALLOCATING)
    project.runpytest("-x").assert_outcomes(passed=1, failed=1)
    project.runpytest("--lf").assert_outcomes(failed=1, deselected=2)


def test_a_lane_can_be_chosen(project):
    project.scenario(plugin_samples.SKIPPING)
    project.runpytest("--capturegate-lane", "live").assert_outcomes(passed=2, deselected=2)
    project.makeini("[pytest]\ncapturegate_lane = idle\n")
    project.runpytest().assert_outcomes(skipped=2, deselected=2)


def test_an_unknown_lane_or_backend_is_a_mistake_in_the_command(project):
    project.scenario(plugin_samples.SKIPPING)
    result = project.runpytest("--capturegate-lane", "liv")
    assert 4 == result.ret
    result.stderr.fnmatch_lines(["*no collected case has the lane 'liv'; they have idle, live"])
    result = project.runpytest("--capturegate-backend", "fak")
    assert 4 == result.ret
    result.stderr.fnmatch_lines(["*unknown backend 'fak'", "*did you mean 'fake'?"])


def test_the_command_line_says_more_than_the_configuration_file(project):
    project.scenario(plugin_samples.SCENARIO)
    project.makeini("[pytest]\ncapturegate_backend = fak\n")
    assert 4 == project.runpytest().ret
    assert 0 == project.runpytest("--capturegate-backend", "fake").ret


def test_items_and_skips_point_into_the_file(project):
    project.scenario(plugin_samples.SCENARIO)
    items, _ = project.inline_genitems()
    assert [9, 9, 7] == [item.reportinfo()[1] for item in items[:3]]
    assert {"toy.scenario.yaml"} == {item.reportinfo()[0].name for item in items}
