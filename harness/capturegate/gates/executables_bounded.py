"""CG009: a graph cache keeps within its bounds and lets go of what it releases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate import notes
from capturegate.gates.base import Evidence, Judgement
from capturegate.gates.graph_cache import What, live_executables, what_of
from capturegate.run.result import Verdict
from capturegate.trace import Event, Trace


class ExecutablesAreBounded:
    """Executables stay bounded, and a released namespace leaves none behind.

    What it checks:
        How many executables exist at once, counted from the calls that make and destroy them,
        against the parameter `executables_max`; and at each release of a namespace, which of
        the executables that hold something of that namespace still exist.

    Why it is unsafe:
        An executable keeps device memory, and its pool blocks pinned, for as long as it lives. A
        cache that only grows runs a server out of memory by the variety of its requests.

    Goes red when:
        There are more executables than `executables_max`, or one is left behind by a release.
        Vacuous when neither was put to the test: no more different things were held than the
        bound, and nothing that had executables was released.

    How to fix it:
        Give prompts a namespace of their own, so that they can be released without the decode
        graphs; drop the least recently used entry when the bound is reached.

    When it is vacuous:
        Give `executables_max` and observe more different things than that, or release a namespace
        that has executables.

    Proven by:
        prompt-entries-one-too-many, prompt-entries-unbounded, prompt-executable-kept,
        prompt-oldest-not-dropped, prompt-released-entries-kept, prompt-removed-entry-kept,
        prompt-replaced-executable-kept, prompt-shares-the-namespace.
    """

    code: ClassVar[str] = "CG009"
    name: ClassVar[str] = "executables-are-bounded"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {"executables_max": int}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first executable too many, or left behind."""
        limit = params.get("executables_max")
        found = _Count(evidence.trace, limit)
        figures: dict[str, int | float | str] = {
            "executables": found.peak,
            "different": len(found.different),
            "releases": found.releases,
        }
        if found.fault:
            reason, witness = found.fault
            return Judgement(
                verdict=Verdict.BROKEN, reason=reason, figures=figures, witness=witness
            )
        pressed = limit is not None and len(found.different) > limit
        if not pressed and not found.releases:
            return Judgement(
                verdict=Verdict.VACUOUS,
                reason="no bound was reached and nothing that had executables was released",
                figures=figures,
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)


class _Count:
    """Counts a trace's executables up to the first fault."""

    def __init__(self, trace: Trace, limit: int | None) -> None:
        self.peak = 0
        self.releases = 0
        self.different: set[What] = set()
        self.fault: tuple[str, tuple[Event, ...]] | None = None
        holds: dict[int, What] = {}
        for event, live in live_executables(trace):
            if event.api == notes.HOLDS:
                what = what_of(event)
                holds[(event.detail or {})["executable"]] = what
                self.different.add(what)
            elif event.api == notes.RELEASED:
                namespace = (event.detail or {})["namespace"]
                mine = [id_ for id_, what in holds.items() if what.namespace == namespace]
                self.releases += bool(mine)
                if left := [live[id_] for id_ in mine if id_ in live]:
                    reason = f"{len(left)} executable(s) left behind by the release of {namespace}"
                    self.fault = self.fault or (reason, (event, *left))
            self.peak = max(self.peak, len(live))
            if limit is not None and len(live) > limit:
                reason = f"{len(live)} executables exist, {limit} may"
                self.fault = self.fault or (reason, (event,))
