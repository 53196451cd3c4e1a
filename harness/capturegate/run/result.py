"""What one case came to: verdicts, checks, figures. Plain data that goes through JSON."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field
from typing import Any


class Verdict(enum.StrEnum):
    """What a gate says about a case. Only HELD is green."""

    HELD = "held"
    BROKEN = "broken"
    VACUOUS = "vacuous"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class CheckOutcome(enum.StrEnum):
    """What became of a check or require. Only PASSED is green."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class FrameRecord:
    """One frame of a stack; `dotted` is module and qualified function name."""

    dotted: str
    path: str
    line: int


@dataclass(slots=True, kw_only=True)
class WitnessEvent:
    """One event of a witness."""

    seq: int
    api: str
    phase: str
    error: str
    nbytes: int
    thread: int
    stream: int
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Witness:
    """The smallest set of events that shows a break.

    `summary` is one clause; `stack` belongs to the first event, innermost frame first.
    """

    summary: str
    events: list[WitnessEvent] = field(default_factory=list)
    stack: list[FrameRecord] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class GateResult:
    """A gate's verdict on a case.

    `named` says that the scenario names the gate. `expected` is the verdict that the arm
    expects. `blocked_by` names the gate or check id that keeps an unknown verdict from being
    more. `figures` are small named numbers, such as inside / step.
    """

    gate: str
    verdict: Verdict
    expected: Verdict = Verdict.HELD
    named: bool = True
    reason: str = ""
    blocked_by: str = ""
    figures: dict[str, int | float | str] = field(default_factory=dict)
    witness: Witness | None = None
    witness_expected: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether the verdict, and the witness where one is expected, are the arm's."""
        if not self.named:
            return self.verdict is Verdict.HELD
        return self.verdict == self.expected and (
            not self.witness_expected or self._witness_has(self.witness_expected)
        )

    def _witness_has(self, dotted_end: str) -> bool:
        frames = self.witness.stack if self.witness else []
        return any(f".{frame.dotted}".endswith(f".{dotted_end}") for frame in frames)


@dataclass(slots=True, kw_only=True)
class CheckResult:
    """A check's outcome; `blocked_by` as for gates."""

    id: str
    required: bool
    outcome: CheckOutcome
    observed: str
    expected: str
    where: str
    blocked_by: str = ""

    @property
    def as_expected(self) -> bool:
        """Whether it passed."""
        return self.outcome is CheckOutcome.PASSED


@dataclass(slots=True, kw_only=True)
class Failure:
    """An exception that ended a case, with the place in the engine that raised it.

    `cuda_error` is `api error` of the refused call that it comes from, empty when from none.
    `accounted` says that the arm expects it: by its type, or because a gate that is broken as
    expected has that very call in its witness.
    """

    type: str
    message: str
    step: str
    stack: list[FrameRecord] = field(default_factory=list)
    cuda_error: str = ""
    accounted: bool = False


@dataclass(slots=True, kw_only=True)
class Skip:
    """A declared skip: the predicate that held, why, and the lane that judges instead."""

    predicate: str
    reason: str
    judged_in: str


@dataclass(slots=True, kw_only=True)
class CaseResult:
    """Everything that one case came to.

    `harness_error` is a failure of the harness itself (the child died, timed out or broke), and
    `input_error` a mistake of the user's that only this case found: such a case is not judged,
    and never as expected. `failure` is the engine's. `warnings` change no verdict.
    """

    case: str
    scenario: str
    lane: str
    arm: str
    backend: str
    gates: list[GateResult] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    skip: Skip | None = None
    failure: Failure | None = None
    harness_error: str = ""
    input_error: str = ""
    warnings: list[str] = field(default_factory=list)
    duration_s: float = 0.0
    events: int = 0
    device: dict[str, str] = field(default_factory=dict)

    @property
    def judged(self) -> bool:
        """Whether any gate or check reached held, passed, broken or failed."""
        return any(g.verdict in (Verdict.HELD, Verdict.BROKEN) for g in self.gates) or any(
            c.outcome is not CheckOutcome.UNKNOWN for c in self.checks
        )

    @property
    def as_expected(self) -> bool:
        """Whether the case is green or, in a red arm, red exactly as expected."""
        if self.skip is not None:
            return True
        return (
            not self.harness_error
            and not self.input_error
            and self.judged
            and (self.failure is None or self.failure.accounted)
            and all(gate.as_expected for gate in self.gates)
            and all(self.check_as_expected(check) for check in self.checks)
        )

    def check_as_expected(self, check: CheckResult) -> bool:
        """Whether a check passed, or an expected break blocked it: then it says nothing."""
        if check.as_expected:
            return True
        expected_red = {
            g.gate for g in self.gates if g.expected is not Verdict.HELD and g.as_expected
        }
        return check.outcome is CheckOutcome.UNKNOWN and check.blocked_by in expected_red

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CaseResult:
        """Read what `to_json` wrote."""
        fields = dict(data)
        fields["gates"] = [_gate_from(item) for item in data["gates"]]
        fields["checks"] = [
            CheckResult(**(item | {"outcome": CheckOutcome(item["outcome"])}))
            for item in data["checks"]
        ]
        fields["skip"] = Skip(**data["skip"]) if data["skip"] else None
        failure = data["failure"]
        if failure:
            stack = [FrameRecord(**frame) for frame in failure["stack"]]
            fields["failure"] = Failure(**(failure | {"stack": stack}))
        return cls(**fields)


def _gate_from(item: dict[str, Any]) -> GateResult:
    fields = item | {"verdict": Verdict(item["verdict"]), "expected": Verdict(item["expected"])}
    if witness := item["witness"]:
        fields["witness"] = Witness(
            summary=witness["summary"],
            events=[WitnessEvent(**event) for event in witness["events"]],
            stack=[FrameRecord(**frame) for frame in witness["stack"]],
        )
    return GateResult(**fields)
