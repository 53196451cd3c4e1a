"""Literal results that the tests of the reports print."""

from capturegate.report.guide import Guide
from capturegate.report.run import report_on
from capturegate.run.result import (
    CaseResult,
    CheckOutcome,
    CheckResult,
    Failure,
    FrameRecord,
    GateResult,
    Skip,
    Verdict,
    Witness,
    WitnessEvent,
)

GUIDES = {
    "no-allocation": Guide(
        code="T001",
        name="no-allocation",
        title="Nothing is allocated in the window.",
        sections={
            "How to fix it": "Grow the pool before the window. Or do\nsomething else.",
            "When it is vacuous": "Drain the pool\nbefore. It was deep.",
        },
        needs=(),
        params={},
        by_default=True,
    ),
    "capture-completes": Guide(
        code="T002",
        name="capture-completes",
        title="Every capture completes.",
        sections={"How to fix it": "End the capture on every path out of the window."},
        needs=(),
        params={},
        by_default=True,
    ),
}

STACK = [
    FrameRecord(dotted="capturegate.run.drive.drive", path="lib/drive.py", line=9),
    FrameRecord(dotted="toy.pool.Pool.get", path="toy/pool.py", line=88),
    FrameRecord(dotted="toy.engine.Engine.step", path="toy/engine.py", line=31),
]


def result(case="decode", lane="pooled", arm="census", **fields):
    return CaseResult(
        case=f"{case}[{lane}/{arm}]@fake",
        scenario=case,
        lane=lane,
        arm=arm,
        backend="fake",
        duration_s=0.12,
        **fields,
    )


def gate(name, verdict=Verdict.HELD, **fields):
    return GateResult(gate=name, verdict=verdict, **fields)


def check(id_, outcome=CheckOutcome.PASSED, observed="1", expected="1", **fields):
    where = "toy.scenario.yaml:12:7"
    named = {"id": id_, "outcome": outcome, "observed": observed, "expected": expected}
    return CheckResult(**({"required": False, "where": where} | named | fields))


def green(**place):
    return result(
        **place,
        gates=[
            gate("capture-completes", figures={"windows": 1, "nodes": 40}),
            gate("no-allocation", figures={"inside": 0, "step": 24}),
        ],
        checks=[check("capture.captures")],
        device={"device": "fake", "driver": "13.0"},
    )


def red(**place):
    event = WitnessEvent(
        seq=7,
        api="cudaMalloc",
        phase="3:capture",
        error="cudaErrorStreamCaptureUnsupported",
        nbytes=1024,
        thread=0,
        stream=2,
    )
    request = WitnessEvent(
        seq=6,
        api="pool.get",
        phase="3:capture",
        error="cudaSuccess",
        nbytes=0,
        thread=0,
        stream=-1,
        detail={"size_class": 1024, "free": 0, "needed_bytes": 1000},
    )
    return result(
        **place,
        gates=[
            gate(
                "no-allocation",
                Verdict.BROKEN,
                reason="1 allocation inside the window, 1 of them refused",
                figures={"inside": 1, "step": 24, "class": 1024, "free": 0, "needed": 1000},
                witness=Witness(
                    summary="1 allocation inside the window, 1 of them refused",
                    events=[event, request],
                    stack=STACK,
                ),
            ),
            gate("capture-completes", Verdict.UNKNOWN, blocked_by="no-allocation"),
        ],
        checks=[
            check("cold.captures", CheckOutcome.FAILED, observed="2", expected="0"),
            check("capture.captures", CheckOutcome.UNKNOWN, blocked_by="no-allocation"),
        ],
        failure=Failure(type="PoolError", message="no block", step="capture", stack=STACK[:2]),
    )


def skipped(judged_in="pooled", **place):
    skip = Skip(predicate="pool.bypassed", reason="there is no pool", judged_in=judged_in)
    return result(**({"lane": "bypass"} | place), skip=skip)


def report(results, **options):
    defaults = {"unfiltered": True, "backend": "fake", "seed": 0, "guides": GUIDES}
    return report_on(results, **(defaults | options))
