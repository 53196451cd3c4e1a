"""CG005: a replay computes what the eager run computes, bit for bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Comparison, Evidence, Judgement
from capturegate.gates.capture_completes import CaptureCompletes
from capturegate.run.result import Verdict
from capturegate.status import Span
from capturegate.trace import HARNESS, LAUNCH_API, Event, Trace

Launches = Mapping[str, list[Event]]
"""The successful launches of each step run."""


class ReplayMatchesEager:
    """Every step's output equals the eager engine's, bit for bit, also when it was replayed.

    What it checks:
        The output rows of every step against an oracle: a second engine with the same history
        and the same padded sizes that ran first and never captures. Outputs, rows and row sizes
        have to be the same too. The harness poisons the output buffers before each step. After a
        replay nobody may read the padding rows of its outputs.

    Why it is unsafe:
        A graph that reads a stale address, a frozen host value or a recycled buffer replays
        without an error, and the wrong tokens reach a user.

    Goes red when:
        An output differs or is missing, a replay fails, or a padding row is read. Vacuous when no
        replay was the last to write a compared output that had been poisoned, when an output did
        not change between two replays of one executable, or when the oracle's rows are all zero
        or not finite. Unknown when the oracle failed, captured, or has no counterpart of an
        output.

    How to fix it:
        Find the first step that differs: what it reads that the capture did not bake by address
        (host sources, step inputs, scratch that went back to a pool) is the usual cause.

    When it is vacuous:
        Replay one executable at least twice with other inputs, and let `buffers()` name the
        memory that its graph writes, so that it can be poisoned before.

    Proven by:
        allocation-beside-the-pool, begin-without-end, breaks-not-replayed,
        bypass-captured-anyway, cell-not-marked, cell-not-waited-for,
        chunk-inert-taken-for-captured, chunk-inputs-not-refreshed, chunk-not-replayed,
        chunk-pregrow-removed, chunk-profile-not-kept, chunk-scratch-of-the-pool,
        chunk-scratch-released, cold-upload-not-marked, container-begin-removed,
        container-break-not-ended, container-first-begin-removed, container-last-not-ended,
        container-launch-removed, container-next-begin-removed, container-not-ended,
        decode-captured-cold, decode-captured-under-bypass, decode-inputs-not-refreshed,
        decode-launch-removed, decode-pregrow-removed, decode-profile-not-kept,
        draft-inert-taken-for-captured, draft-inputs-not-refreshed, draft-launch-removed,
        draft-piece-not-ended, draft-pieces-unordered, draft-pregrow-removed,
        draft-profile-not-kept, draft-scratch-of-the-pool, drain-removed-on-unfixed-driver,
        eager-vectors-outgrown, inert-break-not-run, inert-taken-for-captured,
        later-piece-inert-unseen, later-segment-inert-unseen, outgrown-scratch-freed,
        pregrow-behind-dbuf, pregrow-inside-window, pregrow-returns-zero,
        profile-short-by-one, prompt-held-not-compared, prompt-host-not-marked,
        prompt-inert-taken-for-captured, prompt-inert-update-launched,
        prompt-inputs-not-refreshed, prompt-launch-removed, prompt-not-ended,
        prompt-refused-update-ignored, prompt-siblings-confused, prompt-upload-not-marked,
        replay-does-nothing, replay-not-marked, ring-not-staged, seam-not-ended,
        staging-not-marked, staging-not-waited-for, uploads-not-marked.
    """

    code: ClassVar[str] = "CG005"
    name: ClassVar[str] = "replay-matches-eager"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first difference; held only when replays were really compared."""
        launches = launches_by_phase(evidence.trace)
        compared = [c for c in evidence.comparisons if was_replayed(c, launches, evidence.trace)]
        figures = {
            "replays": len({comparison.phase for comparison in compared}),
            "rows": sum(comparison.rows for comparison in compared),
        }
        if not evidence.oracle_error and (fault := first_fault(evidence, launches)):
            reason, witness = fault
            return Judgement(
                verdict=Verdict.BROKEN, reason=reason, figures=figures, witness=witness
            )
        if launches and (reason := no_reference(evidence)):
            return Judgement(verdict=Verdict.UNKNOWN, reason=reason, figures=figures)
        if evidence.failure:
            completes = evidence.judged.get(CaptureCompletes.name)
            broken = completes is not None and completes.verdict is Verdict.BROKEN
            return Judgement(
                verdict=Verdict.UNKNOWN,
                reason=f"the case ended early: {evidence.failure}",
                figures=figures,
                blocked_by=CaptureCompletes.name if broken else "",
            )
        if reason := emptiness(compared, launches):
            return Judgement(verdict=Verdict.VACUOUS, reason=reason, figures=figures)
        return Judgement(verdict=Verdict.HELD, figures=figures)


