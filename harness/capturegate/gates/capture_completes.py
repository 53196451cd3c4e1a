"""CG004: every capture that begins ends, records something, and none is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict
from capturegate.status import SUCCESS
from capturegate.trace import BEGIN_APIS, END_API, Event, Trace, Window


class CaptureCompletes:
    """Every capture completes, and there are as many as the scenario says.

    What it checks:
        Each window has one begin and one end, which succeeds, and its graph has nodes. A step has
        as many windows as its `captures` check says; steps without one say nothing.

    Why it is unsafe:
        A capture that is lost leaves the engine with nothing to replay, and a capture that is
        never ended keeps its stream, and in global mode every thread, under its restrictions.
        A capture that records nothing replays nothing, fast.

    Goes red when:
        A window is never ended or ended twice, its end returns an error, its graph is empty, its
        stream is destroyed before its end, a second begin is tried on its stream, an end has no
        begin, or a step has fewer or more windows than it says. Vacuous when no capture began and
        none was asked for.

    How to fix it:
        Look at the first refused call inside the window: that is the cause, the end only reports
        it. End the capture on every path out of the window, errors included.

    When it is vacuous:
        Add a step in which the engine captures, and say how many with `check: {captures: 1}`;
        where none is to come, check `captures: 0` and leave this gate out.

    Proven by:
        allocation-beside-the-pool, attention-scratch-grows-in-window, begin-without-end,
        break-kept-out-of-captures, bypass-captured-anyway, bypass-not-skipped,
        chunk-capture-not-opened, chunk-captured-under-bypass, chunk-failure-not-reset,
        chunk-pregrow-removed, chunk-profile-not-kept, chunk-scratch-of-the-pool,
        chunk-scratch-released, closed-container-recaptured, columns-not-compared,
        container-begin-removed, container-break-not-ended, container-failure-not-abandoned,
        container-first-begin-removed, container-last-not-ended,
        container-next-begin-removed, container-not-abandoned, container-not-ended,
        decode-begin-removed, decode-captured-anew, decode-captured-cold,
        decode-captured-under-bypass, decode-launch-removed, decode-pregrow-removed,
        decode-profile-not-kept, draft-begin-removed, draft-captured-anew,
        draft-captured-under-bypass, draft-collected-unwaited, draft-failure-not-reset,
        draft-not-abandoned, draft-piece-not-ended, draft-pregrow-removed,
        draft-profile-not-kept, draft-scratch-of-the-pool, drain-removed-on-unfixed-driver,
        failure-not-reset, fork-not-recorded, fork-not-waited-for, forks-left-open,
        join-not-recorded, join-not-waited-for, lost-capture-not-ended, nesting-not-refused,
        outgrown-scratch-freed, padding-not-declined, pregrow-behind-dbuf,
        pregrow-inside-window, pregrow-returns-zero, profile-short-by-one,
        prompt-begin-removed, prompt-capture-not-abandoned, prompt-captured-under-bypass,
        prompt-entries-one-too-many, prompt-entries-unbounded, prompt-held-not-compared,
        prompt-inputs-not-refreshed, prompt-keyed-by-address, prompt-never-found,
        prompt-not-ended, prompt-oldest-not-dropped, prompt-pregrow-removed,
        prompt-profile-not-kept, prompt-proof-not-kept, prompt-room-outgrown,
        prompt-siblings-confused, prompt-switch-not-passed-on, prompt-upload-not-marked,
        replay-does-nothing, ring-keyed-on-size-alone, ring-keyed-without-spec, ring-of-one,
        seam-abandon-ends-nothing, seam-begin-into-removed, seam-begin-removed,
        seam-not-ended, seam-takes-inert-for-captured, seam-window-not-abandoned,
        server-guesses-after-a-discontinuity, server-guesses-taken-unseen,
        server-guesses-without-pages, server-misses-the-discontinuity,
        speculation-without-ring, switch-off-not-declined, switches-read-anew,
        taps-not-compared, tokens-read-unwaited, too-large-not-declined, uploads-not-marked,
        whole-graph-broken.
    """

    code: ClassVar[str] = "CG004"
    name: ClassVar[str] = "capture-completes"
    needs: ClassVar[frozenset[str]] = frozenset({"nodes"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first window that did not complete, or by a wrong number of them."""
        trace = evidence.trace
        windows = trace.windows
        complete = [window for window in windows if not fault_of(window)]
        figures: dict[str, int | float | str] = {
            "windows": len(windows),
            "nodes": sum(window.nodes or 0 for window in complete),
        }
        for window in windows:
            fault = fault_of(window) or second_call(trace, window)
            if fault:
                return Judgement(
                    verdict=Verdict.BROKEN,
                    reason=fault,
                    figures=figures,
                    witness=shown(trace, window),
                )
        if stray := stray_end(trace):
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"an end without a begin: it returned {stray.error}",
                figures=figures,
                witness=(stray,),
            )
        if miscount := miscounted(evidence):
            after = f"; the case ended with {evidence.failure}" if evidence.failure else ""
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"{miscount}{after}",
                figures=figures,
                witness=tuple(trace.events[window.begin] for window in windows),
            )
        if not windows:
            return Judgement(verdict=Verdict.VACUOUS, reason="no capture began", figures=figures)
        return Judgement(verdict=Verdict.HELD, figures=figures)


def fault_of(window: Window) -> str:
    """What keeps a window from being complete; empty when nothing does."""
    if window.end is None:
        return "a capture began and nobody ended it"
    if window.destroyed:
        return "a capture began and its stream was destroyed before anybody ended it"
    if window.end_error != SUCCESS:
        return f"the capture was lost: its end returned {window.end_error}"
    if not window.nodes:
        return "the capture recorded no node"
    return ""


def second_call(trace: Trace, window: Window) -> str:
    """A second begin or end of one window, refused or not; empty when there is none."""
    for event in trace.spanned(window):
        if event.stream != window.stream:
            continue
        if event.api in BEGIN_APIS:
            return f"a second begin on the capturing stream returned {event.error}"
        if event.api == END_API:
            return f"an end before the end that counted returned {event.error}"
    return ""


def stray_end(trace: Trace) -> Event | None:
    """An end outside every window: nothing was being captured on its stream."""
    ends = {window.end for window in trace.windows}
    for event in trace.of([END_API]):
        # An inert backend answers begin and end with success and opens nothing.
        if not event.refused or event.seq in ends:
            continue
        if not any(w.spans(event) and w.stream == event.stream for w in trace.windows):
            return event
    return None


def miscounted(evidence: Evidence) -> str:
    """A step whose windows are not as many as it says; empty when all are."""
    for step, wanted in evidence.captures_said.items():
        phases = {run.phase for run in evidence.runs if run.step == step}
        count = sum(window.phase in phases for window in evidence.trace.windows)
        if not wanted.holds(count):
            return f"step {step} has {count} capture(s), the scenario says {wanted.text}"
    return ""


def shown(trace: Trace, window: Window) -> tuple[Event, ...]:
    """The witness of a window that did not complete: its cause, and the destroy of its stream."""
    cause = cause_in(trace, window)
    if window.destroyed and window.end is not None:
        return cause, trace.events[window.end]
    return (cause,)


def cause_in(trace: Trace, window: Window) -> Event:
    """The first refused call inside a window, else beside it, else the end, else the begin."""
    for belongs in (window.inside, window.beside):
        for event in trace.spanned(window):
            if event.refused and belongs(event):
                return event
    if window.end is not None and not window.destroyed and window.end_error != SUCCESS:
        return trace.events[window.end]
    return trace.events[window.begin]
