"""One `capturegate mutate`: from plans and scenarios to a sheet of rows."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capturegate.errors import InputError
from capturegate.gates.registry import all_gates
from capturegate.run.keyword import parse_keyword
from capturegate.run.plan import check_backend, check_usable, expand, load, preload_of, validate
from capturegate.run.pool import Pool
from capturegate.run.store import Writer
from capturegate.scenario.model import Case
from capturegate_mutations.batch import Outcome, Settings
from capturegate_mutations.evidence import Row, bare_row, tell
from capturegate_mutations.ground import BaselineRefused, Ground
from capturegate_mutations.members import check_members
from capturegate_mutations.plan import Plan, ScenarioFlip
from capturegate_mutations.reader import find_plans, load_plans, shipped_plans
from capturegate_mutations.report.summary import Sheet
from capturegate_mutations.runner import Prepared, Runner, prepare_all, refuse_mistakes
from capturegate_mutations.store import ROWS, fingerprint
from capturegate_mutations.verdict import Changes, Proof, changes_of, compare, without_blocked


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for; empty `plans` and `scenarios` mean the shipped ones."""

    plans: tuple[Path, ...] = ()
    scenarios: tuple[Path, ...] = ()
    keyword: str = ""
    backend: str = "fake"
    seed: int = 0
    workers: int = 2
    time_limit_s: float = 60.0
    results: Path | None = None
    resume: Path | None = None
    draft: bool = False
    all_cases: bool = False


