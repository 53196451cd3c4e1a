"""What a run says of each mutation: the row of the evidence table, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from capturegate.run.result import CaseResult
from capturegate_mutations.plan import CaseKey, Plan
from capturegate_mutations.verdict import Comparison, Members, Proof, members_of

Counts = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class Figures:
    """A gate's named numbers on one case, in the baseline and in the mutant."""

    case: CaseKey
    gate: str
    baseline: dict[str, int | float | str]
    mutant: dict[str, int | float | str]


@dataclass(slots=True, kw_only=True)
class Row:
    """One mutation's evidence.

    `expected` and `observed` map cases to ids to verdicts; observed is what changed, less what a
    listed member blocks. Of `cases` only `cases_run` had to run: the mutant enters no other.
    `checks_baseline` and `checks_mutant` are green and all gates and checks together.
    """

    mutation: str
    about: str
    path: str
    proof: Proof
    reason: str = ""
    hunk: str = ""
    expected: dict[CaseKey, dict[str, str]] = field(default_factory=dict)
    observed: dict[CaseKey, dict[str, str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    tolerated: list[str] = field(default_factory=list)
    figures: list[Figures] = field(default_factory=list)
    cases_run: int = 0
    cases: int = 0
    checks_baseline: Counts = (0, 0)
    checks_mutant: Counts = (0, 0)
    duration_s: float = 0.0
    rerun: str = ""
    fingerprint: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `row_from_json` is the inverse."""
        return asdict(self)


def row_from_json(data: Mapping[str, Any]) -> Row:
    """Read what `Row.to_json` wrote."""
    return Row(
        **{
            **data,
            "proof": Proof(data["proof"]),
            "figures": [Figures(**item) for item in data["figures"]],
            "checks_baseline": (data["checks_baseline"][0], data["checks_baseline"][1]),
            "checks_mutant": (data["checks_mutant"][0], data["checks_mutant"][1]),
        }
    )


def bare_row(plan: Plan, proof: Proof, reason: str, *, rerun: str, fingerprint: str) -> Row:
    """A row for a plan that has nothing but a verdict and a reason."""
    return Row(
        mutation=plan.name,
        about=plan.about,
        path=plan.path,
        proof=proof,
        reason=reason,
        expected={
            case: {name: str(wanted) for name, wanted in members.items()}
            for case, members in plan.expect.items()
        },
        rerun=rerun,
        fingerprint=fingerprint,
    )


def tell(
    row: Row,
    comparison: Comparison,
    changes: Mapping[CaseKey, Members],
    baseline: Mapping[CaseKey, CaseResult],
    mutant: Mapping[CaseKey, CaseResult],
) -> None:
    """Fill a row with what was observed."""
    row.observed = {
        case: {name: member.verdict for name, member in members.items()}
        for case, members in changes.items()
        if members
    }
    row.missing = [_sentence(*entry) for entry in comparison.missing]
    row.other = [_sentence(*entry) for entry in comparison.other]
    row.extra = [_sentence(*entry) for entry in comparison.extra]
    row.tolerated = [_sentence(*entry) for entry in comparison.tolerated]
    row.checks_baseline = green_of(baseline)
    row.checks_mutant = green_of(mutant)
    for case, members in row.observed.items():
        before = {gate.gate: gate.figures for gate in baseline[case].gates}
        after = {gate.gate: gate.figures for gate in mutant[case].gates}
        row.figures += [
            Figures(case=case, gate=name, baseline=before.get(name, {}), mutant=after[name])
            for name in members
            if after.get(name)
        ]


def green_of(results: Mapping[CaseKey, CaseResult]) -> Counts:
    """How many gates and checks are held or passed, of how many."""
    verdicts = [m.verdict for result in results.values() for m in members_of(result).values()]
    return sum(verdict in ("held", "passed") for verdict in verdicts), len(verdicts)


def _sentence(case: str, name: str, verdict: str) -> str:
    return f"{case} {name}: {verdict}"
