"""Running a plan: every case in a child, results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from capturegate.errors import CapturegateError, InputError
from capturegate.run.plan import Plan, case_task
from capturegate.run.pool import TIME_LIMIT_S_DEFAULT, Answer, Pool
from capturegate.run.request import case_request
from capturegate.run.result import CaseResult
from capturegate.run.sources import digest_of, packages_of
from capturegate.run.store import Writer, fingerprint_of
from capturegate.scenario.model import Case

_OUTPUT_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a plan is run. `known` are results of an earlier run, by fingerprint."""

    seed: int = 0
    time_limit_s: float = TIME_LIMIT_S_DEFAULT
    known: Mapping[str, CaseResult] = field(default_factory=dict)


class ResultsLostError(CapturegateError):
    """A result could not be written to the file of results."""


def run_plan(
    plan: Plan, pool: Pool, settings: Settings, writer: Writer[CaseResult] | None = None
) -> Iterator[tuple[int, CaseResult]]:
    """Run the cases; yields each one's place in the plan and its result, as they come.

    A case that found a mistake of the user's is not judged, and not written either: a resumed
    run tries it again.

    Raises:
        ResultsLostError: a result could not be written; it was yielded before.
    """
    mark = marker(settings.seed)
    running: dict[int, tuple[int, str]] = {}
    for place, case in enumerate(plan.cases):
        request = case_request(case, settings.seed)
        fingerprint = mark(case)
        if fingerprint in settings.known:
            yield place, settings.known[fingerprint]
            continue
        ticket = pool.submit(case_task(case, request, settings.time_limit_s))
        running[ticket] = place, fingerprint
    for ticket, answer in pool.answers():
        place, fingerprint = running[ticket]
        case = plan.cases[place]
        try:
            result = result_from(case, answer)
        except InputError as error:
            yield place, _unjudged(case, answer, input_error=str(error))
            continue
        try:
            if writer is not None:
                writer.append(fingerprint, result)
        except OSError as error:
            yield place, result
            raise ResultsLostError(error.strerror or str(error)) from error
        yield place, result


def marker(seed: int) -> Callable[[Case], str]:
    """Tells what a result of a case is valid for; sources are read once, the first time."""
    digests: dict[tuple[str, ...], str] = {}

    def mark(case: Case) -> str:
        packages = packages_of(case)
        if packages not in digests:
            digests[packages] = digest_of(packages)
        return fingerprint_of(case_request(case, seed), digests[packages])

    return mark


def result_from(case: Case, answer: Answer) -> CaseResult:
    """The result that an answer carries, or one that says why there is none.

    Raises:
        InputError: the case found that the user's input is wrong.
    """
    if answer.input_error is not None:
        raise answer.input_error
    if answer.fate == "unstartable":
        said = [line for line in answer.output.splitlines() if "error" in line.lower()]
        raise InputError(
            f"Python does not start in the environment of lane '{case.lane.name}'",
            where=case.lane.where,
            hint=said[0].strip() if said else "",
        )
    if answer.value is not None:
        result = CaseResult.from_json(answer.value)
        result.warnings += _warnings(answer)
        return result
    told = [answer.error, answer.trace.strip()]
    if output := answer.output.strip():
        told.append(f"the last of what it printed:\n{output[-_OUTPUT_CHARS_MAX:]}")
    return _unjudged(case, answer, harness_error="\n".join(filter(None, told)))


def _unjudged(
    case: Case, answer: Answer, *, harness_error: str = "", input_error: str = ""
) -> CaseResult:
    return CaseResult(
        case=case.id,
        scenario=case.scenario.name,
        lane=case.lane.name,
        arm=case.arm.name,
        backend=case.backend,
        harness_error=harness_error,
        input_error=input_error,
        warnings=_warnings(answer),
        duration_s=round(answer.duration_s, 4),
    )


def _warnings(answer: Answer) -> list[str]:
    return [f"left running, and killed: {command}" for command in answer.left]
