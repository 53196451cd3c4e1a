"""A run: baseline twice, controls, then one mutant after the other, each in its own children."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from capturegate.errors import CapturegateError, InputError
from capturegate.run.pool import Answer, Pool
from capturegate.run.result import CaseResult
from capturegate.scenario.model import Case
from capturegate_mutations import controls
from capturegate_mutations.batch import Outcome, Settings, budget, collect, tasks_of
from capturegate_mutations.imports import import_graph, importers_of
from capturegate_mutations.plan import CaseKey, Plan
from capturegate_mutations.prepare import Mutant, prepare
from capturegate_mutations.source import InvalidFlip, read_source
from capturegate_mutations.tree import tree_hash
from capturegate_mutations.verdict import Proof, key_of, members_of

INSTRUMENT = ("capturegate", "capturegate_backends")
_ALWAYS_WARM = frozenset({"numpy", "yaml"})


class BaselineRefused(CapturegateError):
    """The baseline is no ground to compare on."""

    def __init__(self, proof: Proof, reason: str) -> None:
        self.proof = proof
        self.reason = reason
        super().__init__(reason)


class TreeChanged(CapturegateError):
    """Files changed while the run was under way."""


@dataclass(slots=True, kw_only=True)
class Ground:
    """What mutants are compared with, and how their children run.

    `tree` is the hash of the files `watched`, `loaded` that of the modules that cases import.
    """

    baseline: dict[CaseKey, CaseResult]
    settings: Settings
    tree: str
    watched: tuple[Path, ...]
    loaded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan with its mutant, or with what makes it invalid."""

    plan: Plan
    mutant: Mutant | None
    invalid: str = ""

    @property
    def bare(self) -> bool:
        """Whether the flip is on the instrument, so that nothing of it may be loaded."""
        return any(module.split(".")[0] in INSTRUMENT for module in self.plan.modules)


def prepare_all(plans: Sequence[Plan], cases: Sequence[Case]) -> list[Prepared]:
    """Every plan with its flips applied in memory."""
    found = []
    for plan in plans:
        try:
            found.append(Prepared(plan=plan, mutant=prepare(plan, cases)))
        except InvalidFlip as error:
            found.append(Prepared(plan=plan, mutant=None, invalid=str(error)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A mutant to run in full before anything else happens."""

    mutant: Mutant
    bare: bool
    tell_modules: bool = False
    parts: int = 1


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs mutants on a pool.

    `say` hears what is being done, for a progress line.
    """

    pool: Pool
    cases: Sequence[Case]
    prepared: list[Prepared]
    settings: Settings
    say: Callable[[str], None] = field(default=lambda _: None)

    def ground(self) -> Ground:
        """Run the baseline twice, bare and warmed, and the controls.

        Raises:
            InputError: there is no case.
            BaselineRefused: the baseline is red, judged nothing, or differed.
            ControlError: a control failed.
        """
        if not self.cases:
            raise InputError("there is no case to prove anything on")
        watched = self._watched()
        tree = tree_hash(watched)
        self.say("baseline")
        plain = Mutant(cases=tuple(self.cases))
        [first] = self._run(_Job(mutant=plain, bare=True, tell_modules=True, parts=2))
        refuse_red(first, self.cases)
        self._refuse_carriers(first.carried)
        own = own_modules(first.modules)
        self.settings.preload = self._preload(own)
        self.settings.calls_max = budget(first.results)
        self.say("baseline again, and controls")
        self._controls(first.results, plain)
        return Ground(
            baseline=first.results,
            settings=self.settings,
            tree=tree,
            watched=watched,
            loaded=tree_hash(Path(path) for path in own.values()),
        )

    def mutants(self, wanted: Container[str]) -> Iterator[tuple[Prepared, Outcome]]:
        """The outcomes of the mutants of that name as they come, each in its own children."""
        todo = [item for item in self.prepared if item.plan.name in wanted]
        waiting: dict[int, Prepared] = {}
        open_tasks: dict[int, int] = {}
        answers: dict[int, list[Answer]] = {}
        for number, item in enumerate(todo):
            if item.mutant is None:
                yield item, Outcome(proof=Proof.INVALID, reason=item.invalid)
                continue
            tasks = tasks_of(item.mutant, self.settings, bare=item.bare)
            open_tasks[number], answers[number] = len(tasks), []
            for task in tasks:
                waiting[self.pool.submit(task)] = item
        numbers = {id(item): number for number, item in enumerate(todo)}
        for ticket, answer in self.pool.answers():
            item = waiting.pop(ticket)
            number = numbers[id(item)]
            answers[number].append(answer)
            if len(answers[number]) == open_tasks[number]:
                yield item, collect(answers.pop(number), self.cases)

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

    def _controls(self, baseline: dict[CaseKey, CaseResult], plain: Mutant) -> None:
        """The second baseline in warmed zygotes, and the controls of both kinds of zygotes."""
        runnable = [item for item in self.prepared if item.mutant is not None]
        bare = sorted({m for item in runnable if item.bare for m in item.plan.modules})
        warm = sorted({m for item in runnable if not item.bare for m in item.plan.modules})
        own = bare or [controls.CANARY_MODULE]
        canary_cases = controls.cheapest(self.cases, baseline)
        second, canary, instrument, production, *raisers = self._run(
            _Job(mutant=plain, bare=False),
            _Job(mutant=controls.canary(canary_cases), bare=True),
            _Job(mutant=controls.noop(own, self.cases), bare=True),
            _Job(mutant=controls.noop(warm, self.cases), bare=False),
            *(_Job(mutant=controls.raiser(module, self.cases), bare=False) for module in warm),
        )
        refuse_flaky(baseline, second)
        controls.check_canary(canary, baseline)
        controls.check_noop(instrument, baseline, "instrument")
        controls.check_noop(production, baseline, "production")
        for module, outcome in zip(warm, raisers, strict=True):
            controls.check_raiser(module, outcome)


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


def refuse_flaky(baseline: dict[CaseKey, CaseResult], second: Outcome) -> None:
    """Refuse a baseline whose verdicts, figures or number of calls differ the second time.

    Raises:
        BaselineRefused: that is so.
    """
    if second.proof is not None:
        raise BaselineRefused(Proof.FLAKY, f"the baseline ran once, and not again: {second.reason}")
    for name, result in baseline.items():
        again = second.results.get(name)
        if again is None or _facts(result) != _facts(again):
            raise BaselineRefused(Proof.FLAKY, f"{name} differs between two runs of the baseline")


def _facts(result: CaseResult) -> tuple[object, ...]:
    figures = [(gate.gate, gate.figures) for gate in result.gates]
    return key_of(result), members_of(result), figures, result.events
