"""The evidence table on a terminal."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING

from capturegate_mutations.evidence import Row
from capturegate_mutations.report.summary import (
    Sheet,
    cases_text,
    closing_line,
    differences,
    figure_text,
    grouped,
)
from capturegate_mutations.verdict import Proof

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_HUNK_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_FIGURES_MAX = 6


def print_sheet(
    sheet: Sheet, stream: IO[str] | None = None, width: int | None = None, *, quiet: bool = False
) -> None:
    """Print a block for every mutation, the overview, and the closing line.

    When `quiet`, only what is not proved has a block, and the overview is left out.
    """
    from rich.console import Console

    console = Console(file=stream, width=width, highlight=False, soft_wrap=True)
    for row in sheet.rows:
        if not (quiet and row.proof is Proof.PROVED):
            _print_row(console, row)
    if not quiet:
        for line in filter(None, (sheet.controls, sheet.scope)):
            _line(console, line, "dim")
        _print_overview(console, sheet)
    _line(console, closing_line(sheet), "bold green" if sheet.all_proved else "bold red")


def _print_row(console: Console, row: Row) -> None:
    glyph = "✓" if row.proof is Proof.PROVED else "✗"
    _line(console, f"{glyph} {row.mutation}: {row.proof.value}", _style(row.proof))
    _line(console, f"  {row.about}", "dim")
    for line in row.hunk.splitlines():
        if not line.startswith(("---", "+++")):
            _line(console, f"  │ {line}", _HUNK_STYLES.get(line[:1], ""))
    for line in row.reason.splitlines():
        _line(console, f"  {line}", "yellow")
    same = row.expected == row.observed
    shown = {"observed" if same else "expected": row.expected, "observed": row.observed}
    if same:
        _line(console, "  expected  exactly what was observed")
    for title, entries in shown.items():
        for case, text in grouped(entries) or [("nothing", "")]:
            _line(console, f"  {title:<9} {case}  {text}".rstrip())
    for label, sentence in differences(row):
        _line(console, f"  {label:<9} {sentence}", "yellow")
    figures = [(f, text) for f in row.figures if (text := figure_text(f))]
    for figure, text in figures[:_FIGURES_MAX]:
        _line(console, f"  figures   {figure.case} {figure.gate}: {text}")
    if len(figures) > _FIGURES_MAX:
        _line(console, f"  figures   and {len(figures) - _FIGURES_MAX} more, see --json", "dim")
    if row.checks_mutant[1]:
        green = "{0[0]} of {0[1]}".format
        checks = f"{green(row.checks_baseline)} green, mutant {green(row.checks_mutant)}"
        _line(console, f"  checks    baseline {checks}")
        _line(console, f"  cases     {cases_text(row)}")
    _line(console, f"  again     {row.rerun}", "cyan")
    _line(console, "")


def _print_overview(console: Console, sheet: Sheet) -> None:
    width = max([len(row.mutation) for row in sheet.rows], default=0)
    for row in sheet.rows:
        wanted = sum(map(len, row.expected.values()))
        seen = sum(map(len, row.observed.values()))
        name, proof = row.mutation.ljust(width), row.proof.ljust(12)
        changes = f"{seen} changed, {wanted} expected".ljust(26)
        _line(console, f"{name}  {proof}  {changes}  {row.duration_s:.2f} s", _style(row.proof))


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(_CONTROL.sub("�", text), style=style or None, markup=False, emoji=False)


def _style(proof: Proof) -> str:
    return "green" if proof is Proof.PROVED else "red"
