"""From the nodes of a scenario file to a scenario; every complaint names its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from capturegate.errors import InputError
from capturegate.scenario.keys import ENGINE, NAME, NAME_SPELLED, REQUIRED_KEYS, SCENARIO_KEYS
from capturegate.scenario.model import Scenario
from capturegate.scenario.nodes import Node, check_keys
from capturegate.scenario.problems import Problems
from capturegate.scenario.steps import read_gates, read_steps
from capturegate.scenario.variants import default_arm, default_lane, read_arms, read_lanes

T = TypeVar("T")


def scenario_from(root: Node) -> Scenario:
    """The scenario that a file's root node says.

    Raises:
        InputErrors: what is wrong with it, as far as it can be told in one go.
    """
    problems = Problems()
    fields = root.mapping("a scenario file")
    check_keys(fields, SCENARIO_KEYS, "a scenario", problems)
    if missing := [f"'{key}'" for key in REQUIRED_KEYS if key not in fields]:
        problems.add(
            InputError(
                f"a scenario needs {', '.join(missing)}, and there is no such key",
                where=root.where,
                expected=f"at least the keys {', '.join(REQUIRED_KEYS)}",
            )
        )

    def read(key: str, default: T, reader: Callable[[Node], T]) -> T:
        return problems.take(default, reader, fields[key]) if key in fields else default

    scenario = Scenario(
        name=read("scenario", "", _name),
        about=read("about", "", lambda node: node.text("'about'")),
        origin=read("origin", "", lambda node: node.text("'origin'")),
        engine=read("engine", "", _engine),
        config=read("config", {}, _config),
        arms=read("arms", (default_arm(root),), lambda node: read_arms(node, problems)),
        lanes=read("lanes", (default_lane(root),), lambda node: read_lanes(node, problems)),
        steps=read("steps", (), lambda node: read_steps(node, problems)),
        gates=read("gates", (), lambda node: read_gates(node, problems)),
        path=root.where.path,
        where=root.places(),
    )
    problems.raise_any()
    _check_whole(scenario, problems)
    problems.raise_any()
    return scenario


def _check_whole(scenario: Scenario, problems: Problems) -> None:
    """What takes more than one part of the file to see."""
    if not scenario.gates and not any(step.checks for step in scenario.steps):
        problems.add(
            InputError(
                f"scenario '{scenario.name}' can never be red: it names no gate and no check",
                where=scenario.where["scenario"],
                expected="'gates', or a 'check' or 'require' in some step",
            )
        )
    named = {use.name for use in scenario.gates}
    for arm in scenario.arms:
        for gate, expect in arm.expect.items():
            if gate not in named:
                problems.add(
                    InputError(
                        f"arm '{arm.name}' expects {expect.verdict} of gate '{gate}', "
                        "which 'gates' does not name",
                        where=expect.where,
                        expected=f"one of {', '.join(sorted(named))}" if named else "",
                        hint="add the gate to 'gates', or correct its name",
                    )
                )


def _name(node: Node) -> str:
    return node.word("a scenario's name", NAME, NAME_SPELLED)


def _engine(node: Node) -> str:
    return node.word("'engine'", ENGINE, "a registered engine's name, or package.module:Class")


def _config(node: Node) -> dict[str, object]:
    return {key: item.plain() for key, item in node.mapping("'config'").items()}
