"""Driving one engine through the steps of a scenario."""

from __future__ import annotations

import hashlib
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capturegate import notes
from capturegate.adapter import Adapter, Output
from capturegate.backend import Backend, CudaError, Span
from capturegate.errors import InputError
from capturegate.gates.base import StepRun
from capturegate.run.result import CheckOutcome, CheckResult, Failure, FrameRecord
from capturegate.scenario.model import Case, Check, Step
from capturegate.trace import BEGIN_APIS, END_API, ENGINE, FREEING_APIS, Event

POISON = 0xFF
"""Fill of poisoned outputs: every float32 made of it is a NaN."""

HARNESS = "capturegate."
HARNESS_RUN = "capturegate.run."
STACK_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The real rows of one output after one step run."""

    phase: str
    output: Output
    data: bytes
    poisoned: bool

    @property
    def span(self) -> Span:
        """Where these rows lie."""
        pointer = self.output.pointer
        return pointer.allocation, pointer.offset, len(self.data)

    def row(self, number: int) -> bytes:
        """The bytes of one row."""
        size = self.output.row_bytes
        return self.data[number * size : (number + 1) * size]

    @property
    def digest(self) -> str:
        """Short content hash."""
        return hashlib.sha256(self.data).hexdigest()[:16]


@dataclass(slots=True, kw_only=True)
class Drive:
    """What came of driving an engine.

    `stopped_by` is the id of the failed require that stopped the case.
    """

    runs: list[StepRun] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    failure: Failure | None = None
    stopped_by: str = ""


def drive(case: Case, adapter: Adapter, backend: Backend, *, judging: bool) -> Drive:
    """Run the steps until they end, a verb raises or, when `judging`, a require fails.

    An oracle is driven without judging: what it does not do is no fault of the subject.
    """
    result = Drive()
    for number, step in enumerate(case.scenario.steps, start=1):
        facts = _run_step(number, step, adapter, backend, result)
        if facts is None:
            return result
        for check in step.checks if judging else ():
            outcome = _judge_check(check, facts)
            result.checks.append(outcome)
            if check.required and outcome.outcome is not CheckOutcome.PASSED:
                result.stopped_by = check.id
                return result
    return result


def _run_step(
    number: int, step: Step, adapter: Adapter, backend: Backend, result: Drive
) -> dict[str, Any] | None:
    """All runs of one step; its facts, or None when the verb raised."""
    recorder = backend.recorder
    facts: dict[str, Any] = {}
    first = backend.recorder.count
    before = Counter(adapter.counters())
    for repeat in range(1, step.times + 1):
        phase = f"{number}:{step.id}" + (f"#{repeat}" if step.times > 1 else "")
        recorder.phase = phase
        poisoned = _poison(adapter, backend)
        try:
            told = getattr(adapter, step.verb)(**step.args)
        except InputError as error:
            # The scenario's mistake, found by the engine: told at the step.
            raise InputError(
                error.problem,
                where=error.where or step.where,
                expected=error.expected,
                hint=error.hint,
            ) from error
        except (Exception, SystemExit) as error:
            result.failure = failure_of(error, step.id)
            result.runs.append(StepRun(step=step.id, verb=step.verb, phase=phase, raised=True))
            return None
        result.runs.append(StepRun(step=step.id, verb=step.verb, phase=phase, raised=False))
        _add_facts(facts, told or {})
        for output in adapter.outputs():
            data = backend.harness_read(output.pointer, output.rows * output.row_bytes)
            start = output.pointer.offset
            marked = any(
                allocation == output.pointer.allocation
                and offset <= start
                and start + len(data) <= offset + nbytes
                for allocation, offset, nbytes in poisoned
            )
            result.snapshots.append(
                Snapshot(phase=phase, output=output, data=data, poisoned=marked)
            )
    after = Counter(adapter.counters())
    after.subtract(before)
    return facts | dict(after) | trace_counters(backend.recorder.since(first))


def _poison(adapter: Adapter, backend: Backend) -> list[Span]:
    """Overwrite what a replay would write; the spans that were poisoned."""
    done = []
    for pointer in adapter.buffers():
        backend.harness_write(pointer, bytes([POISON]) * pointer.nbytes)
        done.append((pointer.allocation, pointer.offset, pointer.nbytes))
    return done


@dataclass(frozen=True, slots=True)
class EachRun:
    """A word or boolean that every run of a step told; each has to be as expected."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(str(value) for value in dict.fromkeys(self.values))


def _add_facts(facts: dict[str, Any], told: Mapping[str, Any]) -> None:
    """Numbers add up over the runs of a step; words and booleans are kept run by run."""
    for name, value in told.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            facts[name] = facts.get(name, 0) + value
        else:
            before = facts.get(name, EachRun(()))
            facts[name] = EachRun((*before.values, value))


def trace_counters(events: list[Event]) -> dict[str, int]:
    """What can be counted from the trace alone; an engine cannot colour these."""
    mine = [event for event in events if event.actor == ENGINE]
    return {
        "captures": sum(e.api in BEGIN_APIS and e.capture > 0 and not e.refused for e in mine),
        "captures_ended": sum(e.api == END_API and not e.refused for e in mine),
        "replays": sum(e.api == "cudaGraphLaunch" and not e.refused for e in mine),
        "driver_allocations": sum(e.allocates for e in mine),
        "driver_frees": sum(e.api in FREEING_APIS for e in mine),
        "refused_calls": sum(e.refused for e in mine),
        "pre_grows": sum(e.api == notes.PRE_GREW for e in mine),
    }


def _judge_check(check: Check, facts: Mapping[str, Any]) -> CheckResult:
    known = check.counter in facts
    observed = facts.get(check.counter)
    if known:
        values = observed.values if isinstance(observed, EachRun) else (observed,)
        held = all(check.expectation.holds(value) for value in values)
        outcome = CheckOutcome.PASSED if held else CheckOutcome.FAILED
        said = str(observed)
    else:
        outcome = CheckOutcome.FAILED
        said = f"no such counter; this step has {', '.join(sorted(facts))}"
    return CheckResult(
        id=check.id,
        required=check.required,
        outcome=outcome,
        observed=said,
        expected=check.expectation.text,
        where=str(check.where),
    )


def failure_of(error: BaseException, step: str) -> Failure:
    """An engine's exception as data, and the frames it came through."""
    frames = [
        FrameRecord(
            dotted=f"{module}.{frame.f_code.co_qualname}",
            path=frame.f_code.co_filename,
            line=line,
        )
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not (module := str(frame.f_globals.get("__name__", ""))).startswith(HARNESS)
    ]
    stack = frames[::-1][:STACK_MAX]
    return Failure(
        type=type(error).__name__,
        message=str(error),
        step=step,
        stack=stack,
        cuda_error=_cuda_cause(error),
    )


def _cuda_cause(error: BaseException | None) -> str:
    """`api error` of the refused call that an exception comes from, empty when from none."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CudaError):
            return f"{error.api} {error.error}"
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return ""
