"""CG005: a replay computes what the eager run computes, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Comparison, Evidence, Judgement
from capturegate.gates.capture_completes import CaptureCompletes
from capturegate.run.result import Verdict
from capturegate.trace import Event, Trace

LAUNCH_API = "cudaGraphLaunch"


class ReplayMatchesEager:
    """Every step's output equals the eager engine's, bit for bit, also when it was replayed.

    What it checks:
        The output rows of every step against an oracle: a second engine with the same history
        and the same padded sizes that ran first and never captures. The harness poisons the
        output buffers before each step, and the padding rows must not be read by anybody.

    Why it is unsafe:
        A graph that reads a stale address, a frozen host value or a recycled buffer replays
        without an error, and the wrong tokens reach a user.

    Goes red when:
        A row differs, a replay fails, or somebody outside the graph reads a padding row of an
        output. Vacuous when no replayed output was compared, when outputs were not poisoned,
        when the outputs never changed from replay to replay, or when the oracle's own rows are
        all zero or not finite.

    How to fix it:
        Find the first step that differs: what it reads that the capture did not bake by address
        (host sources, step inputs, scratch that went back to a pool) is the usual cause.

    Proven by:
        replay-does-nothing.
    """

    code: ClassVar[str] = "CG005"
    name: ClassVar[str] = "replay-matches-eager"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first difference; held only when replays were really compared."""
        replayed = replays_by_phase(evidence.trace)
        compared = [
            c for c in evidence.comparisons if c.phase in replayed and c.rows and c.poisoned
        ]
        figures = {"replays": len(replayed), "rows": sum(c.rows for c in compared)}
        if fault := first_fault(evidence, replayed):
            reason, witness = fault
            return Judgement(
                verdict=Verdict.BROKEN, reason=reason, figures=figures, witness=witness
            )
        if evidence.oracle_error:
            return Judgement(
                verdict=Verdict.UNKNOWN, reason=f"the oracle failed: {evidence.oracle_error}"
            )
        if evidence.failure:
            completes = evidence.judged.get(CaptureCompletes.name)
            broken = completes is not None and completes.verdict is Verdict.BROKEN
            return Judgement(
                verdict=Verdict.UNKNOWN,
                reason=f"the case ended early: {evidence.failure}",
                figures=figures,
                blocked_by=CaptureCompletes.name if broken else "",
            )
        if reason := emptiness(compared):
            return Judgement(verdict=Verdict.VACUOUS, reason=reason, figures=figures)
        return Judgement(verdict=Verdict.HELD, figures=figures)


def replays_by_phase(trace: Trace) -> dict[str, Event]:
    """The first replay of each step that had one."""
    found: dict[str, Event] = {}
    for event in trace.events:
        if event.api == LAUNCH_API:
            found.setdefault(event.phase, event)
    return found


def first_fault(
    evidence: Evidence, replayed: Mapping[str, Event]
) -> tuple[str, tuple[Event, ...]] | None:
    """What breaks the equality first, and the events that show it."""
    for comparison in evidence.comparisons:
        if comparison.mismatched_rows:
            launch = replayed.get(comparison.phase)
            how = "replayed" if launch else "ran"
            reason = (
                f"step {comparison.phase} {how}: {comparison.output} differs from the oracle in "
                f"{len(comparison.mismatched_rows)} of {comparison.rows} row(s), "
                f"{comparison.first_difference}"
            )
            return reason, (launch,) if launch else ()
        if use := pad_use(evidence.trace, comparison):
            return f"a padding row of {comparison.output} was read", (use,)
    for run in evidence.runs:
        if run.raised and run.phase in replayed:
            launch = replayed[run.phase]
            return f"the replay of step {run.phase} failed: {evidence.failure}", (launch,)
    return None


def pad_use(trace: Trace, comparison: Comparison) -> Event | None:
    """The first read of a padding row of an output by anybody but the graph itself."""
    for event in trace.phase(comparison.phase):
        if event.api == LAUNCH_API or not event.reads:
            continue
        for allocation, offset, nbytes in event.reads:
            for pad_allocation, pad_offset, pad_bytes in comparison.pad_spans:
                overlaps = offset < pad_offset + pad_bytes and pad_offset < offset + nbytes
                if allocation == pad_allocation and overlaps:
                    return event
    return None


def emptiness(compared: list[Comparison]) -> str:
    """Why the comparisons show nothing; empty when they do."""
    if not compared:
        return "no replayed output was poisoned before its replay and compared after it"
    if len(compared) > 1 and len({comparison.expected_digest for comparison in compared}) == 1:
        return "the outputs never changed from replay to replay"
    if degenerate := next((c.degenerate for c in compared if c.degenerate), ""):
        return f"the oracle's output is {degenerate}"
    return ""
