"""CG012: every refused call's code is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict
from capturegate.trace import ENGINE


class RefusalsAreLookedAt:
    """The error code of every refused call is looked at.

    What it checks:
        The statuses of the raw layer, where a refusal is an answer and not an exception: the code
        of every call that the device refused has to be read at least once, also when the refusal
        does no harm to a capture.

    Why it is unsafe:
        A refused call did nothing. A batch copy that is refused inside a window leaves the
        capture whole: it ends, instantiates and launches without an error, and the destination is
        never written. A refusal that loses the capture shows only at its end, far from its cause.

    Goes red when:
        A call was refused and nobody read its code before the case ended. Vacuous when nothing
        was refused.

    How to fix it:
        Look at the code of every call where it is made, and on a refusal end the capture and run
        that step without a graph. The ordinary layer of the backend does it by raising.

    When it is vacuous:
        Let a call be refused in this scenario, for example by a driver allocation inside a
        window; where none is to be, leave this gate out.

    Proven by:
        prompt-refused-update-ignored, refusal-not-looked-at.
    """

    code: ClassVar[str] = "CG012"
    name: ClassVar[str] = "refusals-are-looked-at"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first refusal whose code nobody read."""
        trace = evidence.trace
        refused = [event for event in trace.events if event.refused and event.actor == ENGINE]
        unlooked = [event for event in refused if event.seq in trace.unlooked]
        figures = {"refused": len(refused), "unlooked": len(unlooked)}
        if unlooked:
            first = unlooked[0]
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"{first.api} returned {first.error} and nobody looked at it",
                figures=figures,
                witness=tuple(unlooked),
            )
        if not refused:
            return Judgement(verdict=Verdict.VACUOUS, reason="no call was refused", figures=figures)
        return Judgement(verdict=Verdict.HELD, figures=figures)
