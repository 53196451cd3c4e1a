"""The editors' schema and the loader say the same language."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from capturegate.errors import InputError
from capturegate.run.result import Verdict
from capturegate.scenario.keys import (
    ARM_KEYS,
    EXPECT_KEYS,
    LANE_KEYS,
    REQUIRED_KEYS,
    SCENARIO_KEYS,
    STEP_KEYS,
)
from capturegate.scenario.loader import load_scenario

PACKAGE = Path(str(files("capturegate_scenarios")))
SCHEMA = json.loads((PACKAGE / "scenario.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SHIPPED = sorted(PACKAGE.rglob("*.scenario.yaml"))

FULL = """\
scenario: full
about: Every key that there is.
origin: a report
engine: my_pkg.adapters:Full
config: {model: dense, sizes: [1, 2]}
arms:
  green:
  red: {mode: relaxed, expect: {w: {verdict: broken, witness: pool.get}, h: vacuous}}
lanes:
  a: {}
  b: {env: {X: "1"}, skip_if: p, reason: none here, judged_in: a}
steps:
  - drain
  - drain:
  - step:
      {n: 1, id: s, times: 3, only: [a], require: {x: "> 0"}, check: {y: 1, z: true, r: 1..2}}
gates: [w, h: {windows: 1}]
"""


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("loader", "schema"),
    [
        (SCENARIO_KEYS, SCHEMA["properties"]),
        (REQUIRED_KEYS, SCHEMA["required"]),
        (STEP_KEYS, SCHEMA["$defs"]["step"]["properties"]),
        (ARM_KEYS, SCHEMA["$defs"]["arm"]["properties"]),
        (LANE_KEYS, SCHEMA["$defs"]["lane"]["properties"]),
        (EXPECT_KEYS, SCHEMA["$defs"]["expect"]["anyOf"][1]["properties"]),
        ([verdict.value for verdict in Verdict], SCHEMA["$defs"]["verdict"]["enum"]),
    ],
    ids=["scenario", "required", "step", "arm", "lane", "expect", "verdicts"],
)
def test_loader_and_schema_know_the_same_keys(loader, schema):
    assert sorted(loader) == sorted(schema)


def test_there_are_shipped_scenarios_to_hold_against_the_schema():
    assert SHIPPED != []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_scenario_is_as_the_schema_says(path):
    VALIDATOR.validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    load_scenario(path)


def test_a_scenario_with_every_key_passes_loader_and_schema(tmp_path):
    path = tmp_path / "full.scenario.yaml"
    path.write_text(FULL)
    said = yaml.safe_load(FULL)

    assert load_scenario(path).name == "full"
    assert [error.message for error in VALIDATOR.iter_errors(said)] == []
    assert sorted(said) == sorted(SCHEMA["properties"])


@pytest.mark.parametrize(
    ("written", "taken"),
    [
        ("1", True),
        ("-1.5", True),
        ("true", True),
        ("replay", True),
        ("pool miss", True),
        ("'> 0'", True),
        ("'>=3'", True),
        ("'!= 2'", True),
        ("3..7", True),
        ("'1'", False),
        ("'true'", False),
        ("'== 1'", False),
        ("'> x'", False),
        ("'3..'", False),
        ("[1]", False),
        ("{a: 1}", True),
        ("{green: '> 0', red: replay}", True),
        ("{}", False),
        ("{a: [1]}", False),
        ("{a: {b: 1}}", False),
        ("''", False),
    ],
)
def test_loader_and_schema_take_the_same_expectations(tmp_path, written, taken):
    text = FULL.replace("y: 1", f"y: {written}")
    path = tmp_path / "f.scenario.yaml"
    path.write_text(text)
    try:
        loaded = bool(load_scenario(path))
    except InputError:
        loaded = False

    assert (taken, taken) == (loaded, VALIDATOR.is_valid(yaml.safe_load(text)))


REFUSED = Path(__file__).parent / "refusals"


@pytest.mark.parametrize(
    "name",
    [
        *("unknown-key", "unknown-lane-key", "unknown-expect-key", "missing-steps"),
        *("empty-steps", "empty-gates", "empty-arms", "empty-check", "times-zero", "times-a-word"),
        *("bad-expectation", "wrong-expected-verdict", "expected-verdict-missing"),
        *("witness-of-no-break", "skip-without-judged-in", "judged-in-without-skip"),
        *("env-is-a-number", "env-name-with-equals", "step-with-two-verbs", "about-is-blank"),
        *("name-with-brackets", "arm-name-with-slash", "engine-with-spaces"),
        *("only-a-word", "only-empty", "expectation-for-no-arm", "expectation-within-an-arm"),
    ],
)
def test_an_editor_sees_what_the_loader_refuses(name):
    said = yaml.safe_load((REFUSED / f"{name}.scenario.yaml").read_text(encoding="utf-8"))

    assert not VALIDATOR.is_valid(said)
