"""What a scenario says, held against what its engine and the gates offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capturegate.errors import InputError, Location
from capturegate.scenario.keys import STEP_KEYS
from capturegate.scenario.model import Scenario, Step
from capturegate.scenario.problems import Problems, described, unknown

_SPELLED: dict[str, str] = {
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
}
_ALIASES = {"tuple": "list", "Sequence": "list", "Mapping": "dict"}
_ACCEPTS = {"int": ("int",), "float": ("int", "float")}


def validate_against_engine(scenario: Scenario, description: Mapping[str, Any]) -> None:
    """Hold configuration, verbs, arguments and predicates against the engine's description.

    `description` is plain data: `config_keys` (name to `type` and `default`), `verbs` (name to
    arguments with `name`, `type`, `required`) and `predicates` (names).

    Raises:
        InputErrors: what the engine does not have, or has with another type.
    """
    problems = Problems()
    engine = f"engine '{scenario.engine}'"
    keys = {name: key["type"] for name, key in description["config_keys"].items()}
    _check_config(scenario, "config", scenario.config, keys, problems)
    for arm in scenario.arms:
        _check_config(scenario, f"arms.{arm.name}", arm.config, keys, problems)
    for lane in scenario.lanes:
        if lane.skip_if and lane.skip_if not in description["predicates"]:
            where = _place(scenario, f"lanes.{lane.name}.skip_if")
            known = description["predicates"]
            problems.add(unknown("predicate", lane.skip_if, known, where=where, within=engine))
    for index, step in enumerate(scenario.steps):
        arguments = description["verbs"].get(step.verb)
        if arguments is None:
            known = description["verbs"]
            problems.add(unknown("verb", step.verb, known, where=step.where, within=engine))
        else:
            _check_arguments(scenario, index, step, arguments, problems)
    problems.raise_any()


def validate_gates(scenario: Scenario, gates: Mapping[str, Mapping[str, Any]]) -> None:
    """Hold the gates that a scenario names against those that exist.

    `gates` maps a gate's name to `{"code": code, "params": {name: type name}}`.

    Raises:
        InputErrors: a gate or parameter that does not exist, or a value of another type.
    """
    problems = Problems()
    for index, use in enumerate(scenario.gates):
        if use.name not in gates:
            problems.add(_unknown_gate(use.name, gates, use.where))
            continue
        params = gates[use.name]["params"]
        within = f"gate '{use.name}'"
        for name, value in use.params.items():
            where = _place(scenario, f"gates.{index}.{use.name}.{name}")
            if name not in params:
                problems.add(unknown("parameter", name, params, where=where, within=within))
            else:
                what = f"parameter '{name}' of {within}"
                _check_type(what, value, params[name], where, problems)
    for arm in scenario.arms:
        for gate, expect in arm.expect.items():
            if gate not in gates:
                within = f"'expect' of arm '{arm.name}'"
                problems.add(_unknown_gate(gate, gates, expect.where, within))
    problems.raise_any()


def _unknown_gate(
    name: str, gates: Mapping[str, Mapping[str, Any]], where: Location, within: str = ""
) -> InputError:
    """A code is how reports call a gate, and may well be what somebody writes for its name."""
    error = unknown("gate", name, gates, where=where, within=within)
    for gate, shape in gates.items():
        if shape.get("code") == name.upper():
            hint = f"{name.upper()} is {gate}; a scenario names gates by their names"
            return InputError(error.problem, where=where, expected=error.expected, hint=hint)
    return error


def _check_config(
    scenario: Scenario,
    path: str,
    config: Mapping[str, Any],
    keys: Mapping[str, str],
    problems: Problems,
) -> None:
    within = f"engine '{scenario.engine}'"
    for key, value in config.items():
        where = _place(scenario, f"{path}.{key}")
        if key not in keys:
            error = unknown("configuration key", key, keys, where=where, within=within)
            problems.add(error)
        else:
            _check_type(f"configuration key '{key}'", value, keys[key], where, problems)


def _check_arguments(
    scenario: Scenario,
    index: int,
    step: Step,
    arguments: list[dict[str, Any]],
    problems: Problems,
) -> None:
    types = {argument["name"]: argument["type"] for argument in arguments}
    within = f"step '{step.id}'"
    for name, value in step.args.items():
        where = _place(scenario, f"steps.{index}.{step.verb}.{name}")
        if name not in types:
            problems.add(unknown("key", name, STEP_KEYS | set(types), where=where, within=within))
        else:
            _check_type(f"argument '{name}' of {within}", value, types[name], where, problems)
    for argument in arguments:
        if argument["required"] and argument["name"] not in step.args:
            problems.add(
                InputError(
                    f"{within} lacks the argument '{argument['name']}'",
                    where=step.where,
                    expected=_SPELLED.get(argument["type"], "a value"),
                )
            )


def _check_type(
    what: str, value: object, type_name: str, where: Location, problems: Problems
) -> None:
    """Types that no YAML value has by name, such as unions, are the engine's own to check."""
    wanted = _ALIASES.get(type_name, type_name)
    found = type(value).__name__
    if wanted in _SPELLED and found not in _ACCEPTS.get(wanted, (wanted,)):
        problems.add(
            InputError(f"{what} is {described(value)}", where=where, expected=_SPELLED[wanted])
        )


def _place(scenario: Scenario, path: str) -> Location:
    """Where a dotted path stands, or else the nearest key around it, or the engine's."""
    while path and path not in scenario.where:
        path = path.rpartition(".")[0]
    return scenario.where[path or "engine"]
