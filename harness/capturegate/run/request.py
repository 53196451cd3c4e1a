"""A case as JSON, and back: the whole scenario crosses the pipe, no file is read twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capturegate.errors import Location
from capturegate.scenario.grammar import parse_expectation
from capturegate.scenario.model import Arm, Case, Check, Expect, GateUse, Lane, Scenario, Step

Json = dict[str, Any]


def case_request(case: Case, seed: int = 0) -> Json:
    """The request of the target `case`."""
    return {
        "scenario": _scenario_to(case.scenario),
        "lane": case.lane.name,
        "arm": case.arm.name,
        "backend": case.backend,
        "seed": seed,
    }


def case_from_request(request: Mapping[str, Any]) -> Case:
    """The case that `case_request` wrote."""
    scenario = _scenario_from(request["scenario"])
    lanes = {lane.name: lane for lane in scenario.lanes}
    arms = {arm.name: arm for arm in scenario.arms}
    return Case(
        scenario=scenario,
        lane=lanes[request["lane"]],
        arm=arms[request["arm"]],
        backend=request["backend"],
    )


def _place(where: Location) -> list[Any]:
    return [where.path, where.line, where.column]


def _scenario_to(scenario: Scenario) -> Json:
    return {
        "name": scenario.name,
        "about": scenario.about,
        "origin": scenario.origin,
        "engine": scenario.engine,
        "config": dict(scenario.config),
        "arms": [_arm_to(arm) for arm in scenario.arms],
        "lanes": [_lane_to(lane) for lane in scenario.lanes],
        "steps": [_step_to(step) for step in scenario.steps],
        "gates": [
            {"name": use.name, "params": dict(use.params), "where": _place(use.where)}
            for use in scenario.gates
        ],
        "path": scenario.path,
        "where": {key: _place(where) for key, where in scenario.where.items()},
    }


def _arm_to(arm: Arm) -> Json:
    expect = {
        gate: {"verdict": e.verdict, "witness": e.witness, "where": _place(e.where)}
        for gate, e in arm.expect.items()
    }
    return {
        "name": arm.name,
        "config": dict(arm.config),
        "expect": expect,
        "raises": arm.raises,
        "where": _place(arm.where),
    }


def _lane_to(lane: Lane) -> Json:
    return {
        "name": lane.name,
        "env": dict(lane.env),
        "skip_if": lane.skip_if,
        "reason": lane.reason,
        "judged_in": lane.judged_in,
        "where": _place(lane.where),
    }


def _step_to(step: Step) -> Json:
    checks = [
        {
            "id": check.id,
            "counter": check.counter,
            "expectation": check.expectation.text,
            "required": check.required,
            "where": _place(check.where),
            "only": list(check.only),
        }
        for check in step.checks
    ]
    return {
        "id": step.id,
        "verb": step.verb,
        "args": dict(step.args),
        "times": step.times,
        "checks": checks,
        "where": _place(step.where),
        "only": list(step.only),
    }


def _scenario_from(data: Json) -> Scenario:
    return Scenario(
        **{
            **data,
            "arms": tuple(_arm_from(arm) for arm in data["arms"]),
            "lanes": tuple(Lane(**_placed(lane)) for lane in data["lanes"]),
            "steps": tuple(_step_from(step) for step in data["steps"]),
            "gates": tuple(GateUse(**_placed(use)) for use in data["gates"]),
            "where": {key: Location(*place) for key, place in data["where"].items()},
        }
    )


def _arm_from(data: Json) -> Arm:
    expect = {gate: Expect(**_placed(e)) for gate, e in data["expect"].items()}
    return Arm(**(_placed(data) | {"expect": expect}))


def _step_from(data: Json) -> Step:
    checks = tuple(
        Check(
            **_placed(check)
            | {
                "expectation": parse_expectation(check["expectation"]),
                "only": tuple(check["only"]),
            }
        )
        for check in data["checks"]
    )
    return Step(**(_placed(data) | {"checks": checks, "only": tuple(data["only"])}))


def _placed(data: Json) -> Json:
    return data | {"where": Location(*data["where"])}
