"""CG001: nothing is taken from the driver between the begin and the end of a capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from capturegate import notes
from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict
from capturegate.trace import FREEING_APIS, Event, Trace, Window


class NoDriverAllocationInWindow:
    """No driver allocation happens inside a capture window.

    What it checks:
        Every call that asks the driver for memory between the begin and the end of a capture, on
        the capturing thread or on a stream of the capture. A refused attempt counts.

    Why it is unsafe:
        In thread-local and global mode the first cudaMalloc in the window is refused and the
        capture is lost; an engine that treats that as fatal takes every later request with it.
        In relaxed mode the call succeeds and nobody is told.

    Goes red when:
        Any allocation is inside a window. It is vacuous when a window could not have gone red:
        the pool has to have been drained of more than zero bytes in an earlier step, and a window
        that takes from it has to take memory that its own step fetched from the driver
        beforehand. An engine that had everything at hand would pass untested. Of an engine that
        tells no pool events it is only asked that an earlier step gave memory back and that the
        step allocated before its window.

    How to fix it:
        Pre-grow the pool to the demand of the cold step before every capture, whatever the
        configuration. Take what outlives the step from a pool of its own, before the window.

    When it is vacuous:
        Drain the pool of more than nothing in an earlier step, and let the step that captures
        fetch from the driver, before its window, what the window takes.

    Proven by:
        allocation-beside-the-pool, attention-scratch-grows-in-window,
        bypass-captured-anyway, chunk-captured-under-bypass, chunk-pregrow-removed,
        chunk-profile-not-kept, chunk-scratch-of-the-pool, decode-captured-cold,
        decode-captured-under-bypass, decode-pregrow-removed, decode-profile-not-kept,
        draft-captured-under-bypass, draft-pregrow-removed, draft-profile-not-kept,
        draft-scratch-of-the-pool, drain-removed-on-unfixed-driver, pregrow-behind-dbuf,
        pregrow-inside-window, pregrow-returns-zero, profile-short-by-one,
        prompt-captured-under-bypass, prompt-pregrow-removed, prompt-profile-not-kept,
        seam-not-ended.
    """

    code: ClassVar[str] = "CG001"
    name: ClassVar[str] = "no-driver-allocation-in-window"
    needs: ClassVar[frozenset[str]] = frozenset({"allocations"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by any allocation inside; held only where one could have happened."""
        trace = evidence.trace
        windows = trace.windows
        inside = [e for w in windows for e in trace.inside(w) if e.allocates]
        per_step = {w.phase: allocations_in(trace, w.phase) for w in windows}
        figures = {"inside": len(inside), "step": sum(per_step.values()), "windows": len(windows)}
        if inside:
            refused = sum(event.refused for event in inside)
            tail = f", {refused} of them refused" if refused else ""
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"{len(inside)} driver allocation(s) inside a capture window{tail}",
                figures=figures | pool_figures(trace, inside[0]),
                witness=witness_of(trace, inside),
            )
        if not windows:
            return Judgement(verdict=Verdict.VACUOUS, reason="no capture began", figures=figures)
        for phase in per_step:
            for window in takers(trace, [w for w in windows if w.phase == phase]):
                if reason := untested(trace, window):
                    return Judgement(
                        verdict=Verdict.VACUOUS,
                        reason=f"step {phase} captured, and {reason}",
                        figures=figures,
                        witness=(trace.events[window.begin],),
                    )
        return Judgement(verdict=Verdict.HELD, figures=figures)


def allocations_in(trace: Trace, phase: str) -> int:
    """How often a step asked the driver for memory."""
    return sum(event.allocates for event in trace.phase(phase))


def takers(trace: Trace, windows: list[Window]) -> list[Window]:
    """The windows of one step that took from a pool; all of them when none did.

    A pass that is captured in segments may need no memory in some of them.
    """
    taking = [w for w in windows if any(e.api == notes.GOT for e in trace.inside(w))]
    return taking or windows


def untested(trace: Trace, window: Window) -> str:
    """Why a window could not have gone red; empty when it could have."""
    phase, begin = window.phase, window.begin
    before = [e for e in trace.phase(phase) if e.seq < begin and e.allocates and not e.refused]
    if "pool" not in trace.capabilities:
        if not any(frees_memory(event) for event in earlier(trace, window, FREEING_APIS)):
            return "nothing was given back to the driver in an earlier step"
        return "" if before else "it allocated nothing before its window"
    taken = [event for event in trace.inside(window) if event.api == notes.GOT]
    pools = {(event.detail or {})["pool"] for event in taken}
    if not any(drains(event, pools) for event in earlier(trace, window, [notes.DRAIN])):
        return "the pool was not drained in an earlier step"
    made = {event.allocation for event in before}
    if not any(event.allocation in made for event in taken):
        return "its window took nothing that the step had to fetch from the driver"
    return ""


def earlier(trace: Trace, window: Window, apis: Iterable[str]) -> Iterator[Event]:
    """The events of some kinds before a window, in other steps than its own."""
    for event in trace.of(apis):
        if event.seq < window.begin and event.phase != window.phase:
            yield event


def drains(event: Event, pools: set[str]) -> bool:
    """Whether one of these pools gave memory back to the driver with this drain."""
    detail = event.detail or {}
    return detail["freed_bytes"] > 0 and detail["pool"] in pools


def frees_memory(event: Event) -> bool:
    """Whether the driver got memory back with this free."""
    return not event.refused and event.nbytes > 0


def witness_of(trace: Trace, inside: list[Event]) -> tuple[Event, ...]:
    """The first allocation, and the pool request that it was made for."""
    first = inside[0]
    request = request_before(trace, first)
    return (first, request) if request else (first,)


def request_before(trace: Trace, event: Event) -> Event | None:
    """The last pool request of the same thread before an event of the same step."""
    for earlier in trace.events[: event.seq][::-1]:
        if earlier.phase != event.phase:
            return None
        if earlier.api == notes.GET and earlier.thread == event.thread:
            return earlier
    return None


def pool_figures(trace: Trace, event: Event) -> dict[str, int | float | str]:
    """Class, free blocks and bytes needed of the pool request behind an allocation."""
    request = request_before(trace, event)
    if request is None or request.detail is None:
        return {}
    detail = request.detail
    return {
        "class": detail["size_class"],
        "free": detail["free"],
        "needed": detail["needed_bytes"],
    }
