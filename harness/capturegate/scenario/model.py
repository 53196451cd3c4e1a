"""What a scenario file says, loaded: plain values with the places they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from capturegate.errors import Location
from capturegate.scenario.grammar import Expectation

DEFAULT_LANE = "default"
DEFAULT_ARM = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One counted assertion of a step.

    `id` is `<step id>.<counter>`; `required` says that its failure stops the case. `only` names
    the arms, or the lanes, whose cases it is for; it is for all of them when that is empty.
    """

    id: str
    counter: str
    expectation: Expectation
    required: bool
    where: Location
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One verb call: `times` runs of it, each with the same arguments.

    `id` is unique in the scenario: the verb's name, with `-2` and so on from the second on, or
    what the file says. The checks are judged over all `times` runs together; where their `only`
    differs, several may have one id. `only` names the arms, or the lanes, whose cases take the
    step; all of them do when that is empty.
    """

    id: str
    verb: str
    args: Mapping[str, Any]
    times: int
    checks: tuple[Check, ...]
    where: Location
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateUse:
    """A gate that the scenario names, with the gate's own parameters."""

    name: str
    params: Mapping[str, Any]
    where: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """An expected verdict other than held.

    `witness`, when given, is the dotted end of a function's name that has to stand in the
    witness's stack, such as `DevicePool.get`.
    """

    verdict: str
    witness: str
    where: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One variant of the configuration, and the verdicts that are expected of it.

    `raises` is the type of an engine's own exception that is expected to end the case. An
    exception that comes from the refused call in an expected gate's witness needs no mention.
    """

    name: str
    config: Mapping[str, Any]
    expect: Mapping[str, Expect]
    where: Location
    raises: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One environment: variables, and when and why its cases are skipped.

    `skip_if` names a predicate of the adapter; `judged_in` the lane that judges the same
    guarantee; `reason` is said with every skip.
    """

    name: str
    env: Mapping[str, str]
    skip_if: str
    reason: str
    judged_in: str
    where: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario file."""

    name: str
    about: str
    origin: str
    engine: str
    config: Mapping[str, Any]
    arms: tuple[Arm, ...]
    lanes: tuple[Lane, ...]
    steps: tuple[Step, ...]
    gates: tuple[GateUse, ...]
    path: str
    where: Mapping[str, Location] = field(default_factory=dict)
    """Places of keys by dotted path: `engine`, `config.model`, `steps.0.capture_step.requests`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One scenario in one lane and arm on one backend."""

    scenario: Scenario
    lane: Lane
    arm: Arm
    backend: str

    @property
    def name(self) -> str:
        """`scenario[lane/arm]`, as mutation plans write it."""
        return f"{self.scenario.name}[{self.lane.name}/{self.arm.name}]"

    @property
    def id(self) -> str:
        """`scenario[lane/arm]@backend`, unique in a run."""
        return f"{self.name}@{self.backend}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that this case takes, with the checks that are for it."""
        return tuple(
            replace(step, checks=tuple(check for check in step.checks if self.takes(check.only)))
            for step in self.scenario.steps
            if self.takes(step.only)
        )

    def takes(self, only: tuple[str, ...]) -> bool:
        """Whether the case is among those that a step or a check is for."""
        return not only or self.arm.name in only or self.lane.name in only
