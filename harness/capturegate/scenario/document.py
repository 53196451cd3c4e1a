"""From the nodes of a scenario file to a scenario; every complaint names its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from capturegate.errors import InputError, Location
from capturegate.scenario.keys import ENGINE, NAME, NAME_SPELLED, REQUIRED_KEYS, SCENARIO_KEYS
from capturegate.scenario.model import Case, Check, Lane, Scenario, Step
from capturegate.scenario.nodes import Node, check_keys
from capturegate.scenario.problems import Problems, unknown
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
    _check_only(scenario, problems)
    problems.raise_any()
    _check_cases(scenario, problems)
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


def _check_only(scenario: Scenario, problems: Problems) -> None:
    """What steps and checks are for has to be there, and be of one kind: all arms, or all lanes."""
    # The arm or lane of a file that writes none has a name that nobody wrote.
    arms = {arm.name for arm in scenario.arms if "arms" in scenario.where}
    lanes = {lane.name: lane for lane in scenario.lanes if "lanes" in scenario.where}
    for index, step in enumerate(scenario.steps):
        places = [
            (name, scenario.where[f"steps.{index}.{step.verb}.only.{number}"])
            for number, name in enumerate(step.only)
        ]
        _check_names(f"'only' of step '{step.id}'", places, arms, lanes, problems)
        by_id: dict[str, list[tuple[str, Location]]] = {}
        for check in step.checks:
            by_id.setdefault(check.id, []).extend((name, check.where) for name in check.only)
        for check_id, places in by_id.items():
            what = f"the expectations of '{check_id}'"
            _check_names(what, places, arms, lanes, problems)


def _check_names(
    what: str,
    places: list[tuple[str, Location]],
    arms: set[str],
    lanes: dict[str, Lane],
    problems: Problems,
) -> None:
    known, kinds = arms | lanes.keys(), set()
    names = {name for name, _ in places}
    for name, where in places:
        if name not in known:
            problems.add(unknown("arm or lane", name, known, where=where, within=what))
        elif name in arms and name in lanes:
            problems.add(
                InputError(
                    f"'{name}' in {what} is an arm and a lane",
                    where=where,
                    expected="another name for one of the two",
                )
            )
        else:
            kinds.add(name in arms)
            if name in lanes and lanes[name].skip_if and lanes[name].judged_in not in names:
                problems.add(
                    InputError(
                        f"lane '{name}' in {what} may be skipped",
                        where=where,
                        expected=f"lane '{lanes[name].judged_in}' beside it, which judges instead",
                    )
                )
    if len(kinds) > 1:
        problems.add(
            InputError(
                f"arms and lanes are mixed in {what}",
                where=places[0][1],
                expected="one of the two, so that each case is meant once",
            )
        )


def _check_cases(scenario: Scenario, problems: Problems) -> None:
    """Each case has something to do, and something that can turn it red."""
    if not scenario.gates and not any(step.checks for step in scenario.steps):
        problems.add(
            InputError(
                f"scenario '{scenario.name}' can never be red: it names no gate and no check",
                where=scenario.where["scenario"],
                expected="'gates', or a 'check' or 'require' in some step",
            )
        )
        return
    for lane in scenario.lanes:
        for arm in scenario.arms:
            case = Case(scenario=scenario, lane=lane, arm=arm, backend="")
            if not any(case.takes(step.only) for step in scenario.steps):
                problems.add(
                    InputError(
                        f"case {case.name} takes no step",
                        where=arm.where,
                        expected="a step that is for it, or that has no 'only'",
                    )
                )
            elif not scenario.gates and not any(step.checks for step in case.steps):
                problems.add(
                    InputError(
                        f"case {case.name} can never be red: no gate and no check is for it",
                        where=arm.where,
                        expected="'gates', or a 'check' or 'require' that is for it",
                    )
                )
    for step in scenario.steps:
        for check in step.checks:
            _check_taken(scenario, step, check, problems)


def _check_taken(scenario: Scenario, step: Step, check: Check, problems: Problems) -> None:
    """A check is for some case that takes its step."""
    if not step.only or not check.only or set(step.only) & set(check.only):
        return
    arms = {arm.name for arm in scenario.arms}
    if (step.only[0] in arms) is (check.only[0] in arms):
        problems.add(
            InputError(
                f"'{check.id}' is for {check.only[0]}, which does not take the step",
                where=check.where,
                expected=f"one of {', '.join(step.only)}",
            )
        )


def _name(node: Node) -> str:
    return node.word("a scenario's name", NAME, NAME_SPELLED)


def _engine(node: Node) -> str:
    return node.word("'engine'", ENGINE, "a registered engine's name, or package.module:Class")


def _config(node: Node) -> dict[str, object]:
    return {key: item.plain() for key, item in node.mapping("'config'").items()}
