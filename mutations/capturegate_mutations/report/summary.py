"""A run's totals and the sentences that every report shares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from capturegate_mutations.evidence import Figures, Row
from capturegate_mutations.verdict import Proof


@dataclass(slots=True, kw_only=True)
class Sheet:
    """The rows of a run in the order of their plans, and what the run took.

    `mutants` counts those that ran now and `cases_run` their cases. `duration_s` is the whole
    run's wall time and `mutants_s` the part of it that went into mutants. `scope` says which cases
    the verdicts are about when they are not about all. `taken` counts rows of an earlier run.
    """

    rows: list[Row] = field(default_factory=list)
    cases: int = 0
    cases_run: int = 0
    mutants: int = 0
    workers: int = 0
    duration_s: float = 0.0
    mutants_s: float = 0.0
    controls: str = ""
    scope: str = ""
    taken: int = 0

    @property
    def all_proved(self) -> bool:
        """Whether there is a row and every one is proved."""
        return bool(self.rows) and all(row.proof is Proof.PROVED for row in self.rows)

    @property
    def exit_code(self) -> int:
        """0 when everything is proved, 1 when something is not."""
        return 0 if self.all_proved else 1


def closing_line(sheet: Sheet) -> str:
    """The last line: counts by verdict, time, mutants a second."""
    counts = {proof: sum(row.proof is proof for row in sheet.rows) for proof in Proof}
    parts = [f"mutations: {len(sheet.rows)}", f"{counts[Proof.PROVED]} proved"]
    parts += [f"{n} {proof}" for proof, n in counts.items() if n and proof is not Proof.PROVED]
    rate = sheet.mutants / sheet.mutants_s if sheet.mutants_s else 0.0
    speed = f"{sheet.mutants} mutants x {sheet.cases} cases in {sheet.mutants_s:.1f} s"
    if sheet.mutants:
        speed += f", {sheet.cases_run} of {sheet.mutants * sheet.cases} had to run"
    whole = f"{rate:.1f} mutants/s · whole sheet {sheet.duration_s:.1f} s, {sheet.workers} workers"
    return f"{' | '.join(parts)} · {speed} · {whole}"


def cases_text(row: Row) -> str:
    """How many cases had to run, and why not the others."""
    rest = ", the flip reaches no other" if row.cases_run < row.cases else ""
    return f"{row.cases_run} of {row.cases} ran{rest}"


def figure_text(figures: Figures) -> str:
    """A gate's numbers in the mutant, with the baseline's where they differ."""
    after = figures.mutant
    words = []
    if {"inside", "step"} <= after.keys():
        before = figures.baseline
        was = f" (was {before['inside']} / {before['step']})" if "step" in before else ""
        words.append(f"inside / step {after['inside']} / {after['step']}{was}")
    words += [
        f"{name} {value}"
        for name, value in after.items()
        if name not in ("inside", "step") and figures.baseline.get(name) != value
    ]
    return ", ".join(words)


def most_telling(figures: Sequence[Figures]) -> Figures:
    """The figures with the most allocations inside a window, else the first."""
    return max(figures, key=lambda f: int(f.mutant.get("inside", -1)))


def grouped(entries: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    """Cases with the same ids and verdicts in one line each, as plans write them."""
    lines: dict[str, list[str]] = {}
    for case, members in entries.items():
        text = ", ".join(f"{name}: {verdict}" for name, verdict in members.items())
        lines.setdefault(text, []).append(case)
    return [(key, text) for text, cases in lines.items() for key in folded(cases)]


_KEY = re.compile(r"(.*)\[(.*)/(.*)\]")


def folded(cases: Iterable[str]) -> list[str]:
    """Case names with alternative arms, then alternative ends of scenario names, in braces."""
    arms: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        match = _KEY.fullmatch(case)
        if match is None:
            raise ValueError(f"not a case name: {case}")
        scenario, lane, arm = match.groups()
        arms.setdefault((scenario, lane), []).append(arm)
    scenarios: dict[tuple[str, str], list[str]] = {}
    for (scenario, lane), names in arms.items():
        family = scenario.partition("-")[0]
        where = f"[{lane}/{_braced(names)}]"
        scenarios.setdefault((family, where), []).append(scenario)
    return [
        f"{name}{where}"
        for (family, where), names in scenarios.items()
        for name in _family(family, names)
    ]


def _family(family: str, names: list[str]) -> list[str]:
    ends = [name.removeprefix(f"{family}-") for name in names]
    if len(names) == 1 or family in names:
        return names
    return [f"{family}-{_braced(ends)}"]


def _braced(choices: list[str]) -> str:
    return choices[0] if len(choices) == 1 else "{" + ",".join(choices) + "}"


def differences(row: Row) -> Sequence[tuple[str, str]]:
    """What does not fit, labelled."""
    labelled = (
        ("missing", row.missing),
        ("instead", row.other),
        ("extra", row.extra),
        ("tolerated", row.tolerated),
    )
    return [(label, sentence) for label, sentences in labelled for sentence in sentences]
