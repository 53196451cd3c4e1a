from __future__ import annotations

import pytest

from capturegate.errors import InputError, InputErrors
from capturegate.scenario.loader import load_scenario
from capturegate.scenario.problems import unknown
from capturegate.scenario.validate import validate_against_engine, validate_gates

ENGINE = {
    "config_keys": {
        "model": {"type": "str", "default": "dense"},
        "max_num_seqs": {"type": "int", "default": 8},
        "scale": {"type": "float", "default": 1.0},
        "async_executor": {"type": "bool", "default": False},
        "sizes": {"type": "tuple", "default": ()},
        "table": {"type": "Mapping", "default": {}},
        "anything": {"type": "any", "default": None},
    },
    "verbs": {
        "drain": [],
        "cold_step": [{"name": "requests", "type": "int", "required": False}],
        "get": [
            {"name": "nbytes", "type": "int", "required": True},
            {"name": "name", "type": "str", "required": True},
        ],
    },
    "predicates": ["pool.bypassed"],
}
GATES = {
    "capture-completes": {"code": "CG004", "params": {"windows": "int"}},
    "replay-matches-eager": {"code": "CG001", "params": {}},
}


@pytest.fixture
def scenario_of(tmp_path):
    def load(*, config="{}", steps="[drain]", tail=""):
        path = tmp_path / "f.scenario.yaml"
        path.write_text(
            "scenario: small\nabout: x\nengine: e\n"
            f"config: {config}\nsteps: {steps}\n{tail or 'gates: [capture-completes]'}\n"
        )
        return load_scenario(path)

    return load


def complaint(validate, scenario, offered) -> str:
    with pytest.raises(InputErrors) as caught:
        validate(scenario, offered)
    return str(caught.value).replace(scenario.path, "f.yaml")


def test_what_the_engine_offers_passes(scenario_of):
    scenario = scenario_of(
        config="{model: moe, max_num_seqs: 4, scale: 2, async_executor: true, sizes: [1], "
        "table: {a: 1}, anything: [{}]}",
        steps="[drain, cold_step: {requests: 2, times: 3}, get: {nbytes: 8, name: a}]",
        tail="gates: [capture-completes: {windows: 2}]\n"
        "arms: {red: {scale: 1.5, expect: {capture-completes: broken}}}\n"
        "lanes: {a: {}, b: {skip_if: pool.bypassed, judged_in: a}}",
    )

    validate_against_engine(scenario, ENGINE)
    validate_gates(scenario, GATES)


def test_an_unknown_configuration_key_is_told_with_the_nearest(scenario_of):
    assert complaint(validate_against_engine, scenario_of(config="{modle: moe}"), ENGINE) == (
        "f.yaml:4:10: unknown configuration key 'modle' in engine 'e'\n"
        "  expected: one of anything, async_executor, max_num_seqs, model, scale, sizes, table\n"
        "  help: did you mean 'model'?"
    )


@pytest.mark.parametrize(
    ("key", "written", "found", "expected"),
    [
        ("model", "1", "the number 1", "text"),
        ("model", "true", "the boolean true", "text"),
        ("model", "", "empty", "text"),
        ("max_num_seqs", "true", "the boolean true", "an integer"),
        ("max_num_seqs", "1.5", "the number 1.5", "an integer"),
        ("max_num_seqs", "'8'", "the text '8'", "an integer"),
        ("scale", "false", "the boolean false", "a number"),
        ("async_executor", "0", "the number 0", "true or false"),
        ("sizes", "{}", "a mapping", "a list"),
        ("table", "[]", "a list", "a mapping"),
    ],
)
def test_a_configuration_value_of_another_type_is_refused(
    scenario_of, key, written, found, expected
):
    scenario = scenario_of(config=f"{{{key}: {written}}}")

    assert complaint(validate_against_engine, scenario, ENGINE) == (
        f"f.yaml:4:10: configuration key '{key}' is {found}\n  expected: {expected}"
    )


def test_an_arms_overrides_are_held_against_the_engine_too(scenario_of):
    scenario = scenario_of(tail="gates: [capture-completes]\narms: {a.b: {scale: big, x: 1}}")

    assert complaint(validate_against_engine, scenario, ENGINE).splitlines()[::2] == [
        "f.yaml:7:14: configuration key 'scale' is the text 'big'",
        "f.yaml:7:26: unknown configuration key 'x' in engine 'e'",
    ]


