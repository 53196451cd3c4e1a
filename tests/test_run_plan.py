import pytest

from capturegate.errors import InputError
from capturegate.gates.registry import all_gates
from capturegate.run.plan import (
    Selection,
    case_task,
    check_usable,
    engine_package,
    expand,
    load,
    make_plan,
    validate,
)
from capturegate.run.pool import Pool

SCENARIO = """
scenario: {name}
about: Something.
engine: {engine}
arms: {{x: {{}}, "y": {{}}}}
lanes: {{a: {{}}, b: {{env: {{SWITCH: "1"}}}}}}
steps:
  - grow: {{check: {{count: 1}}}}
"""


def scenarios(folder, *names, engine="toy:Toy"):
    for name in names:
        path = folder / f"{name}.scenario.yaml"
        path.write_text(SCENARIO.format(name=name, engine=engine))
    return load([folder])


def names(plan):
    return [case.name for case in plan.cases]


def test_a_scenario_has_a_case_for_each_lane_and_arm_in_order(tmp_path):
    plan = make_plan(scenarios(tmp_path, "one", "two"), "fake", Selection())
    assert names(plan) == [
        "one[a/x]",
        "one[a/y]",
        "one[b/x]",
        "one[b/y]",
        "two[a/x]",
        "two[a/y]",
        "two[b/x]",
        "two[b/y]",
    ]
    assert plan.unfiltered


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(lanes=("b",)), ["one[b/x]", "one[b/y]"]),
        (Selection(arms=("y",)), ["one[a/y]", "one[b/y]"]),
        (Selection(lanes=("a", "b"), arms=("x",)), ["one[a/x]", "one[b/x]"]),
        (Selection(keyword="a/x or b/y"), ["one[a/x]", "one[b/y]"]),
        (Selection(keyword="not a/", arms=("x",)), ["one[b/x]"]),
    ],
)
def test_a_selection_chooses_and_makes_the_run_filtered(tmp_path, selection, expected):
    plan = make_plan(scenarios(tmp_path, "one"), "fake", selection)
    assert (names(plan), plan.unfiltered) == (expected, False)


def test_a_selection_of_nothing_says_what_there_is(tmp_path):
    with pytest.raises(InputError) as error:
        make_plan(scenarios(tmp_path, "one"), "fake", Selection(keyword="a/x", lanes=("b",)))
    assert str(error.value) == (
        "-k 'a/x' --lane b selects none of the 4 cases\n"
        "  expected: ids such as one[a/x]@fake, one[a/y]@fake, one[b/x]@fake\n"
        "  help: `capturegate list` prints every case"
    )


@pytest.mark.parametrize(
    ("backend", "spawn", "preload"),
    [("fake", False, ("capturegate_backends.fake.device",)), ("cupy", True, ())],
)
def test_a_fake_case_forks_and_a_real_one_never_does(tmp_path, backend, spawn, preload):
    case = expand(scenarios(tmp_path, "one", engine="toy.adapters:Toy"), backend)[2]
    task = case_task(case, {"a": 1}, 5.0)
    assert (task.target, task.request, task.time_limit_s) == ("case", {"a": 1}, 5.0)
    assert (task.spawn, task.preload) == (spawn, preload)
    assert (task.env, task.absent) == ({"SWITCH": "1"}, ("toy",))


def test_the_package_of_an_engine_is_known_without_importing_it():
    assert engine_package("my_pkg.deep.adapters:Thing") == "my_pkg"
    assert engine_package("reference.decode") == "capturegate_reference"
    assert engine_package("nobody") == ""


def test_an_engine_that_kills_its_process_is_the_users_to_mend(tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text("import os\nos.abort()\n")
    monkeypatch.chdir(tmp_path)
    loaded = scenarios(tmp_path, "one", engine="deadly:Toy")
    with Pool(workers=1) as pool, pytest.raises(InputError) as error:
        validate(loaded, pool, all_gates())
    said = "engine 'deadly:Toy' cannot be imported: the process died by SIGABRT"
    assert said in str(error.value)


def test_an_import_that_does_not_end_is_told_with_its_engine(tmp_path, monkeypatch):
    (tmp_path / "endless.py").write_text("import signal\nwhile True:\n    signal.pause()\n")
    monkeypatch.chdir(tmp_path)
    loaded = scenarios(tmp_path, "one", engine="endless:Toy")
    with Pool(workers=1) as pool, pytest.raises(InputError) as error:
        validate(loaded, pool, all_gates(), time_limit_s=0.2)
    said = "engine 'endless:Toy' cannot be imported: still running after 0.2 s, and killed"
    assert said in str(error.value)


@pytest.mark.parametrize("name", ["types", "yaml", "numpy"])
def test_a_package_with_a_name_that_is_loaded_already_is_told_that_it_is_taken(tmp_path, name):
    loaded = scenarios(tmp_path, "one", engine=f"{name}:Toy")
    with Pool(workers=1) as pool, pytest.raises(InputError) as error:
        validate(loaded, pool, all_gates())
    assert f"engine '{name}:Toy': the name '{name}' is taken" in str(error.value)


def test_a_backend_that_does_not_work_here_is_refused_with_its_own_words():
    with Pool(workers=1) as pool:
        check_usable("fake", pool)
        with pytest.raises(InputError, match="unknown backend 'fak'"):
            check_usable("fak", pool)


def test_the_mistakes_of_all_scenarios_are_told_at_once(tmp_path):
    loaded = scenarios(tmp_path, "one", "two", engine="no_such_module_here:Toy")
    with Pool(workers=1) as pool, pytest.raises(InputError) as error:
        validate(loaded, pool, all_gates())
    said = str(error.value)
    assert said.count("engine 'no_such_module_here:Toy' cannot be imported") == 2


def test_a_folder_without_scenarios_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no scenario in the folder"):
        load([tmp_path])
