"""Which cases a mutant can change: those that enter what its flips touch, as the baseline told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capturegate.scenario.model import Case
from capturegate_mutations.child import EVERYTHING
from capturegate_mutations.plan import CaseKey, Plan, PredicateFlip, ScenarioFlip
from capturegate_mutations.prepare import Mutant
from capturegate_mutations.touched import Key

INSTRUMENT = ("capturegate", "capturegate_backends")
_OWN_ENGINE = "capturegate.programs"
"""What lies in the core and is an engine all the same: no case runs or judges by it."""

Hits = Mapping[CaseKey, frozenset[Key]]
"""The keys of what each case entered, among those that were probed."""


def flips_instrument(plan: Plan) -> bool:
    """Whether a flip is on what runs and judges every case."""
    return any(
        module.split(".")[0] in INSTRUMENT and not f"{module}.".startswith(f"{_OWN_ENGINE}.")
        for module in plan.modules
    )


def reached(plan: Plan, mutant: Mutant, hits: Hits) -> tuple[Case, ...]:
    """The cases of a mutant that may differ from the baseline; the others cannot.

    Until a case enters something that is touched it does what the original does; a case that
    started another process may have entered anything. A flip on the
    instrument is in every case, one on a scenario in its own cases. One on a predicate is in the
    cases that it is answered to.
    """
    if flips_instrument(plan):
        return mutant.cases
    scenarios = {flip.scenario for flip in plan.flips if isinstance(flip, ScenarioFlip)}
    predicates = [flip for flip in plan.flips if isinstance(flip, PredicateFlip)]
    return tuple(
        case
        for case in mutant.cases
        if mutant.touched & hits[case.name]
        or EVERYTHING in hits[case.name]
        or case.scenario.name in scenarios
        or any(flip.reaches(case.scenario.name, case.lane.name) for flip in predicates)
    )


def oracles_known(plan: Plan, mutant: Mutant, hits: Hits, oracle_hits: Hits) -> frozenset[CaseKey]:
    """The cases whose oracle in the baseline is that of the mutant, too.

    `oracle_hits` are the hits of each case until its oracle was done. An oracle that enters nothing
    that is touched does what the original's does; one of a case that started another process may
    have entered anything, and a flip on a scenario makes another case.
    """
    if flips_instrument(plan) or any(isinstance(flip, ScenarioFlip) for flip in plan.flips):
        return frozenset()
    return frozenset(
        name
        for name, entered in oracle_hits.items()
        if not mutant.touched & entered and EVERYTHING not in hits[name]
    )


def probes_of(plans: Sequence[tuple[Plan, Mutant]]) -> frozenset[Key]:
    """Everything that some mutant of production code touches."""
    keys: frozenset[Key] = frozenset()
    for plan, mutant in plans:
        if not flips_instrument(plan):
            keys |= mutant.touched
    return keys
