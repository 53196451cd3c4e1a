"""The plan of a run: scenarios validated, expanded into cases, and selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capturegate.errors import InputError
from capturegate.gates.base import Gate
from capturegate.run.engines import ADAPTERS, BACKENDS, entry_points
from capturegate.run.keyword import parse_keyword
from capturegate.run.pool import TIME_LIMIT_S_DEFAULT, Answer, Pool, Task
from capturegate.scenario.loader import find_scenarios, load_scenarios, shipped_scenarios
from capturegate.scenario.model import Case, Scenario
from capturegate.scenario.problems import Problems, unknown
from capturegate.scenario.validate import validate_against_engine, validate_gates

# Every other backend may hold a device context, and none of those lives through a fork.
_FORKABLE_BACKENDS = frozenset({"fake"})
_OWN_ENGINES = ("capturegate", "capturegate_backends")
"""Packages of engines that come with the harness: they read no switches, and share their
package with what a zygote needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cases of the scenarios run; empty means all."""

    keyword: str = ""
    lanes: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.keyword or self.lanes or self.arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cases of a run, in the order in which they are reported.

    `unfiltered` says that these are all cases of their scenarios.
    """

    cases: tuple[Case, ...]
    unfiltered: bool


def load(paths: Sequence[Path | str]) -> list[Scenario]:
    """The scenarios in the paths; those that installed packages ship when there are no paths.

    Raises:
        InputError: a path or a file in it is wrong, or there is no scenario at all.
    """
    scenarios = load_scenarios(find_scenarios(paths) if paths else shipped_scenarios())
    if not scenarios:
        raise InputError(
            "there is no scenario to run",
            hint="name a file or folder with *.scenario.yaml, or install a package that ships some",
        )
    return scenarios


def expand(scenarios: Sequence[Scenario], backend: str) -> list[Case]:
    """Every case of the scenarios: lanes times arms."""
    return [
        Case(scenario=scenario, lane=lane, arm=arm, backend=backend)
        for scenario in scenarios
        for lane in scenario.lanes
        for arm in scenario.arms
    ]


def make_plan(scenarios: Sequence[Scenario], backend: str, selection: Selection) -> Plan:
    """The plan of a selection.

    Raises:
        InputError: a lane, an arm or the backend does not exist, or nothing is selected.
    """
    check_backend(backend)
    cases = expand(scenarios, backend)
    for kind, wanted, known in (
        ("lane", selection.lanes, {case.lane.name for case in cases}),
        ("arm", selection.arms, {case.arm.name for case in cases}),
    ):
        for name in wanted:
            if name not in known:
                raise unknown(kind, name, known)
    chosen = [
        case
        for case in cases
        if (not selection.lanes or case.lane.name in selection.lanes)
        and (not selection.arms or case.arm.name in selection.arms)
    ]
    if selection.keyword:
        matches = parse_keyword(selection.keyword, [case.id for case in cases])
        chosen = [case for case in chosen if matches(case.id)]
    if not chosen:
        raise _nothing_selected(selection, cases)
    return Plan(cases=tuple(chosen), unfiltered=selection.everything)


def backends() -> dict[str, str]:
    """The installed backends: name to the module that implements it."""
    return {point.name: point.module for point in entry_points(BACKENDS)}


def check_backend(backend: str) -> None:
    """See that a backend is installed.

    Raises:
        InputError: it is not.
    """
    if backend not in (known := backends()):
        raise unknown("backend", backend, known)


def check_usable(backend: str, pool: Pool) -> None:
    """See that a backend works on this machine; a child tries it.

    Raises:
        InputError: it does not.
    """
    if (problem := unusable([backend], pool)[backend]) is not None:
        raise problem


def unusable(names: Sequence[str], pool: Pool) -> dict[str, InputError | None]:
    """What keeps each backend from working on this machine, None when nothing does."""
    asked = {
        pool.submit(
            Task(
                target="backend",
                request={"backend": name},
                spawn=name not in _FORKABLE_BACKENDS,
                preload=preload_of(name),
            )
        ): name
        for name in names
    }
    return {asked[ticket]: _unusable(asked[ticket], answer) for ticket, answer in pool.answers()}


