"""The evidence table as Markdown: an overview, then one section a mutation."""

from __future__ import annotations

from collections.abc import Iterable

from capturegate_mutations.evidence import Row
from capturegate_mutations.report.summary import (
    Sheet,
    closing_line,
    differences,
    figure_text,
    grouped,
    most_telling,
)


def as_markdown(sheet: Sheet) -> str:
    """A run as a Markdown document."""
    lines = ["# Mutation proofs", "", sheet.controls, ""]
    lines += ["| mutation | verdict | checks: baseline | checks: mutant | figures |"]
    lines += ["|---|---|---|---|---|"]
    for row in sheet.rows:
        figures = figure_text(most_telling(row.figures)) if row.figures else ""
        cells = (
            f"`{row.mutation}`",
            row.proof.value,
            _counts(row.checks_baseline),
            _counts(row.checks_mutant),
            figures,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for row in sheet.rows:
        lines += ["", *_section(row)]
    lines += ["", closing_line(sheet), ""]
    return "\n".join(lines)


def _section(row: Row) -> Iterable[str]:
    yield f"## {row.mutation}: {row.proof.value}"
    yield ""
    yield row.about
    if row.hunk:
        yield from ("", *_fenced("diff", row.hunk))
    if row.reason:
        yield from ("", *_fenced("text", row.reason))
    for title, entries in (("Expected", row.expected), ("Observed", row.observed)):
        yield from ("", f"{title}:", "")
        yield from (f"- `{case}`: {text}" for case, text in grouped(entries))
        if not entries:
            yield "- nothing"
    if found := differences(row):
        yield from ("", "Differences:", "")
        yield from (f"- {label}: {sentence}" for label, sentence in found)
    if figures := [(f, text) for f in row.figures if (text := figure_text(f))]:
        yield from ("", "Figures:", "")
        yield from (f"- `{f.case}` {f.gate}: {text}" for f, text in figures)
    if row.cases:
        yield from ("", f"{row.cases_run} of {row.cases} cases ran, the flip reaches no other.")
    yield from ("", f"Run again: `{row.rerun}`")


def _fenced(language: str, text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text, fence]


def _counts(counts: tuple[int, int]) -> str:
    return f"{counts[0]} / {counts[1]}"
