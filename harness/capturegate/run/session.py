"""Running a plan: every case in a child, results as they come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from capturegate.run.plan import Plan, case_task
from capturegate.run.pool import TIME_LIMIT_S_DEFAULT, Answer, Pool
from capturegate.run.request import case_request
from capturegate.run.result import CaseResult
from capturegate.run.store import ResultWriter, fingerprint_of
from capturegate.scenario.model import Case

_OUTPUT_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a plan is run. `known` are results of an earlier run, by fingerprint."""

    seed: int = 0
    time_limit_s: float = TIME_LIMIT_S_DEFAULT
    known: Mapping[str, CaseResult] = field(default_factory=dict)


def run_plan(
    plan: Plan, pool: Pool, settings: Settings, writer: ResultWriter | None = None
) -> Iterator[tuple[int, CaseResult]]:
    """Run the cases; yields each one's place in the plan and its result, as they come.

    Raises:
        InputError: a case found that the user's input is wrong.
    """
    running: dict[int, tuple[int, str]] = {}
    for place, case in enumerate(plan.cases):
        request = case_request(case, settings.seed)
        fingerprint = fingerprint_of(request)
        if fingerprint in settings.known:
            yield place, settings.known[fingerprint]
            continue
        ticket = pool.submit(case_task(case, request, settings.time_limit_s))
        running[ticket] = place, fingerprint
    for ticket, answer in pool.answers():
        place, fingerprint = running[ticket]
        result = result_from(plan.cases[place], answer)
        if writer is not None:
            writer.append(fingerprint, result)
        yield place, result


def result_from(case: Case, answer: Answer) -> CaseResult:
    """The result that an answer carries, or one that says why there is none.

    Raises:
        InputError: the case found that the user's input is wrong.
    """
    if answer.input_error is not None:
        raise answer.input_error
    if answer.value is not None:
        return CaseResult.from_json(answer.value)
    said = [answer.error, answer.trace.strip()]
    if output := answer.output.strip():
        said.append(f"the last of what it printed:\n{output[-_OUTPUT_CHARS_MAX:]}")
    return CaseResult(
        case=case.id,
        scenario=case.scenario.name,
        lane=case.lane.name,
        arm=case.arm.name,
        backend=case.backend,
        harness_error="\n".join(filter(None, said)),
        duration_s=round(answer.duration_s, 4),
    )
