"""Executing one case: skip, oracle, subject, judgement. Runs in the case's own process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from capturegate.adapter import Adapter
from capturegate.errors import InputError
from capturegate.gates.base import Evidence
from capturegate.run.asking import ask, kind_of
from capturegate.run.compare import compare
from capturegate.run.drive import Drive, drive
from capturegate.run.engines import fresh_backend, load_adapter
from capturegate.run.failures import EngineFailed, fault, placed
from capturegate.run.judge import account_for, checks_of, judge_gates
from capturegate.run.oracle import OracleKeeper, OracleRun
from capturegate.run.request import case_from_request
from capturegate.run.result import CaseResult, Skip
from capturegate.scenario.grammar import Expectation
from capturegate.scenario.model import Case, Lane
from capturegate.trace import BEGIN_APIS, LAUNCH_API, Trace


def run_case(request: dict[str, Any], keeper: OracleKeeper | None = None) -> CaseResult:
    """Run the case that a request carries (see `capturegate.run.request`)."""
    return judge_case(case_from_request(request), request.get("seed", 0), keeper)


def judge_case(case: Case, seed: int = 0, keeper: OracleKeeper | None = None) -> CaseResult:
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
    try:
        # In this lane's environment the import may fail though it did not where it was checked.
        place = scenario.where.get("engine", "")
        adapter_class = ask(lambda: load_adapter(scenario.engine), "import", place)
        skipped = bool(case.lane.skip_if) and holds(adapter_class, case.lane)
    except EngineFailed as failed:
        result.failure = failed.failure
        result.checks = checks_of(case, Drive(failure=failed.failure), [])
        return result
    if skipped:
        result.skip = Skip(
            predicate=case.lane.skip_if, reason=case.lane.reason, judged_in=case.lane.judged_in
        )
        return result
    oracle = keeper.known() if keeper is not None else None
    if oracle is None:
        oracle = _oracle(case, adapter_class, seed)
        if keeper is not None:
            keeper.keep(oracle)
    driven, trace, device = _drive_engine(case, adapter_class, seed, oracle=False)
    finished = [run.phase for run in driven.runs if not run.raised]
    evidence = Evidence(
        trace=trace,
        runs=driven.runs,
        comparisons=compare(driven.snapshots, oracle.snapshots, finished),
        oracle_error=oracle.error,
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


def _oracle(case: Case, adapter_class: type[Adapter], seed: int) -> OracleRun:
    driven, trace, _ = _drive_engine(case, adapter_class, seed, oracle=True)
    error = _text(driven) or replayed_itself(trace)
    return OracleRun(snapshots=tuple(driven.snapshots), error=error)


def _drive_engine(
    case: Case, adapter_class: type[Adapter], seed: int, *, oracle: bool
) -> tuple[Drive, Trace, dict[str, str]]:
    """Build the engine on a fresh device, drive it, close both."""
    backend = fresh_backend(case.backend, seed)
    # Of the oracle's calls nobody asks where they came from.
    backend.recorder.keeps_sites = not oracle
    config: dict[str, Any] = {
        name: default for name, (_, default) in adapter_class.config_keys.items()
    }
    config |= dict(case.scenario.config) | dict(case.arm.config)
    driven = Drive()
    place = case.scenario.where.get("engine", "")
    try:
        backend.recorder.phase = "0:build"
        adapter = _build(case, lambda: adapter_class(backend, config, oracle=oracle))
        driven = drive(case, adapter, backend, judging=not oracle)
        backend.recorder.phase = "close"
        ask(adapter.close, "close", place)
    except EngineFailed as failed:
        driven.failure = driven.failure or failed.failure
    trace = backend.trace(pool=adapter_class.tells_pool)
    description = dict(backend.device.description)
    backend.close()
    return driven, trace, description


def _build(case: Case, make: Callable[[], Adapter]) -> Adapter:
    """The adapter of an engine.

    Raises:
        EngineFailed: it raised.
        InputError: it cannot be built so. Its place is that of the key that the complaint begins
            with, where the scenario writes that key.
    """
    try:
        return ask(make, "build")
    except InputError as error:
        places, key = case.scenario.where, error.problem.partition(" ")[0]
        paths = (f"arms.{case.arm.name}.{key}", f"config.{key}", "engine")
        where = next((places[path] for path in paths if path in places), "")
        raise placed(error, where) from error


def holds(adapter_class: type[Adapter], lane: Lane) -> bool:
    """What the engine's own predicate says of a lane's skip.

    Raises:
        EngineFailed: it raised, or answered no boolean.
    """
    predicate = adapter_class.predicates[lane.skip_if]
    step = f"skip_if {lane.skip_if}"
    answer = ask(predicate, step, lane.where)
    if not isinstance(answer, bool):
        raise fault(f"the predicate answered {kind_of(answer)}, no boolean", step, predicate)
    return answer


def captures_said(case: Case) -> dict[str, Expectation]:
    """What the scenario's `captures` checks say, by step."""
    return {
        step.id: check.expectation
        for step in case.steps
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
