"""Driving one engine through the steps of a scenario."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from capturegate import notes
from capturegate.adapter import Adapter, Output
from capturegate.backend import Backend, Span
from capturegate.gates.base import StepRun
from capturegate.run.asking import (
    Told,
    buffers_of,
    counters_of,
    outputs_of,
    overwrite,
    read_output,
    told_by,
)
from capturegate.run.failures import EngineFailed, fault
from capturegate.run.in_flight import blocking_streams, in_flight_at_begin
from capturegate.run.result import CheckOutcome, CheckResult, Failure
from capturegate.scenario.model import Case, Check, Step
from capturegate.trace import BEGIN_APIS, END_API, ENGINE, FREEING_APIS, LAUNCH_API, Event

POISON = 0xFF
"""Fill of poisoned outputs: every float32 made of it is a NaN."""

HARNESS_RUN = "capturegate.run."


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

    `stopped_by` is the id of the failed require that stopped the case; `blocking` are the
    blocking streams that were made so far.
    """

    runs: list[StepRun] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    checks: list[CheckResult] = field(default_factory=list)
    failure: Failure | None = None
    stopped_by: str = ""
    blocking: set[int | str] = field(default_factory=set)


def drive(case: Case, adapter: Adapter, backend: Backend, *, judging: bool) -> Drive:
    """Run the steps until they end, a verb raises or, when `judging`, a require fails.

    An oracle is driven without judging: what it does not do is no fault of the subject.
    """
    result = Drive(blocking=blocking_streams(backend.recorder.since(0)))
    for number, step in enumerate(case.steps, start=1):
        facts = _run_step(number, step, adapter, backend, result, judging=judging)
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
    number: int, step: Step, adapter: Adapter, backend: Backend, result: Drive, *, judging: bool
) -> dict[str, Any] | None:
    """All runs of one step; its facts when `judging`, or None when the engine failed."""
    facts: dict[str, Any] = {}
    first = backend.recorder.count
    phase = f"{number}:{step.id}"
    try:
        before = Counter(counters_of(adapter, step))
        for repeat in range(1, step.times + 1):
            phase = f"{number}:{step.id}" + (f"#{repeat}" if step.times > 1 else "")
            backend.recorder.phase = phase
            _run_once(step, phase, adapter, backend, result, facts)
            result.runs.append(StepRun(step=step.id, verb=step.verb, phase=phase, raised=False))
        after = Counter(counters_of(adapter, step))
    except EngineFailed as failed:
        result.failure = failed.failure
        result.runs.append(StepRun(step=step.id, verb=step.verb, phase=phase, raised=True))
        return None
    for name, value in facts.items():
        if isinstance(value, EachRun) and len(value.values) < step.times:
            facts[name] = EachRun((*value.values, "nothing"))
    if not judging:
        return facts
    after.subtract(before)
    events = backend.recorder.since(first)
    counted = trace_counters(events, result.blocking)
    result.blocking |= blocking_streams(events)
    return facts | dict(after) | counted | {"last_error": _last_error(backend, events)}


def _last_error(backend: Backend, events: list[Event]) -> str | None:
    """The last error of the thread that runs the verbs; those of other threads cannot be asked.

    It is peeked at, so that an engine that looks at it later still finds it.
    """
    if any(e.thread != backend.recorder.thread for e in events if e.actor == ENGINE):
        return "unknown since another thread made calls"
    return backend.device.peek_at_last_error().value


def _run_once(
    step: Step,
    phase: str,
    adapter: Adapter,
    backend: Backend,
    result: Drive,
    facts: dict[str, Any],
) -> None:
    """One run of a step: poison, call the verb, take what it told and what it wrote."""
    poisoned = _poison(step, adapter, backend)
    told = told_by(adapter, step)
    _add_facts(facts, told, step, adapter)
    for output in outputs_of(adapter, step):
        data = read_output(adapter, backend, output, step)
        start = output.pointer.offset
        marked = any(
            allocation == output.pointer.allocation
            and offset <= start
            and start + len(data) <= offset + nbytes
            for allocation, offset, nbytes in poisoned
        )
        result.snapshots.append(Snapshot(phase=phase, output=output, data=data, poisoned=marked))


def _poison(step: Step, adapter: Adapter, backend: Backend) -> list[Span]:
    """Overwrite what a replay would write; the spans that were poisoned."""
    done = []
    for pointer in buffers_of(adapter, step):
        overwrite(adapter, backend, pointer, POISON, step)
        done.append((pointer.allocation, pointer.offset, pointer.nbytes))
    return done


@dataclass(frozen=True, slots=True)
class EachRun:
    """A word or boolean that every run of a step told; each has to be as expected."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ", ".join(str(value) for value in dict.fromkeys(self.values))


def _add_facts(facts: dict[str, Any], told: Told, step: Step, adapter: Adapter) -> None:
    """Numbers add up over the runs of a step; words and booleans are kept run by run."""
    for name, value in told.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        before = facts.get(name, 0 if is_number else EachRun(()))
        if is_number is isinstance(before, EachRun):
            problem = f"the verb {step.verb}() tells '{name}' as a number in one run, not in all"
            raise fault(problem, step.id, getattr(adapter, step.verb))
        facts[name] = before + value if is_number else EachRun((*before.values, value))


def trace_counters(events: list[Event], blocking: Iterable[int | str] = ()) -> dict[str, int]:
    """What can be counted from the trace alone; an engine cannot colour these.

    `blocking` are the blocking streams that were made before these events.
    """
    mine = [event for event in events if event.actor == ENGINE]
    return {
        "captures": sum(e.api in BEGIN_APIS and e.capture > 0 and not e.refused for e in mine),
        "captures_ended": sum(e.api == END_API and not e.refused for e in mine),
        "replays": sum(e.api == LAUNCH_API and not e.refused for e in mine),
        "driver_allocations": sum(e.allocates for e in mine),
        "driver_frees": sum(e.api in FREEING_APIS for e in mine),
        "refused_calls": sum(e.refused for e in mine),
        "pre_grows": sum(e.api == notes.PRE_GREW for e in mine),
        "in_flight_at_begin": in_flight_at_begin(mine, blocking),
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