@dataclass(slots=True, kw_only=True)
class Session:
    """Runs a request; `say` hears what is being done, `came` every row as it comes."""

    request: Request
    say: Callable[[str], None] = field(default=lambda _: None)
    came: Callable[[Row], None] = field(default=lambda _: None)
    _known: dict[str, Row] = field(default_factory=dict, init=False)
    _writer: Writer[Row] | None = field(default=None, init=False)

    def run(self) -> Sheet:
        """The sheet of all plans, in their order.

        Raises:
            InputError: plans or scenarios are wrong, or nothing is left to do.
            ControlError: a control failed, so that no verdict counts.
            TreeChanged: files changed meanwhile.
        """
        started = time.perf_counter()
        request = self.request
        check_backend(request.backend)
        scenarios = load(request.scenarios)
        cases = expand(scenarios, request.backend)
        sheet = Sheet(cases=len(cases), workers=request.workers)
        plans = self._plans(cases, sheet)
        prepared = prepare_all(plans, cases)
        refuse_mistakes(prepared)
        self._known = ROWS.read(request.resume) if request.resume else {}
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(Pool(workers=request.workers))
            settings = Settings(
                seed=request.seed,
                time_limit_s=request.time_limit_s,
                oracles=stack.enter_context(tempfile.TemporaryDirectory(prefix="capturegate-")),
            )
            check_usable(request.backend, pool)
            if request.results:
                self._writer = stack.enter_context(ROWS.writer(request.results))
            validate(scenarios, pool, all_gates(), preload_of(request.backend))
            self._check_configs(prepared, pool)
            runner = Runner(
                pool=pool,
                cases=cases,
                prepared=prepared,
                settings=settings,
                all_cases=request.all_cases,
                say=self.say,
            )
            try:
                ground = runner.ground()
            except BaselineRefused as refused:
                sheet.rows = [self._row(plan, refused.proof, refused.reason) for plan in plans]
            else:
                sheet.controls = (
                    "controls: the canary was seen, "
                    "serving the modules' own sources changed nothing"
                )
                self._mutants(runner, ground, plans, sheet)
                runner.check_tree(ground)
        sheet.duration_s = time.perf_counter() - started
        return sheet

    def _plans(self, cases: Sequence[Case], sheet: Sheet) -> list[Plan]:
        request = self.request
        files = find_plans(request.plans) if request.plans else shipped_plans()
        names = {case.name for case in cases}
        shipped = set()
        if request.scenarios:
            # A plan may speak of shipped cases that were not chosen: they are set aside, aloud.
            shipped = {case.name for case in expand(load(()), request.backend)}
        whole = self._chosen(load_plans(files, names | shipped, draft=request.draft))
        check_members(whole, cases)
        plans = [plan.within(names, shipped) for plan in whole]
        aside = sum(len(plan.expect.keys() - names) for plan in whole)
        if aside:
            sheet.scope = (
                f"scope: the {len(names)} cases of the scenarios chosen; what the plans expect of "
                f"others ({aside} times a case) is set aside"
            )
        idle = [p.name for p, w in zip(plans, whole, strict=True) if w.expect and not p.expect]
        if idle:
            raise InputError(
                f"{len(idle)} mutation(s) expect nothing of the scenarios chosen: "
                f"{', '.join(idle[:5])}",
                hint="choose the plans too, or leave --scenarios out",
            )
        return plans

    def _check_configs(self, prepared: Sequence[Prepared], pool: Pool) -> None:
        """Refuse flips that set what an engine's configuration has not, where the plan says so."""
        for item in prepared:
            flips = [f for f in item.plan.flips if isinstance(f, ScenarioFlip)]
            places = [flip.where for flip in flips if flip.action == "set_config"]
            if not places or item.mutant is None:
                continue
            flipped = {case.scenario.name: case.scenario for case in item.mutant.cases}
            chosen = [flipped[f.scenario] for f in flips if f.scenario in flipped]
            try:
                validate(chosen, pool, all_gates(), preload_of(self.request.backend))
            except InputError as error:
                raise InputError(
                    f"the flipped scenario is wrong: {error}", where=places[0]
                ) from error

    def _chosen(self, plans: list[Plan]) -> list[Plan]:
        keyword = self.request.keyword
        if not keyword:
            return plans
        matches = parse_keyword(keyword, [plan.name for plan in plans])
        chosen = [plan for plan in plans if matches(plan.name)]
        if not chosen:
            raise InputError(
                f"-k {keyword!r} selects none of the {len(plans)} mutations",
                expected=f"parts of names such as {', '.join(plan.name for plan in plans[:3])}",
            )
        return chosen

    def _mutants(self, runner: Runner, ground: Ground, plans: Sequence[Plan], sheet: Sheet) -> None:
        request = self.request
        prints = {
            plan.name: fingerprint(
                plan.path, ground.tree + ground.loaded, runner.cases, request.seed
            )
            for plan in plans
        }
        rows = {n: self._known[mark] for n, mark in prints.items() if mark in self._known}
        sheet.taken = len(rows)
        started = time.perf_counter()
        todo = prints.keys() - rows.keys()
        for item, outcome in runner.mutants(todo, ground):
            row = self._row(item.plan, Proof.INVALID, "")
            judge(item, outcome, ground, row, draft=request.draft)
            row.fingerprint = prints[item.plan.name]
            rows[item.plan.name] = row
            sheet.mutants += item.mutant is not None
            sheet.cases_run += outcome.ran
            if self._writer is not None:
                self._writer.append(row.fingerprint, row)
            self.say(f"{len(rows)} of {len(plans)} mutations")
            self.came(row)
        sheet.mutants_s = time.perf_counter() - started
        sheet.rows = [rows[plan.name] for plan in plans]

    def _row(self, plan: Plan, proof: Proof, reason: str) -> Row:
        words = ["capturegate", "mutate", *map(str, self.request.plans), "-k", plan.name]
        for path in self.request.scenarios:
            words += ["--scenarios", str(path)]
        if self.request.backend != "fake":
            words += ["--backend", self.request.backend]
        if self.request.seed:
            words += ["--seed", str(self.request.seed)]
        return bare_row(plan, proof, reason, rerun=shlex.join(words), fingerprint="")


def judge(
    item: Prepared, outcome: Outcome, ground: Ground, row: Row, *, draft: bool = False
) -> None:
    """Fill the row of a mutant: its outcome against the baseline and its plan.

    Of a draft everything that changed is told, but for what is blocked by what changed.
    """
    row.duration_s = round(outcome.duration_s, 4)
    row.hunk = item.mutant.hunk if item.mutant else ""
    if outcome.proof is not None:
        row.proof, row.reason = outcome.proof, outcome.reason
        return
    row.cases_run, row.cases = outcome.ran, len(ground.baseline)
    plan = item.plan
    changes = changes_of(ground.baseline, outcome.results)
    row.proof, comparison = compare(plan, changes)
    listed = _changed(changes) if draft else _listed(plan, changes)
    seen = {case: without_blocked(members, listed[case]) for case, members in changes.items()}
    tell(row, comparison, seen, ground.baseline, outcome.results)


def _changed(changes: Changes) -> dict[str, frozenset[str]]:
    return {
        case: frozenset(name for name, member in members.items() if member.verdict != "unknown")
        for case, members in changes.items()
    }


def _listed(plan: Plan, changes: Changes) -> dict[str, frozenset[str]]:
    return {
        case: frozenset((*plan.expect.get(case, {}), *plan.also.get(case, {}))) for case in changes
    }
