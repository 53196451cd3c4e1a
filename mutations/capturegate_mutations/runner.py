"""A run: baseline twice, controls, then one mutant after the other, each in its own children."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capturegate.errors import CapturegateError, InputError
from capturegate.run.pool import Answer, Pool
from capturegate.run.result import CaseResult
from capturegate.scenario.model import Case
from capturegate.scenario.problems import Problems
from capturegate_mutations import controls
from capturegate_mutations.batch import Outcome, Settings, budget, collect, tasks_of
from capturegate_mutations.ground import (
    Ground,
    differing,
    own_modules,
    refuse_flaky,
    refuse_red,
)
from capturegate_mutations.imports import import_graph, importers_of
from capturegate_mutations.plan import CaseKey, Plan
from capturegate_mutations.prepare import Mutant, prepare
from capturegate_mutations.probes import write_probed
from capturegate_mutations.reach import flips_instrument, oracles_known, probes_of, reached
from capturegate_mutations.source import read_source
from capturegate_mutations.tree import tree_hash
from capturegate_mutations.verdict import Proof


class TreeChanged(CapturegateError):
    """Files changed while the run was under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan with its mutant, or with what makes it invalid.

    `mistake` is what the plan itself has wrong, `invalid` that or something else, in words.
    """

    plan: Plan
    mutant: Mutant | None
    invalid: str = ""
    mistake: InputError | None = None

    @property
    def bare(self) -> bool:
        """Whether the flip is on the instrument, so that nothing of it may be loaded."""
        return flips_instrument(self.plan)


def prepare_all(plans: Sequence[Plan], cases: Sequence[Case]) -> list[Prepared]:
    """Every plan with its flips applied in memory, or with what is wrong with them."""
    found = []
    for plan in plans:
        try:
            found.append(Prepared(plan=plan, mutant=prepare(plan, cases)))
        except InputError as error:
            found.append(Prepared(plan=plan, mutant=None, invalid=str(error), mistake=error))
    return found


def refuse_mistakes(prepared: Sequence[Prepared]) -> None:
    """Refuse plans with a flip that cannot be applied, before anything runs.

    Raises:
        InputErrors: there are such plans; every one of their mistakes is told.
    """
    problems = Problems()
    for item in prepared:
        if item.mistake is not None:
            problems.add(item.mistake)
    problems.raise_any()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A mutant to run in full before anything else happens."""

    mutant: Mutant
    bare: bool
    tell_modules: bool = False
    parts: int = 1
    probed: str = ""


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs mutants on a pool.

    `all_cases` runs cases too that a mutant cannot change. `say` hears what is being done, for a
    progress line.
    """

    pool: Pool
    cases: Sequence[Case]
    prepared: list[Prepared]
    settings: Settings
    all_cases: bool = False
    say: Callable[[str], None] = field(default=lambda _: None)

    def ground(self) -> Ground:
        """Run the baseline twice, bare and warmed, and the controls.

        Raises:
            InputError: there is no case.
            BaselineRefused: the baseline is red, judged nothing, or differed.
            ControlError: a control failed.
            TreeChanged: a flipped source is not what it was any more.
        """
        if not self.cases:
            raise InputError("there is no case to prove anything on")
        watched = self._watched()
        tree = tree_hash(watched)
        self._refuse_changed()
        self.say("baseline")
        plain = Mutant(cases=tuple(self.cases))
        [first] = self._run(_Job(mutant=plain, bare=True, tell_modules=True, parts=2))
        refuse_red(first, self.cases)
        self._refuse_carriers(first.carried)
        own = own_modules(first.modules)
        self.settings.preload = self._preload(own)
        self.settings.calls_max = budget(first.results)
        self.say("baseline again, and controls")
        second = self._controls(first.results, plain)
        return Ground(
            baseline=first.results,
            hits=second.hits,
            oracle_hits=second.oracle_hits,
            tree=tree,
            watched=watched,
            loaded=tree_hash(Path(path) for path in own.values()),
        )

    def mutants(self, wanted: Container[str], ground: Ground) -> Iterator[tuple[Prepared, Outcome]]:
        """The outcomes of the mutants of that name as they come, each in its own children.

        An outcome has a result for every case: the baseline's where the mutant cannot differ.
        """
        running: dict[int, _Running] = {}
        for item in self.prepared:
            if item.plan.name not in wanted:
                continue
            if item.mutant is None:
                yield item, Outcome(proof=Proof.INVALID, reason=item.invalid)
                continue
            cases, known = item.mutant.cases, frozenset[CaseKey]()
            if not self.all_cases:
                cases = reached(item.plan, item.mutant, ground.hits)
                known = oracles_known(item.plan, item.mutant, ground.hits, ground.oracle_hits)
            mutant = replace(item.mutant, cases=cases)
            tasks = tasks_of(mutant, self.settings, bare=item.bare, known=known)
            run = _Running(item=item, cases=cases, open_tasks=len(tasks))
            if not tasks:
                yield item, run.outcome(ground)
            for task in tasks:
                running[self.pool.submit(task)] = run
        for ticket, answer in self.pool.answers():
            run = running.pop(ticket)
            run.answers.append(answer)
            if len(run.answers) == run.open_tasks:
                yield run.item, run.outcome(ground)

    def check_tree(self, ground: Ground) -> None:
        """Compare the files with what they were.

        Raises:
            TreeChanged: they are not the same.
        """
        if tree_hash(ground.watched) != ground.tree:
            raise TreeChanged(
                "tracked files changed during the run, so its verdicts belong to no version"
            )

    def _run(self, *jobs: _Job) -> list[Outcome]:
        """The outcomes of jobs that run side by side."""
        tickets = []
        for job in jobs:
            tasks = tasks_of(
                job.mutant,
                self.settings,
                bare=job.bare,
                tell_modules=job.tell_modules,
                parts=job.parts,
                probed=job.probed,
            )
            tickets.append([self.pool.submit(task) for task in tasks])
        answers = dict(self.pool.answers())
        for answer in answers.values():
            if answer.input_error is not None:
                raise answer.input_error
        return [
            collect([answers[ticket] for ticket in own], job.mutant.cases)
            for job, own in zip(jobs, tickets, strict=True)
        ]

    def _refuse_carriers(self, carried: frozenset[str]) -> None:
        """What has to be loaded before anything can be served cannot be flipped itself."""
        for number, item in enumerate(self.prepared):
            if found := sorted(item.plan.modules & carried):
                self.prepared[number] = replace(
                    item, mutant=None, invalid=f"{found[0]} carries the proof: it cannot be flipped"
                )

    def _refuse_changed(self) -> None:
        """A mutant of an older text than the baseline's would be compared with another version."""
        mutants = [item.mutant for item in self.prepared if item.mutant]
        for source in {source for mutant in mutants for source in mutant.originals}:
            if read_source(source.module) != source:
                raise TreeChanged(f"{source.path} changed after it was flipped")

    def _watched(self) -> tuple[Path, ...]:
        paths = {Path(case.scenario.path) for case in self.cases}
        paths |= {Path(item.plan.path) for item in self.prepared}
        mutants = [item.mutant for item in self.prepared if item.mutant]
        paths |= {Path(source["path"]) for mutant in mutants for source in mutant.sources}
        return tuple(sorted(path for path in paths if path.is_file()))

    def _preload(self, own: Collection[str]) -> tuple[str, ...]:
        """What a case loads, less every production module that is flipped and who imports it."""
        flipped = {m for item in self.prepared if not item.bare for m in item.plan.modules}
        graph = import_graph(own)
        return tuple(sorted(graph.keys() - importers_of(flipped, graph)))

    def _controls(self, baseline: dict[CaseKey, CaseResult], plain: Mutant) -> Outcome:
        """The controls, and the baseline once more: warmed, each case in a child of its own.

        The second time flipped modules of production code are served with probes in them, which
        has to change nothing.
        """
        runnable = [(item.plan, item.mutant) for item in self.prepared if item.mutant is not None]
        bare = sorted({m for plan, _ in runnable if flips_instrument(plan) for m in plan.modules})
        keys = probes_of(runnable)
        warm = sorted({key.partition(":")[0] for key in keys})
        alone = len(self.cases)
        canary_cases = controls.cheapest(self.cases, baseline)
        with tempfile.TemporaryDirectory(prefix="capturegate-") as folder:
            file = Path(folder, "probed")
            write_probed(keys, file)
            second, canary, *others = self._run(
                _Job(mutant=plain, bare=False, parts=alone, probed=str(file)),
                _Job(mutant=controls.canary(canary_cases), bare=True),
                *(_Job(mutant=controls.raiser(name, self.cases), bare=False) for name in warm),
                *([_Job(mutant=controls.noop(bare, self.cases), bare=True)] if bare else []),
            )
        self._check_second(baseline, second)
        controls.check_canary(canary, baseline)
        for module, outcome in zip(warm, others, strict=False):
            controls.check_raiser(module, outcome)
        if bare:
            controls.check_noop(others[-1], baseline)
        return second

    def _check_second(self, baseline: dict[CaseKey, CaseResult], second: Outcome) -> None:
        """Tell a baseline that differs by itself from one that its probes changed."""
        names = differing(baseline, second)
        if second.proof is None and not names:
            return
        cases = tuple(case for case in self.cases if case.name in names or second.proof)
        [plain] = self._run(_Job(mutant=Mutant(cases=cases), bare=False, parts=len(cases)))
        refuse_flaky({case.name: baseline[case.name] for case in cases}, plain)
        raise controls.ControlError(
            second.reason or f"serving the modules' own code with probes changed {names[0]}"
        )


@dataclass(slots=True, kw_only=True)
class _Running:
    """A mutant whose tasks are under way."""

    item: Prepared
    cases: tuple[Case, ...]
    open_tasks: int
    answers: list[Answer] = field(default_factory=list)

    def outcome(self, ground: Ground) -> Outcome:
        """What its answers came to, with the baseline's results of the cases that did not run."""
        outcome = collect(self.answers, self.cases)
        if outcome.proof is not None:
            return outcome
        if outcome.results.keys() != {case.name for case in self.cases}:
            outcome.proof, outcome.reason = Proof.CRASH, "the mutant did not run every case"
            return outcome
        outcome.results = {**ground.baseline, **outcome.results}
        return outcome
