"""The names of what a plan expects to change: gates, checks of the case, the failure."""

from __future__ import annotations

from collections.abc import Sequence

from capturegate.errors import InputError, Location
from capturegate.gates.registry import all_gates
from capturegate.scenario.model import Case
from capturegate.scenario.problems import Problems, unknown
from capturegate_mutations.plan import FAILURE, Plan

COMPLETES = ".completes"
"""What a case has for a step that ended early, beside its own checks."""


def check_members(plans: Sequence[Plan], cases: Sequence[Case]) -> None:
    """Refuse names that no gate has and no check of their case; all of them are told at once.

    Raises:
        InputErrors: a plan names something that cannot change.
    """
    gates = all_gates()
    names = {gate.code: gate.name for gate in gates.values()}
    checks = {
        case.name: {check.id for step in case.steps for check in step.checks} for case in cases
    }
    problems = Problems()
    for plan in plans:
        for expected in (plan.expect, plan.also):
            for case, members in expected.items():
                if case not in checks:
                    continue
                for name in members.keys() - gates.keys() - checks[case] - {FAILURE}:
                    if name.endswith(COMPLETES):
                        continue
                    problems.add(_unknown(name, case, names, checks[case], plan.case_places[case]))
    problems.raise_any()


def _unknown(
    name: str, case: str, names: dict[str, str], checks: set[str], where: Location
) -> InputError:
    known = checks if "." in name else {*names.values(), FAILURE}
    kind = "check" if "." in name else "gate"
    error = unknown(kind, name, known, where=where, within=case)
    if name.upper() not in names:
        return error
    hint = f"{name.upper()} is {names[name.upper()]}; a plan names gates by their names"
    return InputError(error.problem, where=where, expected=error.expected, hint=hint)
