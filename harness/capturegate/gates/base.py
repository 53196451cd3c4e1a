"""What a gate is, what it judges, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from capturegate.gates.graph_cache import CacheHistory, history
from capturegate.run.result import Verdict
from capturegate.scenario.grammar import Expectation
from capturegate.status import Span
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

    Attributes:
        rows: the rows compared.
        span: the compared bytes of the subject's buffer: allocation, offset, length.
        difference: the first difference, of bytes, rows, row size or presence; empty when equal.
        expected_digest: content of the oracle's rows, to tell whether outputs ever changed.
        poisoned: the harness overwrote all of the compared bytes before the step.
        unmatched: the oracle has no such output, so there was nothing to compare with.
        degenerate: why the oracle's own rows cannot show anything; empty when they can.
        pad_span: the padding rows of the buffer, of length 0 where there are none.
    """

    phase: str
    output: str
    rows: int
    span: Span
    difference: str
    expected_digest: str
    poisoned: bool
    unmatched: bool = False
    degenerate: str = ""
    pad_span: Span = (0, 0, 0)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything that a gate may look at.

    Attributes:
        captures_said: what the scenario's `captures` checks say, by step.
        failure: the engine's exception that ended the case, in words.
        oracle_error: why the oracle's outputs are no reference; empty when they are.
        judged: the verdicts of the gates that ran before.
    """

    trace: Trace
    runs: Sequence[StepRun]
    comparisons: Sequence[Comparison] = ()
    oracle_error: str = ""
    captures_said: Mapping[str, Expectation] = field(default_factory=dict)
    failure: str = ""
    judged: dict[str, Judgement] = field(default_factory=dict)
    _cache_history: CacheHistory | None = field(default=None, init=False)

    @property
    def cache_history(self) -> CacheHistory:
        """What a graph cache told, read once for all gates that judge it."""
        if self._cache_history is None:
            self._cache_history = history(self.trace)
        return self._cache_history


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
    fix it, When it is vacuous, Proven by; `capturegate explain CODE` prints it, and reports print
    the first sentence of the one that says what to do.

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
