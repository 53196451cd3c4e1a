"""A case that is not as expected: what broke, where, what to do, how to re-run it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capturegate.report.run import RunReport
from capturegate.report.text import Printer, clean, short_path
from capturegate.run.result import (
    CaseResult,
    CheckResult,
    Failure,
    FrameRecord,
    GateResult,
    Verdict,
    Witness,
    WitnessEvent,
)

# An engine is what is neither of these.
_OWN_PACKAGES = frozenset({"capturegate", "capturegate_backends"})
_EVENTS_MAX = 5


def print_case(result: CaseResult, report: RunReport, printer: Printer) -> None:
    """Print everything that is not as expected in one case."""
    printer.line()
    printer.line((f"{printer.glyphs.bad} {clean(result.case)}", "bold red"))
    _print_lines("harness", result.harness_error, printer)
    _print_lines("input", result.input_error, printer)
    wrong = [gate for gate in result.gates if not gate.as_expected]
    blocked = [gate for gate in wrong if gate.verdict is Verdict.UNKNOWN and gate.blocked_by]
    for gate in wrong:
        if gate not in blocked:
            _print_gate(gate, report, printer)
    if result.failure is not None:
        _print_failure(result.failure, printer)
    checks = [check for check in result.checks if not result.check_as_expected(check)]
    for check in checks:
        if not check.blocked_by:
            _print_check(check, printer)
    printer.line()
    meant = {gate.gate for gate in result.gates if gate.as_expected and gate.named}
    for gate in blocked:
        text = f"{gate.gate} ({report.code_of(gate.gate)}), by {gate.blocked_by}"
        printer.labelled("blocked", clean(text))
        if gate.blocked_by in meant:
            # What is broken on purpose takes along what can no longer be judged.
            hint = f"expect '{gate.gate}: unknown' in this arm as well: {gate.blocked_by} broke, "
            printer.labelled("do", clean(f"{hint}as expected, and this comes of it"), "bold")
    for check in checks:
        if check.blocked_by:
            printer.labelled("blocked", clean(f"{check.id}, by {check.blocked_by}"))
    if not (result.judged or result.harness_error or result.input_error):
        printer.labelled("judged", "nothing: no gate and no check of this case said anything")
    printer.line(("  again     ", "dim"), (clean(report.rerun(result.case)), "cyan"))


def _print_lines(label: str, text: str, printer: Printer) -> None:
    for number, line in enumerate(text.splitlines()):
        printer.labelled(label if number == 0 else "", clean(line))


def engine_first(stack: Sequence[FrameRecord]) -> list[FrameRecord]:
    """The frames with those of the engine before those of the harness."""
    return sorted(stack, key=lambda frame: frame.dotted.partition(".")[0] in _OWN_PACKAGES)


def call_site(stack: Sequence[FrameRecord]) -> tuple[str, str]:
    """`file:line` and the function of the engine's first frame."""
    return _site_of(engine_first(stack)[0])


def _print_gate(gate: GateResult, report: RunReport, printer: Printer) -> None:
    guide = report.guides.get(gate.gate)
    code = f" ({guide.code})" if guide else ""
    printer.line()
    printer.line((f"  {clean(gate.gate)}{code}: {gate.verdict}", "bold"))
    if guide:
        printer.labelled("gate", clean(guide.title))
    what = gate.witness.summary if gate.witness else ""
    printer.labelled("what", clean(what or gate.reason), "red")
    if gate.witness and gate.reason not in ("", what):
        printer.labelled("why", clean(gate.reason))
    if gate.witness:
        _print_witness(gate.witness, printer)
    if gate.figures:
        figures = ", ".join(f"{name} {value}" for name, value in gate.figures.items())
        printer.labelled("figures", clean(figures))
    expected = str(gate.expected)
    if gate.witness_expected:
        expected += f", with {gate.witness_expected} in the stack of the witness"
    printer.labelled("expected", clean(expected))
    printer.labelled("observed", str(gate.verdict))
    if guide and (action := guide.action(gate.verdict)):
        printer.labelled("do", clean(action), "bold")


def _print_witness(witness: Witness, printer: Printer) -> None:
    _print_stack(witness.stack, printer)
    for number, event in enumerate(witness.events[:_EVENTS_MAX]):
        printer.labelled("event" if number == 0 else "", clean(_event_text(event)))
    if (left := len(witness.events) - _EVENTS_MAX) > 0:
        printer.labelled("", f"and {left} more")


def _print_failure(failure: Failure, printer: Printer) -> None:
    printer.line()
    printer.line((f"  the engine raised in step {clean(failure.step)}", "bold"))
    printer.labelled("what", clean(f"{failure.type}: {failure.message}"), "red")
    _print_stack(failure.stack, printer)


def _print_stack(stack: Sequence[FrameRecord], printer: Printer) -> None:
    for number, frame in enumerate(engine_first(stack)):
        label, style = ("from", "") if number else ("at", "bold")
        place, function = _site_of(frame)
        printer.site(label, clean(place), clean(function), style)


def _print_check(check: CheckResult, printer: Printer) -> None:
    kind = "require" if check.required else "check"
    printer.line()
    printer.line((f"  {kind} {clean(check.id)}: {check.outcome}", "bold"))
    if check.where:
        printer.site("at", clean(short_path(check.where)), style="bold")
    printer.labelled("expected", clean(check.expected))
    printer.labelled("observed", clean(check.observed), "red")


def _site_of(frame: FrameRecord) -> tuple[str, str]:
    _, found, function = frame.dotted.partition(f".{Path(frame.path).stem}.")
    return f"{short_path(frame.path)}:{frame.line}", function if found else frame.dotted


def _event_text(event: WitnessEvent) -> str:
    said = [f"{event.api} of {event.nbytes} bytes" if event.nbytes else event.api]
    said += [f"{name} {value}" for name, value in event.detail.items()]
    said.append(f"step {event.phase}")
    if event.error != "cudaSuccess":
        said.append(f"returned {event.error}")
    return ", ".join(said)
