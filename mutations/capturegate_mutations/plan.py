"""What a mutation plan says, loaded: flips, and the exact change of verdicts that they make."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from capturegate.errors import Location
from capturegate.run.result import CheckOutcome, Verdict
from capturegate_mutations.operators import Arguments

ABSENT = "absent"
WORDS = tuple(dict.fromkeys((*map(str, Verdict), *map(str, CheckOutcome), ABSENT)))

FAILURE = "failure"
"""The member of a case that stands for an engine's exception; the verdict is its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFlip:
    """One operator on one function, class or module of production code or of the instrument."""

    module: str
    qualname: str
    operator: str
    arguments: Arguments
    where: Location

    @property
    def target(self) -> str:
        """As the plan writes it."""
        return f"{self.module}:{self.qualname}" if self.qualname else self.module


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFlip:
    """One change of how a scenario is built: `action` is the key in the plan."""

    scenario: str
    action: Literal["remove_step", "remove_check", "remove_gate", "set_config", "set_times"]
    name: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    where: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateFlip:
    """A skip predicate answers something else; in every lane, or in one.

    `scenarios` are those it answers to, empty for all.
    """

    predicate: str
    answers: bool
    lane: str
    scenarios: tuple[str, ...] = ()
    where: Location

    def reaches(self, scenario: str, lane: str) -> bool:
        """Whether it is answered to the cases of a scenario in a lane."""
        return self.lane in ("", lane) and (not self.scenarios or scenario in self.scenarios)

    def without(self, scenarios: Collection[str]) -> PredicateFlip | None:
        """The flip as far as it is not about these scenarios; None where nothing is left of it."""
        if not self.scenarios:
            return self
        left = tuple(name for name in self.scenarios if name not in scenarios)
        return replace(self, scenarios=left) if left else None


Flip = CodeFlip | ScenarioFlip | PredicateFlip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The verdict that a gate or check has to change to.

    `witness`, when given, is the dotted end of a function's name that has to stand in the
    witness's stack.
    """

    verdict: str
    witness: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} at {self.witness}" if self.witness else self.verdict


CaseKey = str
"""`scenario[lane/arm]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One mutation.

    `expect` is the exact set; `also` is collateral that may come along, with `reasons` by case.
    """

    name: str
    about: str
    flips: tuple[Flip, ...]
    expect: Mapping[CaseKey, Mapping[str, Wanted]]
    also: Mapping[CaseKey, Mapping[str, Wanted]]
    reasons: Mapping[CaseKey, str]
    path: str
    where: Location
    case_places: Mapping[CaseKey, Location] = field(default_factory=dict)

    def within(self, cases: Collection[CaseKey], aside: Collection[CaseKey] = ()) -> Plan:
        """The plan as far as it is about these cases; `aside` are those that were not chosen."""
        out = {case.partition("[")[0] for case in aside}
        out -= {case.partition("[")[0] for case in cases}
        flips = (
            flip.without(out) if isinstance(flip, PredicateFlip) else flip for flip in self.flips
        )
        return replace(
            self,
            flips=tuple(flip for flip in flips if flip is not None),
            expect={case: wanted for case, wanted in self.expect.items() if case in cases},
            also={case: wanted for case, wanted in self.also.items() if case in cases},
        )

    @property
    def code_flips(self) -> tuple[CodeFlip, ...]:
        """The flips that need source served."""
        return tuple(flip for flip in self.flips if isinstance(flip, CodeFlip))

    @property
    def modules(self) -> frozenset[str]:
        """The modules that are flipped."""
        return frozenset(flip.module for flip in self.code_flips)
