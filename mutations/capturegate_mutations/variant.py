"""One case in a variant of the code, for experiments whose variable is the code."""

from __future__ import annotations

from pathlib import Path

from capturegate.run.pool import Task
from capturegate.scenario.model import Case
from capturegate.scenario.nodes import read_yaml
from capturegate.scenario.problems import unknown
from capturegate_mutations.batch import Settings, tasks_of
from capturegate_mutations.flip_reader import read_flip
from capturegate_mutations.plan import Plan
from capturegate_mutations.prepare import prepare
from capturegate_mutations.reader import SUFFIX, shipped_plans


def variant_task(name: str, case: Case, seed: int, time_limit_s: float) -> Task:
    """The task that runs a case with the flips of a shipped mutation.

    Raises:
        InputError: there is no such mutation, or it cannot be applied any more.
    """
    plans = {path.name.removesuffix(SUFFIX): path for path in shipped_plans()}
    if name not in plans:
        raise unknown("mutation", name, plans)
    plan = _flips_of(plans[name])
    mutant = prepare(plan, [case])
    [task] = tasks_of(mutant, Settings(seed=seed, time_limit_s=time_limit_s), bare=True)
    return task


def _flips_of(path: Path) -> Plan:
    """A plan without what it expects: an experiment has outcomes of its own."""
    root = read_yaml(path)
    top = root.mapping("the plan")
    return Plan(
        name=top["mutation"].text("the mutation's name"),
        about="",
        flips=tuple(read_flip(item) for item in top["flips"].sequence("'flips'")),
        expect={},
        also={},
        reasons={},
        path=str(path),
        where=top["mutation"].where,
        case_places={},
    )
