"""CG003: a pre-grow makes what the window takes, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate import notes
from capturegate.gates.base import Evidence, Judgement
from capturegate.gates.driver_allocation import NoDriverAllocationInWindow
from capturegate.run.result import Verdict
from capturegate.trace import Event, Trace, Window


class PregrowIsUsed:
    """Every block that the pre-grow made is taken by the window.

    What it checks:
        The blocks that the pre-grow created for a window, by identity and class, against the
        blocks that the window took in that class. Judged where no driver allocation was inside,
        and only where a scenario names it: with persistent step inputs the window takes less than
        the cold step did, by design.

    Why it is unsafe:
        A profile that carries demand from another step grows the pool by memory that nobody
        uses, once for every captured shape, until a server that fitted no longer does.

    Goes red when:
        A created block is not taken. Vacuous when no pre-grow made a block before a window.

    How to fix it:
        Mark the step boundary at the top of every step of every kind, so that a peak belongs to
        the step that had it.

    When it is vacuous:
        Drain the pool in the step before, so that the pre-grow finds it short and has to make
        blocks.

    Proven by:
        chunk-boundary-removed, draft-boundary-removed, prompt-boundary-removed,
        step-boundary-removed, window-counts-nothing.
    """

    code: ClassVar[str] = "CG003"
    name: ClassVar[str] = "pregrow-is-used"
    needs: ClassVar[frozenset[str]] = frozenset({"pool"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = False

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first class of which more was made than taken."""
        allocation_gate = NoDriverAllocationInWindow.name
        if evidence.judged[allocation_gate].verdict is not Verdict.HELD:
            return Judgement(
                verdict=Verdict.UNKNOWN,
                reason="the window was not served from the pool alone",
                blocked_by=allocation_gate,
            )
        trace = evidence.trace
        created_blocks = 0
        since = -1
        for window in trace.windows:
            taken = {
                ((event.detail or {})["size_class"], event.allocation)
                for event in trace.spanned(window)
                if event.api == notes.GOT
            }
            for note in pre_grows_between(trace, since, window):
                for size_class, made in (note.detail or {})["created"].items():
                    created_blocks += len(made)
                    unused = [block for block in made if (size_class, block) not in taken]
                    if unused:
                        return _broken(note, size_class, len(made), len(unused))
            since = window.begin
        if not created_blocks:
            return Judgement(verdict=Verdict.VACUOUS, reason="no pre-grow made a block")
        return Judgement(verdict=Verdict.HELD, figures={"created": created_blocks})


def _broken(note: Event, size_class: int, made: int, unused: int) -> Judgement:
    return Judgement(
        verdict=Verdict.BROKEN,
        reason=f"class {size_class}: {made} block(s) pre-grown, {unused} never taken in that class",
        figures={"class": size_class, "created": made, "unused": unused},
        witness=(note,),
    )


def pre_grows_between(trace: Trace, since: int, window: Window) -> list[Event]:
    """The pre-grows of the window's step since an earlier window began."""
    return [
        event
        for event in trace.events[since + 1 : window.begin]
        if event.api == notes.PRE_GREW and event.phase == window.phase
    ]