def engine_package(engine: str) -> str:
    """The top-level package of an engine's code; empty for an engine that nobody registered."""
    if ":" in engine:
        return engine.partition(":")[0].partition(".")[0]
    points = (point for point in entry_points(ADAPTERS) if point.name == engine)
    return next((point.module.partition(".")[0] for point in points), "")


def validate(
    scenarios: Sequence[Scenario],
    pool: Pool,
    gates: Mapping[str, Gate],
    preload: tuple[str, ...] = (),
    time_limit_s: float = TIME_LIMIT_S_DEFAULT,
) -> None:
    """Hold scenarios against gates and against their engines, each asked in a child.

    Args:
        scenarios: what to validate.
        pool: where the children run.
        gates: the gates that exist, by name.
        preload: as the cases have it, so that they can share a zygote.
        time_limit_s: how long the import of an engine may take.

    Raises:
        InputErrors: what does not fit.
    """
    shapes = {
        name: {
            "code": gate.code,
            "params": {key: kind.__name__ for key, kind in gate.params.items()},
        }
        for name, gate in gates.items()
    }
    engines = list(dict.fromkeys(scenario.engine for scenario in scenarios))
    asked = {
        pool.submit(
            Task(
                target="describe",
                request={"engine": engine},
                absent=_absent(engine),
                preload=preload,
                time_limit_s=time_limit_s,
            )
        ): engine
        for engine in engines
    }
    answers = {asked[ticket]: answer for ticket, answer in pool.answers()}
    problems = Problems()
    for scenario in scenarios:
        problems.take(None, validate_gates, scenario, shapes)
        answer = answers[scenario.engine]
        if answer.value is None:
            problems.add(_undescribed(scenario, answer))
        elif "error" in answer.value:
            problems.add(InputError(answer.value["error"], where=scenario.where["engine"]))
        else:
            problems.take(None, validate_against_engine, scenario, answer.value)
    problems.raise_any()


def preload_of(backend: str) -> tuple[str, ...]:
    """What the zygotes of a backend's cases load: the backend, when it survives a fork."""
    return (backends()[backend],) if backend in _FORKABLE_BACKENDS else ()


def case_task(case: Case, request: Mapping[str, Any], time_limit_s: float) -> Task:
    """The task that runs a case."""
    return Task(
        target="case",
        request=request,
        env=case.lane.env,
        spawn=case.backend not in _FORKABLE_BACKENDS,
        absent=_absent(case.scenario.engine),
        preload=preload_of(case.backend),
        time_limit_s=time_limit_s,
    )


def _unusable(backend: str, answer: Answer) -> InputError | None:
    if answer.value is not None:
        return None
    return answer.input_error or InputError(f"backend '{backend}' does not work: {answer.error}")


def _undescribed(scenario: Scenario, answer: Answer) -> InputError:
    where = scenario.where["engine"]
    if answer.loaded:
        package = engine_package(scenario.engine)
        return InputError(
            f"engine '{scenario.engine}': the name '{package}' is taken",
            where=where,
            expected="a package with a name that Python and Capturegate do not use themselves",
        )
    problem = f"engine '{scenario.engine}' cannot be imported: {answer.error}"
    return InputError(problem, where=where)


def _absent(engine: str) -> tuple[str, ...]:
    package = engine_package(engine)
    return () if package in ("", *_OWN_ENGINES) else (package,)


def _nothing_selected(selection: Selection, cases: Sequence[Case]) -> InputError:
    said = [f"-k {selection.keyword!r}"] if selection.keyword else []
    said += [f"--lane {lane}" for lane in selection.lanes]
    said += [f"--arm {arm}" for arm in selection.arms]
    some = ", ".join(case.id for case in cases[:3])
    return InputError(
        f"{' '.join(said)} selects none of the {len(cases)} cases",
        expected=f"ids such as {some}",
        hint="`capturegate list` prints every case",
    )
