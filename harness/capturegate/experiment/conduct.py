"""Running experiments, and reading their outcomes as they were registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points

from capturegate.errors import InputError
from capturegate.experiment.model import (
    ARMS,
    CONTROL,
    TREATMENT,
    ArmReport,
    Conditions,
    Experiment,
    ExperimentReport,
    Outcome,
    Result,
)
from capturegate.experiment.reader import code_of
from capturegate.run.plan import case_task
from capturegate.run.pool import Answer, Pool, Task
from capturegate.run.request import case_request
from capturegate.run.result import CaseResult
from capturegate.run.session import result_from
from capturegate.scenario.model import Case

CODE_GROUP = "capturegate.code_variants"
TIME_LIMIT_S = 60.0

Variant = Callable[[str, Case, int, float], Task]
"""Makes the task of a case that runs in a variant of the code: name, case, seed, limit."""


def conduct(
    experiments: Sequence[Experiment],
    pool: Pool,
    *,
    backend: str,
    seed: int,
    only: Sequence[str] = (),
    until_settled: bool = False,
) -> Iterator[ExperimentReport]:
    """Run experiments in their order; those that are left out come with the reason.

    Raises:
        InputError: a variant of the code does not exist.
    """
    settled: dict[str, str] = {}
    for experiment in experiments:
        if only and experiment.name not in only:
            yield _not_run(experiment, "it was not selected")
        elif until_settled and experiment.claim in settled:
            yield _not_run(experiment, f"{settled[experiment.claim]} settled the question")
        else:
            report = _run(experiment, pool, backend, seed)
            if report.result.settles:
                settled.setdefault(experiment.claim, experiment.name)
            yield report


def _run(experiment: Experiment, pool: Pool, backend: str, seed: int) -> ExperimentReport:
    """Both arms, each in a process of its own."""
    tickets = {}
    cases = {}
    for arm, lane in zip(experiment.scenario.arms, experiment.scenario.lanes, strict=True):
        cases[arm.name] = Case(scenario=experiment.scenario, lane=lane, arm=arm, backend=backend)
        tickets[pool.submit(_task(experiment, cases[arm.name], seed))] = arm.name
    answers = {tickets[ticket]: answer for ticket, answer in pool.answers()}
    arms = {}
    for name in ARMS:
        try:
            result = result_from(cases[name], _case_answer(answers[name]))
        except InputError as error:
            return _not_run(experiment, f"the {name} cannot run here: {error}")
        arms[name] = _arm_report(experiment, name, result)
    return judge(experiment, arms)


def judge(experiment: Experiment, arms: dict[str, ArmReport]) -> ExperimentReport:
    """Read two arms by what was registered. The control and the effect come before the outcome."""
    result, reason, means = _judged(experiment, arms)
    return ExperimentReport(
        name=experiment.name,
        claim=experiment.claim,
        variable=experiment.variable.spelled,
        result=result,
        reason=reason,
        means=means,
        next="" if result.settles else experiment.next,
        arms=[arms[name] for name in ARMS],
        faults={
            fault: {name: arms[name].readings.get(fault, "absent") for name in ARMS}
            for fault in experiment.faults
        },
    )


def _judged(experiment: Experiment, arms: dict[str, ArmReport]) -> tuple[Result, str, str]:
    control, treatment = arms[CONTROL], arms[TREATMENT]
    for arm in (control, treatment):
        if arm.failure:
            return Result.NOT_RUN, f"the {arm.arm} did not come to its end: {arm.failure}", ""
    if control.outcome != experiment.reproduces:
        said = control.outcome or "nothing that was registered"
        reason = f"the control shows {said}, and {experiment.reproduces} was to be reproduced"
        return Result.NOT_REPRODUCED, reason, ""
    for arm in (control, treatment):
        if not arm.took_effect:
            return Result.NO_EFFECT, f"nothing shows that the {arm.arm} had its value", ""
    outcome = next((o for o in experiment.outcomes if o.name == treatment.outcome), None)
    if outcome is None:
        return Result.UNREGISTERED, "the treatment shows nothing that was registered", ""
    return Result(outcome.reading.value), f"the treatment {outcome.name}", outcome.means


def _arm_report(experiment: Experiment, name: str, result: CaseResult) -> ArmReport:
    readings = {check.id: check.observed for check in result.checks}
    failure = result.harness_error
    if not failure and result.failure is not None:
        failure = f"{result.failure.type}: {result.failure.message}"
    shown = [o for o in experiment.outcomes if holds(o.when, readings)]
    return ArmReport(
        arm=name,
        value=experiment.variable.values[name],
        outcome=_only(shown),
        took_effect=holds(experiment.effect[name], readings),
        readings=readings,
        failure=failure,
        device=result.device,
    )


def _only(outcomes: list[Outcome]) -> str:
    """The one outcome that shows; two at once are as good as none."""
    return outcomes[0].name if len(outcomes) == 1 else ""


def holds(conditions: Conditions, readings: dict[str, str]) -> bool:
    """Whether all readings are as the conditions say; one that is missing is not."""
    return all(
        name in readings and expectation.holds(_value(readings[name]))
        for name, expectation in conditions.items()
    )


def _value(text: str) -> int | float | bool | str:
    """A reading as the case told it."""
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _task(experiment: Experiment, case: Case, seed: int) -> Task:
    code = code_of(experiment, case.arm.name)
    if not code:
        return case_task(case, case_request(case, seed), TIME_LIMIT_S)
    points = list(entry_points(group=CODE_GROUP))
    if not points:
        raise InputError(
            f"the experiment '{experiment.name}' runs the code variant '{code}', "
            "and nothing here makes variants",
            hint="install a package with an entry point of group capturegate.code_variants",
        )
    variant: Variant = points[0].load()
    return variant(code, case, seed, TIME_LIMIT_S)


def _case_answer(answer: Answer) -> Answer:
    """A variant's child answers with a list of cases; take the only one out of it."""
    value = answer.value
    if value is None or "cases" not in value:
        told = (value or {}).get("import_error") or (value or {}).get("not_served")
        return answer if told is None else _raised(told)
    [case] = value["cases"]
    if "result" in case:
        return Answer(value=case["result"], fate=answer.fate, duration_s=answer.duration_s)
    return _raised(case.get("raised") or case["overran"])


def _raised(told: str) -> Answer:
    """What a traceback comes to: the line that names the error, the last that is not indented."""
    lines = [line for line in told.splitlines() if line.strip() and not line[0].isspace()]
    return Answer(value=None, fate="raised", error=lines[-1] if lines else told)


def _not_run(experiment: Experiment, reason: str) -> ExperimentReport:
    return ExperimentReport(
        name=experiment.name,
        claim=experiment.claim,
        variable=experiment.variable.spelled,
        result=Result.NOT_RUN,
        reason=reason,
        next=experiment.next,
    )
