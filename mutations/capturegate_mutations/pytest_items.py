"""Plans as pytest sees them: `*.mutation.yaml` is one item, green when the mutation is proved.

A plan is proved on the scenarios that lie beside or below it; where there are none, on those
that installed packages ship. Baseline and controls are run once a process, before the first plan.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import TerminalRepr

from capturegate.errors import InputError
from capturegate.gates.registry import all_gates
from capturegate.pytest_cases import pool_of
from capturegate.pytest_failure import NotAsExpectedError, told
from capturegate.pytest_plugin import backend_of
from capturegate.report.text import clean, short_path
from capturegate.run.plan import expand, load, validate
from capturegate.run.pool import TIME_LIMIT_S_DEFAULT
from capturegate.scenario.loader import SUFFIX as SCENARIO_SUFFIX
from capturegate.scenario.loader import files_below
from capturegate.scenario.model import Case, Scenario
from capturegate_mutations.batch import Settings
from capturegate_mutations.controls import ControlError
from capturegate_mutations.evidence import Row, bare_row
from capturegate_mutations.ground import BaselineRefused, Ground
from capturegate_mutations.plan import Plan
from capturegate_mutations.reader import load_plan
from capturegate_mutations.report.summary import differences, grouped
from capturegate_mutations.runner import Runner, TreeChanged, prepare_all
from capturegate_mutations.session import judge
from capturegate_mutations.verdict import Proof

_SEED = 0


@dataclass(slots=True, kw_only=True)
class Bench:
    """The cases that some plans are proved on, and what their mutants are compared with.

    `folder` holds the scenarios; None for the shipped ones. `refusal` keeps what the baseline or
    the controls raised: every plan on this bench says it.
    """

    folder: Path | None
    scenarios: tuple[Scenario, ...]
    cases: tuple[Case, ...]
    plans: dict[str, Plan] = field(default_factory=dict)
    runner: Runner | None = None
    ground: Ground | None = None
    refusal: Exception | None = None

    def add(self, plan: Plan) -> None:
        """Take a plan on.

        Raises:
            InputError: another file has a plan of that name.
        """
        other = self.plans.setdefault(plan.name, plan)
        if other.path != plan.path:
            raise InputError(
                f"mutation '{plan.name}' exists already, in {other.path}", where=plan.where
            )


_BENCHES = pytest.StashKey[dict[Path | None, Bench]]()


def items_of(file: pytest.File) -> Iterator[pytest.Item]:
    """The item of a plan file.

    Raises:
        InputError: the file is no plan, or its scenarios are wrong.
    """
    benches = file.config.stash.setdefault(_BENCHES, {})
    folder = file.path.parent
    beside = bool(files_below(folder, SCENARIO_SUFFIX))
    key = folder if beside else None
    if key not in benches:
        scenarios = load([folder] if beside else [])
        cases = expand(scenarios, backend_of(file.config))
        benches[key] = Bench(folder=key, scenarios=tuple(scenarios), cases=tuple(cases))
    bench = benches[key]
    plan = load_plan(Path(short_path(str(file.path))), [case.name for case in bench.cases])
    bench.add(plan)
    yield PlanItem.from_parent(file, name=plan.name, plan=plan, bench=bench)


class PlanItem(pytest.Item):
    """A mutation plan."""

    def __init__(self, *, plan: Plan, bench: Bench, **node: Any) -> None:
        super().__init__(**node)
        self.plan = plan
        self.bench = bench

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the plan, and its name."""
        return self.path, self.plan.where.line - 1, f"mutation {self.name}"

    def runtest(self) -> None:
        """Prove the mutation.

        Raises:
            NotAsExpectedError: it is not proved.
        """
        row = bare_row(self.plan, Proof.INVALID, "", rerun=self._rerun(), fingerprint="")
        try:
            self._fill(row)
        except BaselineRefused as refused:
            row.proof, row.reason = refused.proof, refused.reason
        except (ControlError, TreeChanged) as error:
            said = f"no verdict counts: {error}"
            raise NotAsExpectedError(clean(said), said) from error
        if row.proof is not Proof.PROVED:
            differs = [f"{label} {sentence}" for label, sentence in differences(row)]
            reasons = [line for line in row.reason.splitlines() if line.strip()]
            why = next(iter([*differs, *reasons]), "nothing changed")
            raise NotAsExpectedError(clean(f"{row.proof}: {why}"), _text(row))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """The evidence; a traceback only for the plugin's own mistakes."""
        error = excinfo.value
        if isinstance(error, NotAsExpectedError):
            return told(error, self.path, self.plan.where.line)
        if isinstance(error, InputError):
            return str(error)
        return super().repr_failure(excinfo, style)

    def _fill(self, row: Row) -> None:
        runner, ground = self._prepared()
        for item, outcome in runner.mutants({self.plan.name}, ground):
            judge(item, outcome, ground, row)
        runner.check_tree(ground)

    def _prepared(self) -> tuple[Runner, Ground]:
        """The bench's runner with its ground, made for all plans that this session selected."""
        bench = self.bench
        if bench.refusal is not None:
            raise bench.refusal
        if bench.runner is None or bench.ground is None:
            chosen = [
                item.plan
                for item in self.session.items
                if isinstance(item, PlanItem) and item.bench is bench
            ]
            bench.runner = Runner(
                pool=pool_of(self.config),
                cases=bench.cases,
                prepared=prepare_all(chosen, bench.cases),
                settings=Settings(seed=_SEED, time_limit_s=TIME_LIMIT_S_DEFAULT),
            )
            try:
                validate(bench.scenarios, pool_of(self.config), all_gates())
                bench.ground = bench.runner.ground()
            except (BaselineRefused, ControlError, InputError) as error:
                bench.refusal = error
                raise
        return bench.runner, bench.ground

    def _rerun(self) -> str:
        words = ["capturegate", "mutate", self.plan.path, "-k", self.plan.name]
        if self.bench.folder is not None:
            words += ["--scenarios", short_path(str(self.bench.folder))]
        return shlex.join(words)


def _text(row: Row) -> str:
    lines = [f"{row.mutation}: {row.proof}", f"  {row.about}"]
    lines += [f"  | {line}" for line in row.hunk.splitlines()]
    lines += [f"  {line}" for line in row.reason.splitlines()]
    for title, entries in (("expected", row.expected), ("observed", row.observed)):
        found = grouped(entries) or [("nothing", "")]
        lines += [f"  {title:<10}{case}  {said}".rstrip() for case, said in found]
    lines += [f"  {label:<10}{sentence}" for label, sentence in differences(row)]
    return "\n".join([*map(clean, lines), f"  again     {row.rerun}"])
