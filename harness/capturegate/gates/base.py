"""What a gate is, what it judges, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from capturegate.run.result import Verdict
from capturegate.trace import Event, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """One run of a step: `phase` labels its events; `raised` says that the verb raised."""

    step: str
    verb: str
    phase: str
    raised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One output buffer after one step run, against the oracle's.

    `rows` are the rows compared; `mismatched_rows` those whose bytes differ. `expected_digest`
    tells whether outputs changed from run to run; `poisoned` that the harness overwrote the
    buffer before the step; `degenerate` says why the oracle's own rows cannot show anything (all
    zero, not finite), empty when they can. `pad_spans` are the padding rows.
    """

    phase: str
    output: str
    rows: int
    mismatched_rows: tuple[int, ...]
    expected_digest: str
    poisoned: bool
    degenerate: str = ""
    first_difference: str = ""
    pad_spans: tuple[tuple[int, int, int], ...] = ()


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything that a gate may look at.

    `captures_expected` is how many windows the scenario's `captures` checks say, None when they
    say nothing. `judged` holds the verdicts of the gates that ran before.
    """

    trace: Trace
    runs: Sequence[StepRun]
    comparisons: Sequence[Comparison] = ()
    oracle_error: str = ""
    captures_expected: int | None = None
    failure: str = ""
    judged: dict[str, Judgement] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A gate's answer: the events of the witness come first things first."""

    verdict: Verdict
    reason: str = ""
    figures: Mapping[str, int | float | str] = field(default_factory=dict)
    witness: tuple[Event, ...] = ()
    blocked_by: str = ""


class Gate(Protocol):
    """One rule over the evidence of a case.

    The class's docstring has the headings What it checks, Why it is unsafe, Goes red when, How to
    fix it, Proven by; `capturegate explain CODE` prints it.

    Attributes:
        code: short and stable, such as `CG001`.
        name: what scenarios write, such as `capture-completes`.
        needs: capabilities of the trace without which the gate cannot see anything.
        params: the gate's own parameters in a scenario file, with their type.
        by_default: whether it judges every case, named or not.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    needs: ClassVar[frozenset[str]]
    params: ClassVar[Mapping[str, type]]
    by_default: ClassVar[bool]

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """The verdict on one case; never raises for what an engine did."""
