"""The baseline that mutants are compared with, and when it is no ground to compare on."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from capturegate.errors import CapturegateError
from capturegate.run.result import CaseResult
from capturegate.scenario.model import Case
from capturegate_mutations.batch import Outcome
from capturegate_mutations.plan import CaseKey
from capturegate_mutations.reach import Hits
from capturegate_mutations.source import InvalidFlip, read_source
from capturegate_mutations.verdict import Proof, key_of, members_of

_ALWAYS_WARM = frozenset({"numpy", "yaml"})


class BaselineRefused(CapturegateError):
    """The baseline is no ground to compare on."""

    def __init__(self, proof: Proof, reason: str) -> None:
        self.proof = proof
        self.reason = reason
        super().__init__(reason)


@dataclass(slots=True, kw_only=True)
class Ground:
    """What mutants are compared with.

    `tree` is the hash of the files `watched`, `loaded` that of the modules that cases import;
    `hits` says what each case entered of that which mutants touch, `oracle_hits` what it had
    entered when its oracle was done.
    """

    baseline: dict[CaseKey, CaseResult]
    hits: Hits = field(default_factory=dict)
    oracle_hits: Hits = field(default_factory=dict)
    tree: str = ""
    watched: tuple[Path, ...] = ()
    loaded: str = ""


def own_modules(loaded: Collection[str]) -> dict[str, str]:
    """The source files of loaded modules that neither Python nor a zygote brings along."""
    found = {}
    for name in loaded:
        if name.split(".")[0] in sys.stdlib_module_names | _ALWAYS_WARM or name.startswith("__"):
            continue
        with suppress(InvalidFlip):
            found[name] = read_source(name).path
    return found


def refuse_red(outcome: Outcome, cases: Sequence[Case]) -> None:
    """Refuse a baseline that did not run every case, is not as expected, or judged nothing.

    Raises:
        BaselineRefused: that is so.
    """
    if outcome.proof is not None:
        raise BaselineRefused(Proof.BASELINE_RED, f"the baseline did not run: {outcome.reason}")
    wanted = {case.name for case in cases}
    if outcome.results.keys() != wanted:
        raise BaselineRefused(Proof.BASELINE_RED, "the baseline did not run every case")
    red = [name for name, result in outcome.results.items() if not result.as_expected]
    if red:
        raise BaselineRefused(
            Proof.BASELINE_RED,
            f"{len(red)} case(s) are not as expected without any flip: {', '.join(red[:5])}",
        )
    if not any(result.judged for result in outcome.results.values()):
        raise BaselineRefused(Proof.BASELINE_RED, "the baseline judged nothing: all was skipped")


def differing(baseline: Mapping[CaseKey, CaseResult], second: Outcome) -> list[CaseKey]:
    """The cases whose verdicts, figures or number of calls differ, or that did not run again."""
    return [
        name
        for name, result in baseline.items()
        if name not in second.results or _facts(result) != _facts(second.results[name])
    ]


def refuse_flaky(baseline: Mapping[CaseKey, CaseResult], second: Outcome) -> None:
    """Refuse a baseline that is another one the second time.

    Raises:
        BaselineRefused: that is so.
    """
    if second.proof is not None:
        raise BaselineRefused(Proof.FLAKY, f"the baseline ran once, and not again: {second.reason}")
    if names := differing(baseline, second):
        raise BaselineRefused(Proof.FLAKY, f"{names[0]} differs between two runs of the baseline")


def _facts(result: CaseResult) -> tuple[object, ...]:
    figures = [(gate.gate, gate.figures) for gate in result.gates]
    return key_of(result), members_of(result), figures, result.events
