"""Executing one case: skip, oracle, subject, judgement. Runs in the case's own process."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from capturegate.adapter import Adapter
from capturegate.errors import InputError
from capturegate.gates.base import Evidence
from capturegate.gates.replay_eager import LAUNCH_API
from capturegate.run.compare import compare
from capturegate.run.drive import Drive, drive, failure_of
from capturegate.run.engines import describe, fresh_backend, load_adapter
from capturegate.run.judge import account_for, checks_of, judge_gates
from capturegate.run.request import case_from_request
from capturegate.run.result import CaseResult, Skip
from capturegate.scenario.grammar import Expectation
from capturegate.scenario.model import Case
from capturegate.trace import BEGIN_APIS, Trace

__all__ = ["describe", "judge_case", "run_case"]


def run_case(request: dict[str, Any]) -> CaseResult:
    """Run the case that a request carries (see `capturegate.run.request`)."""
    return judge_case(case_from_request(request), request.get("seed", 0))


def judge_case(case: Case, seed: int = 0) -> CaseResult:
    """Run one case to its verdicts.

    The oracle runs first, on a device of its own: an eager run between the steps would deepen
    the pool's free list and hide what the case is about.

    Raises:
        InputError: the engine or the backend cannot be loaded.
    """
    started = time.perf_counter()
    scenario = case.scenario
    result = CaseResult(
        case=case.id,
        scenario=scenario.name,
        lane=case.lane.name,
        arm=case.arm.name,
        backend=case.backend,
    )
    adapter_class = load_adapter(scenario.engine)
    if case.lane.skip_if and adapter_class.predicates[case.lane.skip_if]():
        result.skip = Skip(
            predicate=case.lane.skip_if, reason=case.lane.reason, judged_in=case.lane.judged_in
        )
        return result
    oracle, oracle_trace, _ = _drive_engine(case, adapter_class, seed, oracle=True)
    driven, trace, device = _drive_engine(case, adapter_class, seed, oracle=False)
    finished = [run.phase for run in driven.runs if not run.raised]
    evidence = Evidence(
        trace=trace,
        runs=driven.runs,
        comparisons=compare(driven.snapshots, oracle.snapshots, finished),
        oracle_error=_text(oracle) or replayed_itself(oracle_trace),
        # A case that a require stopped never came to the captures it was to make.
        captures_said={} if driven.stopped_by else captures_said(case),
        failure=_text(driven),
    )
    result.gates = judge_gates(case, evidence, driven.stopped_by)
    result.checks = checks_of(case, driven, result.gates)
    if driven.failure is not None:
        result.failure = replace(
            driven.failure, accounted=account_for(driven.failure, case, result.gates)
        )
    result.events = len(trace.events)
    result.device = device
    result.duration_s = round(time.perf_counter() - started, 4)
    return result


def _drive_engine(
    case: Case, adapter_class: type[Adapter], seed: int, *, oracle: bool
) -> tuple[Drive, Trace, dict[str, str]]:
    """Build the engine on a fresh device, drive it, close both."""
    backend = fresh_backend(case.backend, seed)
    config: dict[str, Any] = {
        name: default for name, (_, default) in adapter_class.config_keys.items()
    }
    config |= dict(case.scenario.config) | dict(case.arm.config)
    driven = Drive()
    try:
        backend.recorder.phase = "0:build"
        adapter = adapter_class(backend, config, oracle=oracle)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        driven.failure = failure_of(error, "build")
    else:
        driven = drive(case, adapter, backend, judging=not oracle)
        backend.recorder.phase = "close"
        try:
            adapter.close()
        except (Exception, SystemExit) as error:
            driven.failure = driven.failure or failure_of(error, "close")
    trace = backend.trace(pool=adapter_class.tells_pool)
    description = dict(backend.device.description)
    backend.close()
    return driven, trace, description


def captures_said(case: Case) -> dict[str, Expectation]:
    """What the scenario's `captures` checks say, by step."""
    return {
        step.id: check.expectation
        for step in case.scenario.steps
        for check in step.checks
        if check.counter == "captures"
    }


def replayed_itself(trace: Trace) -> str:
    """What makes an oracle none: it captured or replayed; empty when it did neither."""
    for event in trace.events:
        if event.refused:
            continue
        if event.capture and event.api in BEGIN_APIS:
            return f"it captured in step {event.phase}"
        if event.api == LAUNCH_API:
            return f"it replayed in step {event.phase}"
    return ""


def _text(driven: Drive) -> str:
    failure = driven.failure
    return f"{failure.type} in {failure.step}: {failure.message}" if failure else ""
