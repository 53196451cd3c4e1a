"""CG002: the demand profile that a capture relies on covers what the window really takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate import notes
from capturegate.gates.base import Evidence, Judgement
from capturegate.gates.capture_completes import CaptureCompletes, fault_of
from capturegate.run.result import Verdict
from capturegate.trace import Event, Trace, Window

_TRAFFIC = (notes.GET, notes.PUT)


class ProfileCoversWindow:
    """The recorded demand covers the window's real peak in every size class.

    What it checks:
        The profile that was noted for a pool before the window, against the highest number of its
        blocks that were out at once in the window's time, class by class, whoever took them.
        Requests count when they are made, so one that was refused counts too.

    Why it is unsafe:
        A pre-grow is only as deep as the profile it is given. A profile that is short by one
        block in one class is one driver allocation in the window, on the day when nothing else
        happens to lie in the free list.

    Goes red when:
        A class peaks above its entry in the profile, or the window takes blocks and nobody noted
        a profile. Vacuous when no window took a block from a pool.

    How to fix it:
        Record the demand at the cold step of the same shape, from a step boundary at which
        nothing transient is out, and give every captured shape a profile of its own.

    When it is vacuous:
        Capture in a step whose window takes blocks from a pool, and let that pool tell its events.

    Proven by:
        bypass-captured-anyway, chunk-captured-under-bypass, chunk-profile-not-kept,
        chunk-profile-not-noted, chunk-scratch-of-the-pool, decode-captured-cold,
        decode-captured-under-bypass, decode-profile-not-kept, decode-profile-not-noted,
        draft-captured-under-bypass, draft-profile-not-kept, draft-profile-not-noted,
        draft-scratch-of-the-pool, profile-short-by-one, prompt-captured-under-bypass,
        prompt-profile-not-kept, prompt-profile-not-noted, prompt-scratch-of-the-main-pool,
        put-not-told, seam-not-ended.
    """

    code: ClassVar[str] = "CG002"
    name: ClassVar[str] = "profile-covers-window"
    needs: ClassVar[frozenset[str]] = frozenset({"pool"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first request that exceeds the profile."""
        trace = evidence.trace
        demand_blocks = profiled_blocks = 0
        for window in trace.windows:
            requests = [e for e in trace.spanned(window) if e.api in _TRAFFIC]
            for pool in sorted({(e.detail or {})["pool"] for e in requests}):
                note = profile_before(trace, window, pool)
                profile = (note.detail or {})["profile"] if note else {}
                own = [e for e in requests if (e.detail or {})["pool"] == pool]
                peaks, breach = peaks_of(own, profile)
                demand_blocks += sum(peaks.values())
                profiled_blocks += sum(profile.values())
                if breach is not None:
                    return _broken(breach, note, peaks, profile)
        figures = {"demand": demand_blocks, "profile": profiled_blocks}
        if any(fault_of(window) for window in trace.windows):
            return Judgement(
                verdict=Verdict.UNKNOWN,
                reason="the window was lost before its peak",
                figures=figures,
                blocked_by=CaptureCompletes.name,
            )
        if not demand_blocks:
            return Judgement(verdict=Verdict.VACUOUS, reason="no window took a block from a pool")
        return Judgement(verdict=Verdict.HELD, figures=figures)


def _broken(
    breach: Event, note: Event | None, peaks: Mapping[int, int], profile: Mapping[int, int]
) -> Judgement:
    size_class = (breach.detail or {})["size_class"]
    said = f"the profile says {profile.get(size_class, 0)}" if note else "no profile was noted"
    return Judgement(
        verdict=Verdict.BROKEN,
        reason=f"class {size_class} needs {peaks[size_class]} block(s) at once, {said}",
        figures={
            "class": size_class,
            "peak": peaks[size_class],
            "profile": profile.get(size_class, 0),
        },
        witness=(breach, note) if note else (breach,),
    )


def profile_before(trace: Trace, window: Window, pool: str) -> Event | None:
    """The last profile of a pool that was noted in the window's step before it began."""
    for event in trace.events[: window.begin][::-1]:
        if event.phase != window.phase:
            return None
        if event.api == notes.PROFILE and (event.detail or {})["pool"] == pool:
            return event
    return None


def peaks_of(
    events: list[Event], profile: Mapping[int, int]
) -> tuple[dict[int, int], Event | None]:
    """Highest number of blocks out at once per class, and the first request above the profile."""
    out: defaultdict[int, int] = defaultdict(int)
    peaks: dict[int, int] = {}
    breach = None
    for event in events:
        size_class = (event.detail or {})["size_class"]
        out[size_class] += 1 if event.api == notes.GET else -1
        peaks[size_class] = max(peaks.get(size_class, 0), out[size_class])
        if breach is None and out[size_class] > profile.get(size_class, 0):
            breach = event
    return peaks, breach