def test_an_unknown_verb_is_told_with_the_nearest(scenario_of):
    assert complaint(validate_against_engine, scenario_of(steps="[drian]"), ENGINE) == (
        "f.yaml:5:9: unknown verb 'drian' in engine 'e'\n"
        "  expected: one of cold_step, drain, get\n"
        "  help: did you mean 'drain'?"
    )


def test_an_unknown_key_of_a_step_is_told_with_the_nearest(scenario_of):
    scenario = scenario_of(steps="[drain: {chek: {freed_bytes: 1}}]")

    assert complaint(validate_against_engine, scenario, ENGINE) == (
        "f.yaml:5:17: unknown key 'chek' in step 'drain'\n"
        "  expected: one of check, id, only, require, times\n"
        "  help: did you mean 'check'?"
    )


def test_a_missing_and_a_wrongly_typed_argument_are_told_together(scenario_of):
    assert complaint(validate_against_engine, scenario_of(steps="[get: {name: 3}]"), ENGINE) == (
        "f.yaml:5:9: step 'get' lacks the argument 'nbytes'\n"
        "  expected: an integer\n"
        "f.yaml:5:15: argument 'name' of step 'get' is the number 3\n"
        "  expected: text"
    )


def test_an_unknown_predicate_is_told_at_its_lane(scenario_of):
    scenario = scenario_of(
        tail="gates: [capture-completes]\n"
        "lanes:\n  a: {}\n  b: {skip_if: pool.bypased, judged_in: a}"
    )

    assert complaint(validate_against_engine, scenario, ENGINE) == (
        "f.yaml:9:7: unknown predicate 'pool.bypased' in engine 'e'\n"
        "  expected: one of pool.bypassed\n"
        "  help: did you mean 'pool.bypassed'?"
    )


def test_an_unknown_gate_is_told_where_it_is_named_and_where_it_is_expected(scenario_of):
    scenario = scenario_of(
        tail="gates: [capture-complets]\narms: {red: {expect: {capture-complets: broken}}}"
    )

    expected = (
        "  expected: one of capture-completes, replay-matches-eager\n"
        "  help: did you mean 'capture-completes'?"
    )
    assert complaint(validate_gates, scenario, GATES) == (
        f"f.yaml:6:9: unknown gate 'capture-complets'\n{expected}\n"
        f"f.yaml:7:23: unknown gate 'capture-complets' in 'expect' of arm 'red'\n{expected}"
    )


@pytest.mark.parametrize("code", ["CG004", "cg004"])
def test_a_gate_that_is_named_by_its_code_is_told_by_its_name(scenario_of, code):
    scenario = scenario_of(tail=f"gates: [{code}]\narms: {{red: {{expect: {{{code}: broken}}}}}}")

    expected = (
        "  expected: one of capture-completes, replay-matches-eager\n"
        "  help: CG004 is capture-completes; a scenario names gates by their names"
    )
    assert complaint(validate_gates, scenario, GATES) == (
        f"f.yaml:6:9: unknown gate '{code}'\n{expected}\n"
        f"f.yaml:7:23: unknown gate '{code}' in 'expect' of arm 'red'\n{expected}"
    )


def test_parameters_of_a_gate_are_held_against_its_own(scenario_of):
    scenario = scenario_of(
        tail="gates: [capture-completes: {windows: two}, replay-matches-eager: {rows: 1}]"
    )

    assert complaint(validate_gates, scenario, GATES) == (
        "f.yaml:6:29: parameter 'windows' of gate 'capture-completes' is the text 'two'\n"
        "  expected: an integer\n"
        "f.yaml:6:67: unknown parameter 'rows' in gate 'replay-matches-eager'\n"
        "  expected: no parameter at all"
    )


def test_a_name_that_nobody_knows_says_what_it_could_have_been():
    error = unknown("lane", "poled", ["bypass", "pooled"])

    assert isinstance(error, InputError)
    assert str(error) == (
        "unknown lane 'poled'\n  expected: one of bypass, pooled\n  help: did you mean 'pooled'?"
    )
