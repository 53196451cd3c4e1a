from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from capturegate.errors import InputError, Location
from capturegate.scenario import loader
from capturegate.scenario.loader import (
    find_scenarios,
    load_scenario,
    load_scenarios,
    shipped_scenarios,
)
from capturegate.scenario.model import GateUse, Lane

DESIGN = """\
scenario: decode-nonspec-dense
about: A non-speculative decode capture takes nothing from the driver.
origin: vllm.cpp 2029
engine: reference.decode            # or "my_pkg.adapters:DecodeAdapter"
config: {model: dense, async_executor: false, max_num_seqs: 8}
arms:
  refusing: {capture_mode: thread_local}
  census: {capture_mode: relaxed}
lanes:
  pooled: {}
  bypass: {env: {CAPTUREGATE_POOL_BYPASS: "1"}, skip_if: pool.bypassed, judged_in: pooled}
steps:
  - cold_step: {requests: 1}
  - drain: {require: {freed_bytes: "> 0"}}
  - capture_step: {requests: 1, check: {captures: 1}}
  - replay_step: {requests: 1, times: 3}
gates: [no-driver-allocation-in-window, profile-covers-window, pregrow-is-used, capture-completes]
"""

SMALL = """\
scenario: {name}
about: A small one.
engine: my_pkg.adapters:Small
steps:
  - drain: {{check: {{freed_bytes: 0}}}}
"""


def write(folder: Path, name: str, text: str = "") -> Path:
    path = folder / f"{name}.scenario.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or SMALL.format(name=name.replace("/", "-").lower()))
    return path


def load(folder: Path, text: str):
    return load_scenario(write(folder, "f", text))


def test_the_example_of_the_design_loads(tmp_path):
    scenario = load(tmp_path, DESIGN)

    assert scenario.name == "decode-nonspec-dense"
    assert scenario.about == "A non-speculative decode capture takes nothing from the driver."
    assert scenario.origin == "vllm.cpp 2029"
    assert scenario.engine == "reference.decode"
    assert scenario.config == {"model": "dense", "async_executor": False, "max_num_seqs": 8}
    assert [arm.name for arm in scenario.arms] == ["refusing", "census"]
    assert scenario.arms[1].config == {"capture_mode": "relaxed"}
    assert scenario.arms[1].expect == {}
    assert [lane.name for lane in scenario.lanes] == ["pooled", "bypass"]
    assert scenario.lanes[1] == Lane(
        name="bypass",
        env={"CAPTUREGATE_POOL_BYPASS": "1"},
        skip_if="pool.bypassed",
        reason="pool.bypassed holds",
        judged_in="pooled",
        where=Location(scenario.path, 11, 3),
    )
    assert [(step.id, step.times, step.args) for step in scenario.steps] == [
        ("cold_step", 1, {"requests": 1}),
        ("drain", 1, {}),
        ("capture_step", 1, {"requests": 1}),
        ("replay_step", 3, {"requests": 1}),
    ]
    assert [gate.name for gate in scenario.gates] == [
        "no-driver-allocation-in-window",
        "profile-covers-window",
        "pregrow-is-used",
        "capture-completes",
    ]


def test_a_require_and_a_check_keep_their_id_expectation_and_place(tmp_path):
    steps = load(tmp_path, DESIGN).steps

    [require] = steps[1].checks
    assert (require.id, require.counter) == ("drain.freed_bytes", "freed_bytes")
    assert (require.required, require.expectation.text) == (True, "> 0")
    assert (require.where.line, require.where.column) == (14, 23)
    [check] = steps[2].checks
    assert (check.id, check.required) == ("capture_step.captures", False)
    assert check.expectation.holds(1)
    assert not check.expectation.holds(2)


def test_every_key_can_be_placed_by_its_dotted_path(tmp_path):
    scenario = load(tmp_path, DESIGN)

    places = {
        path: (where.line, where.column)
        for path, where in scenario.where.items()
        if path in {"engine", "config.model", "steps.2.capture_step.requests", "gates.1"}
    }
    assert places == {
        "engine": (4, 1),
        "config.model": (5, 10),
        "steps.2.capture_step.requests": (15, 20),
        "gates.1": (17, 41),
    }


def test_without_lanes_and_arms_there_is_one_default_of_each(tmp_path):
    scenario = load(tmp_path, SMALL.format(name="small"))

    assert [arm.name for arm in scenario.arms] == ["default"]
    assert [(lane.name, lane.env, lane.skip_if) for lane in scenario.lanes] == [("default", {}, "")]
    assert scenario.gates == ()
    assert scenario.origin == ""


def test_steps_of_one_verb_are_numbered_whatever_ids_the_others_have(tmp_path):
    scenario = load(
        tmp_path,
        SMALL.format(name="small") + "  - drain\n  - drain: {id: last-drain}\n  - drain:\n",
    )

    assert [step.id for step in scenario.steps] == ["drain", "drain-2", "last-drain", "drain-4"]
    assert [step.verb for step in scenario.steps] == ["drain"] * 4


