"""From evidence to verdicts: every gate on one case, and what blocks what."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from capturegate.gates.base import Evidence, Gate, Judgement
from capturegate.gates.capture_completes import CaptureCompletes
from capturegate.gates.registry import all_gates
from capturegate.run.drive import HARNESS_RUN, Drive
from capturegate.run.result import (
    CheckOutcome,
    CheckResult,
    Failure,
    FrameRecord,
    GateResult,
    Verdict,
    Witness,
    WitnessEvent,
)
from capturegate.scenario.model import Case
from capturegate.sites import Frame
from capturegate.trace import Event, Trace

WITNESS_EVENTS_MAX = 8


def judge_gates(case: Case, evidence: Evidence, stopped_by: str) -> list[GateResult]:
    """The verdicts of the named gates and of those that judge by default.

    A gate that nobody named is left out when it found nothing to judge, when this trace cannot
    show what it needs, or when another gate blocks it: not exercised. One that failed to judge
    stays. They are judged in the registry's order and told in the order of their codes.
    """
    named = {use.name: use.params for use in case.scenario.gates}
    results = []
    for name, gate in all_gates().items():
        if name not in named and not gate.by_default:
            continue
        judgement = _judge(gate, evidence, named.get(name, {}))
        if stopped_by and judgement.verdict is not Verdict.BROKEN:
            judgement = Judgement(
                verdict=Verdict.UNKNOWN,
                reason=f"the case stopped at the require {stopped_by}",
                blocked_by=stopped_by,
            )
        evidence.judged[name] = judgement
        if name in named or is_exercised(gate, judgement, evidence):
            results.append(_result(case, name, name in named, judgement, evidence.trace))
    return sorted(results, key=lambda result: all_gates()[result.gate].code)


def is_exercised(gate: Gate, judgement: Judgement, evidence: Evidence) -> bool:
    """Whether a gate that nobody named has something to say of this case."""
    if judgement.verdict is Verdict.UNKNOWN:
        return not judgement.blocked_by and gate.needs <= evidence.trace.capabilities
    return judgement.verdict is not Verdict.VACUOUS


def account_for(failure: Failure, case: Case, gates: list[GateResult]) -> bool:
    """Whether an engine's exception is what the arm expects."""
    if case.arm.raises:
        return failure.type == case.arm.raises
    return any(
        gate.expected is not Verdict.HELD
        and gate.as_expected
        and gate.witness is not None
        and failure.cuda_error in {f"{e.api} {e.error}" for e in gate.witness.events}
        for gate in gates
    )


def _judge(gate: Gate, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
    missing = gate.needs - evidence.trace.capabilities
    if missing:
        return Judgement(
            verdict=Verdict.UNKNOWN,
            reason=f"this trace cannot show {', '.join(sorted(missing))}",
        )
    try:
        return gate.judge(evidence, params)
    except Exception as error:
        return Judgement(
            verdict=Verdict.UNKNOWN,
            reason=f"the gate itself failed: {type(error).__name__}: {error}",
        )


def _result(
    case: Case, name: str, is_named: bool, judgement: Judgement, trace: Trace
) -> GateResult:
    expect = case.arm.expect.get(name)
    return GateResult(
        gate=name,
        verdict=judgement.verdict,
        expected=Verdict(expect.verdict) if expect else Verdict.HELD,
        named=is_named,
        reason=judgement.reason,
        blocked_by=judgement.blocked_by,
        figures=dict(judgement.figures),
        witness=_witness(judgement, trace),
        witness_expected=expect.witness if expect else "",
    )


def _witness(judgement: Judgement, trace: Trace) -> Witness | None:
    if not judgement.witness:
        return None
    return Witness(
        summary=judgement.reason,
        events=[_event(event) for event in judgement.witness[:WITNESS_EVENTS_MAX]],
        stack=engine_frames(trace.stack(judgement.witness[0])),
    )


def engine_frames(stack: tuple[Frame, ...]) -> list[FrameRecord]:
    """The frames down to where the harness called the engine."""
    return [
        FrameRecord(dotted=frame.dotted, path=frame.path, line=frame.line)
        for frame in takewhile(lambda frame: not frame.module.startswith(HARNESS_RUN), stack)
    ]


def _event(event: Event) -> WitnessEvent:
    return WitnessEvent(
        seq=event.seq,
        api=event.api,
        phase=event.phase,
        error=event.error,
        nbytes=event.nbytes,
        thread=event.thread,
        stream=event.stream,
        detail={name: _plain(value) for name, value in (event.detail or {}).items()},
    )


def _plain(value: Any) -> Any:
    """A note's value as JSON takes it: mapping keys become text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    # An engine's note may hold anything, such as a NumPy integer.
    return value if isinstance(value, str | int | float | None) else str(value)


def checks_of(case: Case, driven: Drive, gates: list[GateResult]) -> list[CheckResult]:
    """All checks of a case in order: those judged, and those that never came to be."""
    judged = {check.id: check for check in driven.checks}
    results = []
    blocker = driven.stopped_by
    if driven.failure is not None:
        blocker = _blamed(gates)
        if not blocker:
            failed = _completes_check(driven)
            blocker = failed.id
            results.append(failed)
    for step in case.steps:
        for check in step.checks:
            result = judged.get(check.id)
            if result is None:
                result = CheckResult(
                    id=check.id,
                    required=check.required,
                    outcome=CheckOutcome.UNKNOWN,
                    observed="the case ended before it",
                    expected=check.expectation.text,
                    where=str(check.where),
                    blocked_by=blocker,
                )
            results.append(result)
    return results


def _blamed(gates: list[GateResult]) -> str:
    """The gate that an engine's failure belongs to: the lost capture, else any that broke."""
    broken = [gate.gate for gate in gates if gate.verdict is Verdict.BROKEN]
    if CaptureCompletes.name in broken:
        return CaptureCompletes.name
    return broken[-1] if broken else ""


def _completes_check(driven: Drive) -> CheckResult:
    """A failure that no gate accounts for is a failed check of its step."""
    failure = driven.failure
    if failure is None:
        raise ValueError("only a drive that failed has a failed completion")
    where = failure.stack[0] if failure.stack else None
    return CheckResult(
        id=f"{failure.step}.completes",
        required=True,
        outcome=CheckOutcome.FAILED,
        observed=f"{failure.type}: {failure.message}",
        expected="the verb returns",
        where=f"{where.path}:{where.line}" if where else "",
    )
