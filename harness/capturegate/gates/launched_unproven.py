"""CG008: an executable is launched for what it holds alone, and not before that ran directly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict


class NeverLaunchedUnproven:
    """An executable is launched only for what it now holds, and when that has run directly before.

    What it checks:
        Every launch of an executable of a graph cache. What it holds, properties included, has
        to be the observation in progress, or one around it where observations are nested and the
        inner one was answered. It has to have run directly in an earlier observation: the cache
        said so, and among the calls outside of a capture are, in any order, all those that this
        executable was made of by its instantiation or its last update. They are told by api and
        kernel; a batch of copies stands for single ones, since it cannot be captured. Of a graph
        that was not captured nothing is known: there, what the cache said and some direct work
        suffice. An update makes an executable hold something else, until the cache tells what.

    Why it is unsafe:
        A capture does not execute anything. An executable whose work never ran the ordinary way
        is used for the first time by a user's request, and what is wrong with it is in the
        answer. One that holds something else answers with another request's work.

    Goes red when:
        An executable is launched in the observation that it was made for, after an update
        without a direct run of the same, or with calls in it that were in no direct run of what it
        is said to hold. It is launched in an observation of something else than it holds, be that
        proven or not. Vacuous when no executable of a cache was launched.

    How to fix it:
        Run the first observation directly, also the first one whose properties changed; make or
        update the executable beside it, and launch it from the next observation on. Before each
        launch compare what the executable holds, addresses included, with what was observed, and
        update it where they differ.

    When it is vacuous:
        Let the cache launch an executable, and tell what it observes, runs directly and holds.

    Proven by:
        prompt-direct-run-not-told, prompt-first-observation-launched,
        prompt-held-not-compared, prompt-inert-taken-for-captured,
        prompt-launched-after-update, prompt-observation-not-told,
        prompt-refused-update-ignored, prompt-siblings-confused,
        prompt-takeover-keeps-proof.
    """

    code: ClassVar[str] = "CG008"
    name: ClassVar[str] = "never-launched-unproven"
    needs: ClassVar[frozenset[str]] = frozenset()
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first launch of what had never run directly."""
        found = evidence.cache_history
        figures = {"launches": found.launches, "unproven": len(found.unproven)}
        figures["mismatched"] = len(found.mismatched)
        if found.unproven:
            launch, held = found.unproven[0]
            said = f"{held}, which had not run directly" if held else "nobody knows what"
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"executable {launch.handle} was launched holding {said}",
                figures=figures,
                witness=(launch,),
            )
        if found.mismatched:
            launch, proven, current = found.mismatched[0]
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"executable {launch.handle} was launched for {current.what}, "
                f"and holds {proven}",
                figures=figures,
                witness=(launch, current.told),
            )
        if not found.launches:
            return Judgement(
                verdict=Verdict.VACUOUS,
                reason="no executable of a graph cache was launched",
                figures=figures,
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)
