"""The command `capturegate mutate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capturegate.errors import InputError

if TYPE_CHECKING:
    from capturegate_mutations.report.summary import Sheet

_PATH = click.Path(path_type=Path)
HARNESS_FAILED = 3
INPUT_WRONG = 2


@click.command()
@click.argument("plans", nargs=-1, type=_PATH)
@click.option("--scenarios", multiple=True, type=_PATH, help="Scenario files or folders to prove.")
@click.option(
    "-k",
    "keyword",
    default="",
    metavar="EXPRESSION",
    help="Only mutations whose name has these words; and, or, not, ( ) combine them.",
)
@click.option("--backend", default="fake", show_default=True, help="Backend of the cases.")
@click.option("--seed", default=0, show_default=True, help="Seed of the backend's schedule.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 64))
@click.option(
    "--time-limit",
    "time_limit_s",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Seconds that a child may take for its share of the cases of one mutant.",
)
@click.option("--json", "json_to", default="", help="Write JSON to a file, or to - .")
@click.option("--markdown", "markdown_to", type=_PATH, help="Write the evidence as Markdown.")
@click.option("--learn", is_flag=True, help="Print the measured sets as YAML; write nothing.")
@click.option("--results", type=_PATH, help="Append every verdict to this file as it comes.")
@click.option("--resume", type=_PATH, help="Take verdicts from this file where nothing changed.")
@click.option("--all-cases", is_flag=True, help="Run cases too that a mutation cannot reach.")
@click.option("--quiet", is_flag=True, help="Print what is not proved, and the closing line.")
@click.pass_context
def mutate(
    context: click.Context,
    plans: tuple[Path, ...],
    scenarios: tuple[Path, ...],
    keyword: str,
    backend: str,
    seed: int,
    workers: int,
    time_limit_s: float,
    json_to: str,
    markdown_to: Path | None,
    learn: bool,
    results: Path | None,
    resume: Path | None,
    all_cases: bool,
    quiet: bool,
) -> None:
    """Prove that every gate sees what it is there for: flip code, expect exact verdicts.

    PLANS are *.mutation.yaml files or folders of them; the shipped ones without any. Exit code 0
    when every mutation is proved, 1 when one is not, 2 for wrong input, 3 when the proof itself
    is broken.
    """
    from capturegate.cli.targets import check_targets
    from capturegate_mutations.controls import ControlError
    from capturegate_mutations.runner import TreeChanged
    from capturegate_mutations.session import Request, Session

    request = Request(
        plans=plans,
        scenarios=scenarios,
        keyword=keyword,
        backend=backend,
        seed=seed,
        workers=workers,
        time_limit_s=time_limit_s,
        results=results,
        resume=resume,
        draft=learn,
        all_cases=all_cases,
    )
    try:
        check_targets(
            {
                "--json": Path(json_to) if json_to not in ("", "-") else None,
                "--markdown": markdown_to,
                "--results": results,
            },
            [*plans, *scenarios],
        )
        sheet = Session(request=request, say=_say).run()
    except InputError as error:
        click.echo(str(error), err=True)
        context.exit(INPUT_WRONG)
    except (ControlError, TreeChanged) as error:
        click.echo(f"no verdict counts: {error}", err=True)
        context.exit(HARNESS_FAILED)
    _say("")
    if resume is not None:
        click.echo(f"{sheet.taken} verdicts taken from {resume}", err=True)
    if learn:
        _print_learned(sheet)
        context.exit(int(any(row.reason for row in sheet.rows)))
    _report(sheet, json_to, markdown_to, quiet=quiet)
    context.exit(sheet.exit_code)


def _say(text: str) -> None:
    """Keep one line of progress, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text}", err=True, nl=False)


def _print_learned(sheet: Sheet) -> None:
    from capturegate_mutations.report.learned import as_yaml

    for row in sheet.rows:
        click.echo(as_yaml(row))


def _report(sheet: Sheet, json_to: str, markdown_to: Path | None, *, quiet: bool) -> None:
    from capturegate_mutations.report.json import as_json
    from capturegate_mutations.report.markdown import as_markdown
    from capturegate_mutations.report.terminal import print_sheet

    if markdown_to is not None:
        markdown_to.write_text(as_markdown(sheet), encoding="utf-8")
    if json_to == "-":
        click.echo(as_json(sheet), nl=False)
        return
    if json_to:
        Path(json_to).write_text(as_json(sheet), encoding="utf-8")
    print_sheet(sheet, quiet=quiet)
