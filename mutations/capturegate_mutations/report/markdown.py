"""The evidence table as Markdown: an overview, then one section a mutation."""

from __future__ import annotations

import re
from collections.abc import Iterable

from capturegate.report.text import clean
from capturegate_mutations.evidence import Row
from capturegate_mutations.report.summary import (
    Sheet,
    cases_text,
    closing_line,
    differences,
    figure_text,
    grouped,
    most_telling,
)

_MARKUP = re.compile(r"[\\`*_\[\]<>|&#~$!]")
_LEADING = re.compile(r"^[-+=](?=\s|$)|(?<=^\d)[.)]")
_BACKTICKS = re.compile(r"`+")


def as_markdown(sheet: Sheet) -> str:
    """A run as a Markdown document."""
    lines = ["# Mutation proofs", "", _plain(sheet.controls), ""]
    if sheet.scope:
        lines += [_plain(sheet.scope), ""]
    lines += ["| mutation | verdict | checks: baseline | checks: mutant | figures |"]
    lines += ["|---|---|---|---|---|"]
    for row in sheet.rows:
        figures = figure_text(most_telling(row.figures)) if row.figures else ""
        cells = (
            _code(row.mutation),
            row.proof.value,
            _counts(row.checks_baseline),
            _counts(row.checks_mutant),
            _plain(figures),
        )
        lines.append("| " + " | ".join(cells) + " |")
    for row in sheet.rows:
        lines += ["", *_section(row)]
    lines += ["", _plain(closing_line(sheet)), ""]
    return "\n".join(lines)


def _section(row: Row) -> Iterable[str]:
    yield f"## {_plain(row.mutation)}: {row.proof.value}"
    yield ""
    yield _plain(row.about)
    if row.hunk:
        yield from ("", *_fenced("diff", row.hunk))
    if row.reason:
        yield from ("", *_fenced("text", row.reason))
    for title, entries in (("Expected", row.expected), ("Observed", row.observed)):
        yield from ("", f"{title}:", "")
        yield from (f"- {_code(case)}: {_plain(text)}" for case, text in grouped(entries))
        if not entries:
            yield "- nothing"
    if found := differences(row):
        yield from ("", "Differences:", "")
        yield from (f"- {label}: {_plain(sentence)}" for label, sentence in found)
    if figures := [(f, text) for f in row.figures if (text := figure_text(f))]:
        yield from ("", "Figures:", "")
        yield from (f"- {_code(f.case)} {_plain(f.gate)}: {_plain(text)}" for f, text in figures)
    if row.cases:
        yield from ("", f"Cases: {cases_text(row)}.")
    yield from ("", f"Run again: {_code(row.rerun)}")


def _plain(text: str) -> str:
    """A text as it is, on one line: nothing of it marks anything up."""
    line = clean(" ".join(text.split()))
    return _LEADING.sub(r"\\\g<0>", _MARKUP.sub(r"\\\g<0>", line))


def _code(text: str) -> str:
    """A text as code, in a row of backticks that is longer than any inside it."""
    text = clean(" ".join(text.split()))
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    if not longest:
        return f"`{text}`"
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}"


def _fenced(language: str, text: str) -> list[str]:
    fence = "```"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", *map(clean, text.splitlines()), fence]


def _counts(counts: tuple[int, int]) -> str:
    return f"{counts[0]} / {counts[1]}"
