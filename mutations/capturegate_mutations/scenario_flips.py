"""Flips on how a scenario is built: made on the loaded scenario, never on its file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from capturegate.scenario.model import Arm, Case, Scenario, Step
from capturegate_mutations.plan import ScenarioFlip
from capturegate_mutations.source import InvalidFlip


def flip_cases(cases: Sequence[Case], flips: Iterable[ScenarioFlip]) -> list[Case]:
    """The cases with the flips made on their scenarios.

    Raises:
        InvalidFlip: a flip finds nothing to flip, or changes nothing.
    """
    flipped = list(cases)
    for flip in flips:
        names = {case.scenario.name for case in flipped}
        if flip.scenario not in names:
            known = ", ".join(sorted(names))
            close = difflib.get_close_matches(flip.scenario, names, n=1)
            raise InvalidFlip(
                f"no scenario '{flip.scenario}'",
                expected=f"one of {known}",
                hint=f"did you mean '{close[0]}'?" if close else "",
            )
        done: dict[int, Scenario] = {}
        for number, case in enumerate(flipped):
            if case.scenario.name != flip.scenario:
                continue
            before = case.scenario
            after = done.setdefault(id(before), flip_scenario(before, flip))
            arm = next(arm for arm in after.arms if arm.name == case.arm.name)
            flipped[number] = replace(case, scenario=after, arm=arm)
    return flipped


def flip_scenario(scenario: Scenario, flip: ScenarioFlip) -> Scenario:
    """A scenario with one flip made.

    Raises:
        InvalidFlip: the flip finds nothing to flip, or changes nothing.
    """
    match flip.action:
        case "remove_step":
            steps = tuple(step for step in scenario.steps if step.id != flip.name)
            after = replace(scenario, steps=steps)
        case "remove_check":
            after = replace(
                scenario,
                steps=tuple(
                    replace(step, checks=tuple(c for c in step.checks if c.id != flip.name))
                    for step in scenario.steps
                ),
            )
        case "remove_gate":
            gates = tuple(use for use in scenario.gates if use.name != flip.name)
            arms = tuple(_without_expect(arm, flip.name) for arm in scenario.arms)
            after = replace(scenario, gates=gates, arms=arms)
        case "set_config":
            arms = tuple(_with_config(arm, flip) for arm in scenario.arms)
            config = dict(scenario.config) | dict(flip.values)
            after = replace(scenario, config=config, arms=arms)
        case "set_times":
            after = replace(scenario, steps=tuple(_with_times(s, flip) for s in scenario.steps))
            unknown = sorted(set(flip.values) - {step.id for step in scenario.steps})
            if unknown:
                raise _nothing_to_flip(scenario, flip, unknown[0])
    if after == scenario:
        raise _nothing_to_flip(scenario, flip, flip.name or ", ".join(flip.values))
    return after


def _nothing_to_flip(scenario: Scenario, flip: ScenarioFlip, what: str) -> InvalidFlip:
    steps = ", ".join(step.id for step in scenario.steps)
    return InvalidFlip(
        f"'{flip.action}: {what}' changes nothing in scenario '{scenario.name}'",
        expected="something that the scenario has, and another value than it has",
        hint=f"its steps are {steps}",
    )


def _without_expect(arm: Arm, gate: str) -> Arm:
    return replace(arm, expect={name: e for name, e in arm.expect.items() if name != gate})


def _with_config(arm: Arm, flip: ScenarioFlip) -> Arm:
    """An arm's own value of a key that is set would win over the scenario's."""
    config = {name: flip.values.get(name, value) for name, value in arm.config.items()}
    return replace(arm, config=config)


def _with_times(step: Step, flip: ScenarioFlip) -> Step:
    times = flip.values.get(step.id, step.times)
    return replace(step, times=int(times))
