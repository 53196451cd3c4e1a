"""What an experiment file says, and what an experiment comes to."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capturegate.scenario.grammar import Expectation
from capturegate.scenario.model import Scenario

AS_IS = "as-is"
"""The code as it stands, where the code is the variable."""
CONTROL = "control"
TREATMENT = "treatment"
ARMS = (CONTROL, TREATMENT)

Conditions = Mapping[str, Expectation]
"""Readings, such as `serve.ok`, with what they have to be."""


class Kind(enum.StrEnum):
    """What the variable is."""

    CONFIG = "config"
    ENV = "env"
    CODE = "code"


class Reading(enum.StrEnum):
    """What an outcome of the treatment says about the claim; registered before the run."""

    PROVES = "proves"
    REFUTES = "refutes"
    INCONCLUSIVE = "inconclusive"


class Result(enum.StrEnum):
    """What an experiment came to. The first two settle the question."""

    PROVES = "proves"
    REFUTES = "refutes"
    INCONCLUSIVE = "inconclusive"
    NOT_REPRODUCED = "not reproduced"
    NO_EFFECT = "no effect"
    UNREGISTERED = "unregistered"
    NOT_RUN = "not run"

    @property
    def settles(self) -> bool:
        """Whether the claim is decided by it."""
        return self in (Result.PROVES, Result.REFUTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """The one thing in which the arms differ: its name, and its value in each arm."""

    kind: Kind
    name: str
    values: Mapping[str, Any]

    @property
    def spelled(self) -> str:
        """As the file says it: `env.NAME`, `config.key`, `code`."""
        return self.kind.value if self.kind is Kind.CODE else f"{self.kind}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One way in which an arm may turn out."""

    name: str
    when: Conditions
    reading: Reading
    means: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One experiment, as it was registered.

    Attributes:
        claim: what is to be decided.
        order: its place among the experiments on one question.
        scenario: engine, configuration and steps of both arms, with an arm and a lane for each.
        code: a variant of the code in both arms; empty for the code as it stands.
        effect: for each arm, what shows that the variable had the value that it was given.
        reproduces: the outcome that the control has to show.
        faults: readings that are reported whatever comes of it.
        next: the instrument to reach for when the question stays open.
    """

    name: str
    about: str
    claim: str
    origin: str
    order: int
    scenario: Scenario
    code: str
    variable: Variable
    effect: Mapping[str, Conditions]
    outcomes: tuple[Outcome, ...]
    reproduces: str
    faults: tuple[str, ...]
    next: str


@dataclass(slots=True, kw_only=True)
class ArmReport:
    """What one arm showed: its value of the variable, its readings, and what failed.

    `device` is what the device that it ran on says of itself.
    """

    arm: str
    value: Any
    outcome: str = ""
    took_effect: bool = False
    readings: dict[str, str] = field(default_factory=dict)
    failure: str = ""
    device: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ExperimentReport:
    """What an experiment came to, and why."""

    name: str
    claim: str
    variable: str
    result: Result
    reason: str
    means: str = ""
    next: str = ""
    arms: list[ArmReport] = field(default_factory=list)
    faults: dict[str, dict[str, str]] = field(default_factory=dict)
