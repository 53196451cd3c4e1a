"""`capturegate explain`: what a gate checks, why, and what to do when it goes red."""

from __future__ import annotations

import click

from capturegate.errors import InputError
from capturegate.report.guide import Guide


@click.command()
@click.argument("gate", required=False, metavar="[CODE|NAME]")
def explain(gate: str | None) -> None:
    """Say what a gate checks, why that is unsafe, and how to fix it; without a gate, list all."""
    from capturegate.gates.registry import all_gates
    from capturegate.report.guide import guides_of

    guides = guides_of(all_gates().values())
    if gate is None:
        for guide in sorted(guides.values(), key=lambda g: g.code):
            click.echo(f"{guide.code}  {guide.name}: {guide.title}")
        return
    click.echo(_page(_find(gate, guides)))


def _find(wanted: str, guides: dict[str, Guide]) -> Guide:
    by_word = {guide.code.lower(): guide for guide in guides.values()}
    by_word |= {guide.name: guide for guide in guides.values()}
    if (found := by_word.get(wanted.lower())) is not None:
        return found
    import difflib

    known = [word for guide in guides.values() for word in (guide.code, guide.name)]
    close = difflib.get_close_matches(wanted, known, n=1) or difflib.get_close_matches(
        wanted.upper(), known, n=1
    )
    raise InputError(
        f"there is no gate {wanted!r}",
        expected=", ".join(sorted(guide.code for guide in guides.values())) + ", or a name",
        hint=f"did you mean '{close[0]}'?" if close else "`capturegate explain` lists all gates",
    )


def _page(guide: Guide) -> str:
    lines = [f"{guide.code} {guide.name}", "", guide.title]
    for heading, text in guide.sections.items():
        lines += ["", heading, *(f"  {line}".rstrip() for line in text.splitlines())]
    params = ", ".join(f"{name}: {kind}" for name, kind in guide.params.items())
    lines += [
        "",
        f"Needs of the trace: {', '.join(guide.needs) or 'nothing'}",
        f"Parameters: {params or 'none'}",
        f"Judges cases that do not name it: {'yes' if guide.by_default else 'no'}",
    ]
    return "\n".join(lines)
