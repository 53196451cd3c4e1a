"""CG007: what was observed before replays when it comes again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict


class LaterObservationsReplay:
    """A later observation of the same work is one launch.

    What it checks:
        Every observation that a graph cache tells of, against those before it: when the same
        identity with the same properties ran directly, and an executable that holds it was kept,
        it has to be exactly one launch, and not run directly as well in the same step.

    Why it is unsafe:
        A cache that captures and never hits costs a capture and an executable for each request
        and gives nothing back, and from outside it looks as if it worked.

    Goes red when:
        A known observation runs directly instead of its launch, or takes several launches, or runs
        directly beside its one launch: the cache says so, or all calls of its executable run
        between the observation and the launch, or all of them run in the same step, the last call
        of the direct run before into the same memory. What runs again after the launch, into other
        memory and without a word of the cache, is not seen: other work of an engine looks the
        same. Vacuous when nothing was observed twice.

    How to fix it:
        Key executables by what the work is (its first node and its namespace, then its nodes),
        not by where its sources lie: the same work arrives at another address every time.

    When it is vacuous:
        Let the same work arrive once more, after it ran directly and an executable was kept for
        it.

    Proven by:
        prompt-executable-kept, prompt-inputs-not-refreshed, prompt-keyed-by-address,
        prompt-launch-removed, prompt-never-found, prompt-proof-not-kept,
        prompt-released-entries-kept, prompt-removed-entry-kept,
        prompt-replaced-executable-kept, prompt-replayed-and-run, prompt-upload-not-marked,
        staging-not-waited-for, uploads-not-marked.
    """

    code: ClassVar[str] = "CG007"
    name: ClassVar[str] = "later-observations-replay"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first known observation that was not one launch."""
        observations = evidence.cache_history.observations
        known = [observation for observation in observations if observation.known]
        hits = sum(len(o.launches) == 1 and not o.ran_again for o in known)
        figures = {"observations": len(observations), "known": len(known), "replayed": hits}
        for observation in known:
            launches = len(observation.launches)
            if launches != 1 or observation.ran_again:
                how = f"took {launches} launches" if launches else "was not replayed"
                if launches == 1:
                    how = "ran directly beside its launch"
                return Judgement(
                    verdict=Verdict.BROKEN,
                    reason=f"{observation.what} had run and was kept, and {how} when it came again",
                    figures=figures,
                    witness=(observation.told, *observation.launches),
                )
        if not known:
            return Judgement(
                verdict=Verdict.VACUOUS, reason="nothing was observed twice", figures=figures
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)
