"""The controls of every run: a mutant that must die, and one that must change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capturegate.errors import CapturegateError
from capturegate.run.result import CaseResult
from capturegate.scenario.model import Case
from capturegate_mutations.batch import Outcome
from capturegate_mutations.evidence import green_of
from capturegate_mutations.plan import CaseKey
from capturegate_mutations.prepare import Mutant, served
from capturegate_mutations.source import read_source
from capturegate_mutations.verdict import Proof, changes_of

CANARY_MODULE = "capturegate.run.judge"
_RAISES = "\nraise RuntimeError('the canary')\n"


class ControlError(CapturegateError):
    """The proof itself is broken: no verdict of this run counts."""


def noop(modules: Sequence[str], cases: Sequence[Case]) -> Mutant:
    """The modules' own sources, served as if they were flipped."""
    sources = [read_source(module) for module in modules]
    return Mutant(sources=tuple(served(s, s.text) for s in sources), cases=tuple(cases))


def canary(cases: Sequence[Case]) -> Mutant:
    """An instrument that calls every gate broken and every check failed: it has to be seen."""
    sources = []
    for module, appended in _ALL_RED.items():
        source = read_source(module)
        sources.append(served(source, source.text + appended))
    return Mutant(sources=tuple(sources), cases=tuple(cases))


_ALL_RED = {
    CANARY_MODULE: """

def _judge(gate, evidence, params):
    return Judgement(verdict=Verdict.BROKEN, reason="the canary")
""",
    "capturegate.run.drive": """

_judge_check_of_the_original = _judge_check

def _judge_check(check, facts):
    result = _judge_check_of_the_original(check, facts)
    result.outcome = CheckOutcome.FAILED
    return result
""",
}


def raiser(module: str, cases: Sequence[Case]) -> Mutant:
    """A module that raises as it is imported: a child that does not crash never imported it."""
    source = read_source(module)
    return Mutant(sources=(served(source, source.text + _RAISES),), cases=tuple(cases[:1]))


def check_noop(outcome: Outcome, baseline: Mapping[CaseKey, CaseResult]) -> None:
    """The no-op control changed nothing.

    Raises:
        ControlError: it did, or did not run.
    """
    if outcome.proof is not None:
        raise ControlError(f"the no-op control did not run: {outcome.reason}")
    changes = changes_of(baseline, outcome.results)
    if changes:
        case, members = next(iter(changes.items()))
        name, member = next(iter(members.items()))
        raise ControlError(
            f"the no-op control changed {case}: {name} is {member.verdict}; "
            "serving a module's own source has to change nothing"
        )


def cheapest(cases: Sequence[Case], baseline: Mapping[CaseKey, CaseResult]) -> list[Case]:
    """The quickest case with something green to redden, for the canary."""
    green = [case for case in cases if green_of({case.name: baseline[case.name]})[0]]
    return sorted(green, key=lambda case: baseline[case.name].duration_s)[:1]


def check_canary(outcome: Outcome, baseline: Mapping[CaseKey, CaseResult]) -> None:
    """The canary reddened the cases that it ran, at least one.

    Raises:
        ControlError: it did not.
    """
    if outcome.proof is not None:
        raise ControlError(f"the canary did not run: {outcome.reason}")
    if not outcome.results:
        raise ControlError("the canary had no case with anything green")
    changes = changes_of({key: baseline[key] for key in outcome.results}, outcome.results)
    for key in outcome.results:
        verdicts = {member.verdict for member in changes.get(key, {}).values()}
        if not verdicts & {"broken", "failed"}:
            raise ControlError(f"the canary left {key} as it was: a red would not be seen")


def check_raiser(module: str, outcome: Outcome) -> None:
    """The module that raises on import ended its child.

    Raises:
        ControlError: it did not.
    """
    if outcome.proof is not Proof.CRASH or "the canary" not in outcome.reason:
        raise ControlError(
            f"a mutant of {module} that raises on import did not crash "
            f"({outcome.reason or 'it ran all its cases'}): flips of it are not served"
        )
