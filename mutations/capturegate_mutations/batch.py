"""Running one mutant: a child per environment, and what its answers come to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from capturegate.run.pool import Answer, Task
from capturegate.run.request import case_request
from capturegate.run.result import CaseResult
from capturegate.scenario.model import Case
from capturegate_mutations.plan import CaseKey
from capturegate_mutations.prepare import Mutant
from capturegate_mutations.verdict import Proof

_CALLS_MIN = 20_000
_CALLS_FACTOR = 20
_CASES_MAX = 32
"""Cases of one child: enough to be worth its imports, few enough to keep every worker busy."""
TARGET = "mutant"
_BARE = ("capturegate_mutations.serve",)
"""What a bare zygote loads. It makes it another one than those that somebody asks something else:
what they load on the way could not be flipped any more."""


@dataclass(slots=True, kw_only=True)
class Settings:
    """How children run.

    `preload` is what the warmed zygotes import once; `calls_max` the budget of backend calls
    that one recorder gets; `oracles` a folder to keep the baseline's oracles in, or empty.
    """

    seed: int
    time_limit_s: float
    preload: tuple[str, ...] = ()
    calls_max: int = 10_000_000
    oracles: str = ""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the children of one mutant came to.

    `results` has every case, or `proof` says what kept them from it and `reason` how. `modules`
    and `carried` are what the children had loaded in the end, and before anything was served;
    `hits` what the probes told of cases that ran in a child of their own, `oracle_hits` what they
    told until its oracle was done, where that was kept. `ran` counts the cases
    that ran, which are fewer than the results where the others could not differ.
    """

    results: dict[CaseKey, CaseResult] = field(default_factory=dict)
    proof: Proof | None = None
    reason: str = ""
    modules: frozenset[str] = frozenset()
    carried: frozenset[str] = frozenset()
    hits: dict[CaseKey, frozenset[str]] = field(default_factory=dict)
    oracle_hits: dict[CaseKey, frozenset[str]] = field(default_factory=dict)
    ran: int = 0
    duration_s: float = 0.0


def tasks_of(
    mutant: Mutant,
    settings: Settings,
    *,
    bare: bool,
    tell_modules: bool = False,
    parts: int = 1,
    probed: str = "",
    known: Collection[CaseKey] = (),
) -> list[Task]:
    """The tasks for each environment among the mutant's cases, in so many parts.

    `probed` is a file of modules with probes, to be served beside the mutant's own sources;
    `known` are cases whose kept oracle holds.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Case]] = defaultdict(list)
    for case in mutant.cases:
        groups[tuple(sorted(case.lane.env.items()))].append(case)
    return [
        Task(
            target=TARGET,
            request={
                "sources": list(mutant.sources),
                "predicates": list(mutant.predicates),
                "cases": [case_request(case, settings.seed) for case in part],
                "calls_max": settings.calls_max,
                "tell_modules": tell_modules,
                "probed": probed,
                "oracles": settings.oracles,
                "known": [case.name for case in part if case.name in known],
            },
            env=dict(env),
            absent=mutant.modules,
            preload=_BARE if bare else settings.preload,
            time_limit_s=settings.time_limit_s,
        )
        for env, cases in groups.items()
        for part in _shared_out(cases, parts)
    ]


def _shared_out(cases: Sequence[Case], parts: int) -> list[Sequence[Case]]:
    """Cases in so many parts, or in more where a child would be late for all the others."""
    parts = max(parts, math.ceil(len(cases) / _CASES_MAX))
    return [part for first in range(parts) if (part := cases[first::parts])]


def budget(baseline: Mapping[CaseKey, CaseResult]) -> int:
    """Backend calls that a mutant's recorder gets: many times what any case of the baseline made.

    The number depends on the baseline alone, so that the same mutant always ends the same way.
    """
    most = max((result.events for result in baseline.values()), default=0)
    return max(_CALLS_MIN, _CALLS_FACTOR * most)


def collect(answers: Sequence[Answer], cases: Sequence[Case]) -> Outcome:
    """The outcome of the answers of one mutant's tasks; the worst fate wins.

    Results are in the order of the cases, whichever child was the first.
    """
    outcome = Outcome()
    troubles: list[tuple[Proof, str]] = []
    results: dict[CaseKey, CaseResult] = {}
    for answer in answers:
        outcome.duration_s += answer.duration_s
        trouble = _trouble(answer)
        if trouble is not None:
            troubles.append(trouble)
            continue
        value = answer.value or {}
        outcome.modules |= frozenset(value.get("modules", ()))
        outcome.carried |= frozenset(value.get("carried", ()))
        for told in value["cases"]:
            outcome.ran += 1
            outcome.hits[told["case"]] = frozenset(value.get("hits", ()))
            if "oracle_hits" in told:
                outcome.oracle_hits[told["case"]] = frozenset(told["oracle_hits"])
            if "result" in told:
                result = CaseResult.from_json(told["result"])
                results[told["case"]] = result
                if result.harness_error:
                    troubles.append((Proof.CRASH, f"{told['case']}: {result.harness_error}"))
            elif "overran" in told:
                troubles.append((Proof.TIMEOUT, f"{told['case']}: {told['overran']}"))
            else:
                troubles.append((Proof.CRASH, f"{told['case']}: {told['raised']}"))
    names = [case.name for case in cases]
    outcome.results = {name: results[name] for name in names if name in results}
    for proof in (Proof.INVALID, Proof.CRASH, Proof.TIMEOUT):
        for kind, reason in troubles:
            if kind is proof:
                outcome.proof, outcome.reason = kind, reason
                return outcome
    return outcome


def _trouble(answer: Answer) -> tuple[Proof, str] | None:
    """What kept a child from answering, with the case that it was at."""
    if answer.fate == "answered" and answer.value is not None:
        if "not_served" in answer.value:
            return Proof.INVALID, f"the flip was not applied: {answer.value['not_served']}"
        if "import_error" in answer.value:
            return (
                Proof.CRASH,
                f"the flipped module failed to import:\n{answer.value['import_error']}",
            )
        return None
    begun = [line for line in answer.output.splitlines() if line.startswith("case ")]
    during = f", during {begun[-1]}" if begun else ""
    if answer.fate == "timeout":
        return Proof.TIMEOUT, f"{answer.error}{during}"
    if answer.fate == "not started":
        return Proof.INVALID, answer.error
    return Proof.CRASH, f"{answer.error}{during}"