def test_a_gate_is_a_name_or_a_name_with_parameters(tmp_path):
    scenario = load(
        tmp_path, SMALL.format(name="small") + "gates:\n  - a-gate\n  - b-gate: {windows: 2}\n"
    )

    assert scenario.gates == (
        GateUse(name="a-gate", params={}, where=Location(scenario.path, 7, 5)),
        GateUse(name="b-gate", params={"windows": 2}, where=Location(scenario.path, 8, 5)),
    )


def test_an_arm_expects_verdicts_and_overrides_the_rest(tmp_path):
    scenario = load(
        tmp_path,
        SMALL.format(name="small")
        + "gates: [w, h]\n"
        + "arms:\n"
        + "  red:\n"
        + "    capture_mode: relaxed\n"
        + "    expect: {w: {verdict: broken, witness: DevicePool.get}, h: vacuous}\n",
    )

    [arm] = scenario.arms
    assert arm.config == {"capture_mode": "relaxed"}
    assert {gate: (e.verdict, e.witness) for gate, e in arm.expect.items()} == {
        "w": ("broken", "DevicePool.get"),
        "h": ("vacuous", ""),
    }


def test_a_lane_gives_its_reason_in_its_own_words(tmp_path):
    lanes = "lanes:\n  a:\n  b: {skip_if: p, reason: There is no pool., judged_in: a}\n"

    scenario = load(tmp_path, SMALL.format(name="small") + lanes)

    assert [lane.reason for lane in scenario.lanes] == ["", "There is no pool."]


def test_an_environment_variable_may_be_empty_text(tmp_path):
    lanes = 'lanes:\n  a: {env: {UNSET_ME: "", BLANK: " "}}\n'

    scenario = load(tmp_path, SMALL.format(name="small") + lanes)

    assert scenario.lanes[0].env == {"UNSET_ME": "", "BLANK": " "}


def test_folders_are_searched_in_order_and_a_file_comes_once(tmp_path):
    b = write(tmp_path, "b")
    a = write(tmp_path, "deep/a")
    write(tmp_path, ".hidden/c")
    (tmp_path / "other.yaml").write_text("a: 1")

    assert find_scenarios([tmp_path]) == [b, a]
    assert find_scenarios([a, tmp_path, str(b)]) == [a, b]


def test_a_path_without_a_scenario_is_an_error_that_names_it(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text("a: 1")

    with pytest.raises(InputError) as caught:
        find_scenarios([tmp_path, tmp_path / "missing", other])

    assert str(caught.value).replace(str(tmp_path), "TMP") == (
        "there is no scenario in the folder TMP\n"
        "  expected: files whose names end in .scenario.yaml\n"
        "there is no file or folder TMP/missing\n"
        "  expected: a file whose name ends in .scenario.yaml, or a folder that holds some\n"
        "TMP/other.yaml is not a scenario file\n"
        "  expected: a name that ends in .scenario.yaml"
    )


def test_two_files_may_not_give_the_same_name(tmp_path):
    first = write(tmp_path, "first", SMALL.format(name="same"))
    second = write(tmp_path, "second", SMALL.format(name="same"))

    with pytest.raises(InputError) as caught:
        load_scenarios([first, second])

    assert str(caught.value) == (
        f"{second}:1:1: scenario name 'same' is given twice\n"
        "  expected: each name in one file\n"
        f"  help: the first is at {first}:1:1"
    )


def test_the_errors_of_several_files_are_told_together(tmp_path):
    paths = [write(tmp_path, name, "a: [") for name in ("a", "b")]
    good = write(tmp_path, "good")

    with pytest.raises(InputError) as caught:
        load_scenarios([*paths, good])

    assert str(paths[0]) in str(caught.value)
    assert str(paths[1]) in str(caught.value)
    assert [s.name for s in load_scenarios([good])] == ["good"]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Registers a value of the entry point group `capturegate.scenarios`, and it alone."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def register(value: str) -> None:
        point = EntryPoint(name="mine", value=value, group="capturegate.scenarios")
        points = {"capturegate.scenarios": EntryPoints([point])}
        monkeypatch.setattr(loader, "entry_points", lambda group: points[group])

    return register


def test_shipped_scenarios_lie_in_the_package_of_an_entry_point(installed, tmp_path):
    path = write(tmp_path, "my_cg_scenarios/one")
    (tmp_path / "my_cg_scenarios" / "__init__.py").write_text("raise RuntimeError('imported')")
    installed("my_cg_scenarios")

    assert shipped_scenarios() == [path]


def test_an_entry_point_without_its_package_is_an_error_that_names_it(installed):
    installed("no_such_package.scenarios")

    with pytest.raises(InputError, match=r"'mine' are missing: there is no package 'no_such_pa"):
        shipped_scenarios()


def test_loading_a_file_runs_and_imports_nothing_of_the_engine(tmp_path):
    load(tmp_path, SMALL.format(name="small"))

    assert "my_pkg" not in sys.modules


def test_a_link_that_leads_to_itself_is_refused_with_its_path(tmp_path):
    loop = tmp_path / "loop.scenario.yaml"
    loop.symlink_to(loop.name)
    with pytest.raises(InputError) as error:
        find_scenarios([tmp_path])
    assert str(error.value) == f"{loop}: the file cannot be found: its links go in a circle"
