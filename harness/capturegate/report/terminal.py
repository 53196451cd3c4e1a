"""A run on a terminal: the table of verdicts, what broke and what to do, the counts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from capturegate.report.broken import call_site, print_case
from capturegate.report.run import RunReport
from capturegate.report.text import Part, Printer, clean, pack
from capturegate.run.result import CaseResult, FrameRecord, GateResult, Verdict
from capturegate.run.totals import ExitCode, checks_in

_TAIL_WIDTH = 16


def print_run(report: RunReport, printer: Printer, *, quiet: bool = False) -> None:
    """Print the whole report; `quiet` leaves the table out."""
    if not quiet:
        _print_table(report, printer)
    for result in report.results:
        if not result.as_expected:
            print_case(result, report, printer)
    _print_warnings(report, printer)
    if not quiet:
        _print_skips(report, printer)
    _print_never_judged(report, printer)
    _print_close(report, printer)


def _print_table(report: RunReport, printer: Printer) -> None:
    printer.line(
        (clean(f"backend {report.backend}, seed {report.seed}"), "bold"),
        ("  lane/arm, gates, checks passed, time", "dim"),
    )
    place_width = max((len(_place(r)) for r in report.results), default=0)
    for scenario, results in itertools.groupby(report.results, key=lambda r: r.scenario):
        printer.line()
        printer.line((clean(scenario), "bold"))
        for result in results:
            _print_row(result, report, printer, place_width)
    _print_legend(report, printer)


def _print_row(result: CaseResult, report: RunReport, printer: Printer, place_width: int) -> None:
    glyphs = printer.glyphs
    if result.skip is not None:
        mark: Part = (glyphs.skip, "yellow")
        chips = [[(clean(f"skipped: {result.skip.predicate}"), "yellow")]]
        tail = ""
    else:
        good = result.as_expected
        mark = (glyphs.good, "green") if good else (glyphs.bad, "bold red")
        chips = [_chip(gate, report, printer) for gate in _shown_gates(result, report)]
        if result.harness_error:
            chips = [[("not judged: harness", "bold red")]]
        elif result.input_error:
            chips = [[("not judged: input", "bold red")]]
        passed, checks = checks_in(result)
        tail = f"{f'{passed}/{checks}':>7} {result.duration_s:6.2f} s"
    indent = 4 + place_width + 2
    width = max(printer.width - indent - _TAIL_WIDTH, 20)
    rows = pack(chips, width) or [[("no gate", "dim")]]
    for number, row in enumerate(rows):
        used = sum(len(text) for text, _ in row)
        head: list[Part] = [("  ", ""), mark, (f" {clean(_place(result)):<{place_width}}  ", "")]
        if number:
            head = [(" " * indent, "")]
        end = f"{' ' * (width - used)}{tail}" if number == 0 and tail else ""
        printer.line(*head, *row, (end, "dim"))
    if summary := _first_site(result, printer, indent):
        printer.paragraph(summary, indent, "red")


def _place(result: CaseResult) -> str:
    return f"{result.lane}/{result.arm}"


def _shown_gates(result: CaseResult, report: RunReport) -> list[GateResult]:
    shown = [gate for gate in result.gates if _is_shown(gate)]
    return sorted(shown, key=lambda gate: report.code_of(gate.gate))


def _is_shown(gate: GateResult) -> bool:
    """Gates that nobody named stay in the background until they break."""
    return gate.named or not gate.as_expected


def _chip(gate: GateResult, report: RunReport, printer: Printer) -> list[Part]:
    """Glyph, code, the verdict unless it is held, and the first two figures."""
    good = gate.as_expected
    glyph = printer.glyphs.good if good else printer.glyphs.bad
    style = "green" if good else "bold red"
    word = "" if gate.verdict is Verdict.HELD else f" {gate.verdict}"
    figures = compact_figures(gate)
    parts: list[Part] = [(f"{glyph} {clean(report.code_of(gate.gate))}{word}", style)]
    return [*parts, (f" {figures}", "")] if figures else parts


def compact_figures(gate: GateResult) -> str:
    """The first two whole figures of a gate: its author puts what matters first."""
    whole = [str(value) for value in gate.figures.values() if isinstance(value, int)]
    return "/".join(whole[:2])


def _first_site(result: CaseResult, printer: Printer, indent: int) -> str:
    """Where the first thing that is not as expected happened, and its figures, on one line."""
    for gate in result.gates:
        if not gate.as_expected and gate.witness is not None and gate.witness.stack:
            left = list(gate.figures.items())[2:]
            figures = ", ".join(f"{name} {value}" for name, value in left)
            site = _site(gate.witness.stack, printer, indent)
            return f"{site}: {clean(figures)}" if figures else site
    if not result.as_expected and result.failure is not None and result.failure.stack:
        site = _site(result.failure.stack, printer, indent)
        return f"{site}: {clean(result.failure.type)}"
    return ""


def _site(stack: Sequence[FrameRecord], printer: Printer, indent: int) -> str:
    place, function = call_site(stack)
    at = "at "
    return f"{at}{printer.fitted(clean(place), clean(function), indent + len(at) + 1)}"


def _print_legend(report: RunReport, printer: Printer) -> None:
    shown: dict[str, GateResult] = {}
    for result in report.results:
        for gate in result.gates:
            if _is_shown(gate) and (gate.gate not in shown or not shown[gate.gate].figures):
                shown[gate.gate] = gate
    glyphs = printer.glyphs
    meaning = f"{glyphs.good} as expected  {glyphs.bad} not as expected  {glyphs.skip} skipped"
    printer.line()
    printer.line((meaning, "dim"))
    for name, gate in sorted(shown.items(), key=lambda item: report.code_of(item[0])):
        whole = [key for key, value in gate.figures.items() if isinstance(value, int)]
        figures = f" ({'/'.join(whole[:2])})" if whole else ""
        printer.line((clean(f"{report.code_of(name)} {name}{figures}"), "dim"))


def _print_warnings(report: RunReport, printer: Printer) -> None:
    for result in report.results:
        for number, warning in enumerate(result.warnings):
            if number == 0:
                printer.line()
                printer.line((f"{printer.glyphs.skip} warning  {clean(result.case)}", "yellow"))
            printer.paragraph(clean(warning), indent=2)


def _print_skips(report: RunReport, printer: Printer) -> None:
    skips = Counter(
        (result.skip.predicate, result.skip.reason, result.skip.judged_in)
        for result in report.results
        if result.skip is not None
    )
    if not skips:
        return
    printer.line()
    for (predicate, reason, judged_in), count in sorted(skips.items()):
        cases = "1 case" if count == 1 else f"{count} cases"
        why = f": {reason}" if reason else ""
        printer.line((f"{printer.glyphs.skip} skipped", "yellow"), (f"  {cases}", ""))
        text = clean(f"{predicate}{why}. Judged in lane {judged_in}.")
        printer.paragraph(text, indent=2)


def _print_never_judged(report: RunReport, printer: Printer) -> None:
    skips = {r.case: r.skip for r in report.results if r.skip is not None}
    for case in report.never_judged:
        printer.line()
        printer.line((f"{printer.glyphs.bad} never judged  {clean(case)}", "bold red"))
        lane = skips[case].judged_in
        printer.paragraph(
            clean(
                f"It is skipped because lane {lane} judges the same guarantee, but this run has "
                f"no verdict of that scenario and arm in lane {lane}."
            ),
            indent=2,
        )


def _print_close(report: RunReport, printer: Printer) -> None:
    printer.line()
    if report.missing:
        lost = report.exit_code is ExitCode.HARNESS_FAILED
        word = "stopped" if lost else "interrupted"
        printer.line((f"{word}: {report.missing} cases were not run", "bold yellow"))
    if report.exit_code is ExitCode.NOTHING_JUDGED:
        printer.line(("nothing was judged: every selected case is skipped", "bold yellow"))
    style = "bold green" if report.exit_code is ExitCode.AS_EXPECTED else "bold red"
    printer.line((str(report.totals), style))