def launches_by_phase(trace: Trace) -> Launches:
    """The launches of each step run that succeeded."""
    found: defaultdict[str, list[Event]] = defaultdict(list)
    for event in trace.of([LAUNCH_API]):
        if not event.refused:
            found[event.phase].append(event)
    return found


def was_replayed(comparison: Comparison, launches: Launches, trace: Trace) -> bool:
    """Whether a replay wrote all of the compared, poisoned bytes, and nobody wrote there after."""
    if not (comparison.rows and comparison.poisoned and comparison.phase in launches):
        return False
    if "accesses" not in trace.capabilities:
        return True
    last = launches[comparison.phase][-1].seq
    later = [event for event in trace.phase(comparison.phase) if event.seq > last]
    if any(touches(span, comparison.span) for event in later for span in event.writes):
        return False
    writes = [span for launch in launches[comparison.phase] for span in launch.writes]
    return covers(writes, comparison.span)


def covers(spans: Iterable[Span], wanted: Span) -> bool:
    """Whether spans together contain all bytes of another one."""
    allocation, offset, nbytes = wanted
    reached, end = offset, offset + nbytes
    for other, start, length in sorted(spans):
        if other == allocation and start <= reached < start + length:
            reached = start + length
    return reached >= end


def no_reference(evidence: Evidence) -> str:
    """Why there is nothing to compare with; empty when there is."""
    if evidence.oracle_error:
        return f"the oracle is no reference: {evidence.oracle_error}"
    for comparison in evidence.comparisons:
        if comparison.unmatched:
            return f"the oracle has no {comparison.output} of step {comparison.phase}"
    return ""


def first_fault(evidence: Evidence, launches: Launches) -> tuple[str, tuple[Event, ...]] | None:
    """What breaks the equality first, and the events that show it."""
    for comparison in evidence.comparisons:
        replayed = launches.get(comparison.phase, [])
        if comparison.difference:
            how = "replayed" if replayed else "ran"
            return (
                f"step {comparison.phase} {how}: {comparison.output} {comparison.difference}",
                tuple(replayed[:1]),
            )
        if replayed and (use := pad_use(evidence.trace, comparison, replayed[-1])):
            return f"a padding row of {comparison.output} was read after its replay", (use,)
    for run in evidence.runs:
        tried = [e for e in evidence.trace.phase(run.phase) if e.api == LAUNCH_API]
        if run.raised and tried:
            # The refused launch, if one was; else the last, whose work failed later.
            cause = next((event for event in tried if event.refused), tried[-1])
            return f"the replay of step {run.phase} failed: {evidence.failure}", (cause,)
    return None


def pad_use(trace: Trace, comparison: Comparison, launch: Event) -> Event | None:
    """The first read of a padding row after a replay, until the engine writes there again.

    What one launch reads and writes has no order here, so a graph that reads the padding of the
    replay before it, and then writes it, is not seen.
    """
    if not comparison.pad_span[2]:
        return None
    for event in trace.events[launch.seq + 1 :]:
        if event.actor == HARNESS:
            continue
        if covers(event.writes, comparison.pad_span):
            return None
        if any(touches(span, comparison.pad_span) for span in event.reads):
            return event
    return None


def touches(span: Span, other: Span) -> bool:
    """Whether two spans share a byte."""
    return span[0] == other[0] and span[1] < other[1] + other[2] and other[1] < span[1] + span[2]


def emptiness(compared: list[Comparison], launches: Launches) -> str:
    """Why the comparisons show nothing; empty when they do.

    One executable has to have been launched for two different contents of an output: only then
    could a value that it froze have shown.
    """
    if not compared:
        return "no replay wrote an output that was poisoned before and compared after"
    digests: defaultdict[str, defaultdict[int | str, set[str]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for comparison in compared:
        if comparison.degenerate:
            return f"the oracle's {comparison.output} is {comparison.degenerate}"
        for launch in launches[comparison.phase]:
            digests[comparison.output][launch.handle].add(comparison.expected_digest)
    for output, by_executable in digests.items():
        if max(len(found) for found in by_executable.values()) < 2:
            return f"{output} never changed from replay to replay of one executable"
    return ""
