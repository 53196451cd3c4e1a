"""What a failed item says: its part of the case, as the terminal report prints it."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

from capturegate.gates.registry import all_gates
from capturegate.report.broken import call_site, print_case
from capturegate.report.guide import guides_of
from capturegate.report.run import report_on
from capturegate.report.text import Printer, clean
from capturegate.run.result import CaseResult, CheckOutcome, GateResult, Verdict
from capturegate.scenario.model import Case

_JUDGED = (Verdict.HELD, Verdict.BROKEN)


def only_gate(result: CaseResult, name: str) -> CaseResult:
    """The case with everything but one gate as if it had gone as expected."""
    gates = [g if g.gate == name and g.named else _excused(g) for g in result.gates]
    checks = [
        replace(check, outcome=CheckOutcome.PASSED)
        for check in result.checks
        if check.outcome is not CheckOutcome.UNKNOWN
    ]
    return replace(result, gates=[gate for gate in gates if gate], checks=checks)


def without_named_gates(result: CaseResult) -> CaseResult:
    """The case with its named gates as if they had gone as expected: they speak for themselves."""
    gates = [_excused(gate) if gate.named else gate for gate in result.gates]
    return replace(result, gates=[gate for gate in gates if gate])


def _excused(gate: GateResult) -> GateResult | None:
    if gate.as_expected:
        return gate
    if gate.verdict not in _JUDGED:
        return None
    return replace(
        gate, verdict=Verdict.HELD, expected=Verdict.HELD, named=True, witness_expected=""
    )


def text_of(result: CaseResult, case: Case) -> str:
    """Everything that is not as expected in a case, in lines."""
    from rich.console import Console

    out = io.StringIO()
    width = shutil.get_terminal_size((100, 24)).columns
    console = Console(
        file=out, width=width, color_system=None, highlight=False, markup=False, emoji=False
    )
    report = report_on(
        [result],
        unfiltered=False,
        backend=case.backend,
        seed=0,
        arguments=[case.scenario.path],
        guides=guides_of(all_gates().values()),
    )
    print_case(result, report, Printer(console))
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def headline_of(gate: GateResult) -> str:
    """A gate's verdict in one line: what, and where."""
    what = gate.witness.summary if gate.witness else gate.reason
    expected = "" if gate.expected is Verdict.HELD else f", expected {gate.expected}"
    site = f", at {call_site(gate.witness.stack)}" if gate.witness and gate.witness.stack else ""
    return clean(f"{gate.verdict}{expected}: {what}{site}")
