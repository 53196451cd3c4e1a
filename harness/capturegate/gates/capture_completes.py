"""CG004: every capture that begins ends, records something, and none is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict
from capturegate.status import SUCCESS
from capturegate.trace import Event, Trace, Window


class CaptureCompletes:
    """Every capture completes, and there are as many as the scenario says.

    What it checks:
        Each window has one begin and one successful end and its graph has nodes. The number of
        windows equals the sum of the scenario's `captures` checks.

    Why it is unsafe:
        A capture that is lost leaves the engine with nothing to replay, and a capture that is
        never ended keeps its stream, and in global mode every thread, under its restrictions.
        A capture that records nothing replays nothing, fast.

    Goes red when:
        A window is never ended, its end returns an error, its graph is empty, or there are fewer
        or more windows than the scenario says. Vacuous when no capture began and none was asked
        for.

    How to fix it:
        Look at the first refused call inside the window: that is the cause, the end only reports
        it. End the capture on every path out of the window, errors included.

    Proven by:
        begin-without-end, pregrow-behind-dbuf.
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
        wanted = evidence.captures_expected
        complete = [window for window in windows if not fault_of(window)]
        figures: dict[str, int | float | str] = {
            "windows": len(windows),
            "nodes": sum(window.nodes or 0 for window in complete),
        }
        if wanted is not None:
            figures["expected"] = wanted
        for window in windows:
            if fault := fault_of(window):
                return Judgement(
                    verdict=Verdict.BROKEN,
                    reason=fault,
                    figures=figures,
                    witness=(cause_in(trace, window),),
                )
        if not windows and not wanted:
            return Judgement(verdict=Verdict.VACUOUS, reason="no capture began", figures=figures)
        if wanted is not None and len(windows) != wanted:
            after = f"; the case ended with {evidence.failure}" if evidence.failure else ""
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"{len(windows)} capture(s), the scenario says {wanted}{after}",
                figures=figures,
                witness=tuple(trace.events[window.begin] for window in windows),
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)


def fault_of(window: Window) -> str:
    """What keeps a window from being complete; empty when nothing does."""
    if window.end is None:
        return "a capture began and nobody ended it"
    if window.end_error != SUCCESS:
        return f"the capture was lost: its end returned {window.end_error}"
    if not window.nodes:
        return "the capture recorded no node"
    return ""


def cause_in(trace: Trace, window: Window) -> Event:
    """The first refused call inside a window, or its begin."""
    refused = (event for event in trace.inside(window) if event.refused)
    return next(refused, trace.events[window.begin])
