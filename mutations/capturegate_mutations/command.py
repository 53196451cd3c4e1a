"""The command `capturegate mutate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capturegate.cli import options

if TYPE_CHECKING:
    from capturegate_mutations.report.summary import Sheet
    from capturegate_mutations.session import Request

_PATH = click.Path(path_type=Path)
HARNESS_FAILED = 3


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
    callback=options.seconds,
    help="Seconds that a child may take for its share of the cases of one mutant.",
)
@options.json_to
@click.option("--markdown", "markdown_to", type=_PATH, help="Write the evidence as Markdown.")
@click.option("--learn", is_flag=True, help="Print the measured sets as YAML; write nothing.")
@click.option("--results", type=_PATH, help="Append every verdict to this file as it comes.")
@click.option("--resume", type=_PATH, help="Take verdicts from this file where nothing changed.")
@click.option("--all-cases", is_flag=True, help="Run cases too that a mutation cannot reach.")
@click.option("--quiet", is_flag=True, help="Print what is not proved, and the closing line.")
def mutate(
    plans: tuple[Path, ...],
    scenarios: tuple[Path, ...],
    keyword: str,
    backend: str,
    seed: int,
    workers: int,
    time_limit_s: float,
    json_to: str | None,
    markdown_to: Path | None,
    learn: bool,
    results: Path | None,
    resume: Path | None,
    all_cases: bool,
    quiet: bool,
) -> int:
    """Prove that every gate sees what it is there for: flip code, expect exact verdicts.

    PLANS are *.mutation.yaml files or folders of them; the shipped ones without any. Exit code 0
    when every mutation is proved, 1 when one is not, 2 for wrong input, 3 when the proof itself
    is broken.
    """
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
    _check_files(request, json_to, markdown_to)
    try:
        sheet = Session(request=request, say=_say).run()
    except (ControlError, TreeChanged) as error:
        click.echo(f"error: no verdict counts: {error}", err=True)
        return HARNESS_FAILED
    _say("")
    if resume is not None:
        click.echo(f"{sheet.taken} verdicts taken from {resume}", err=True)
    if learn:
        _print_learned(sheet)
        return int(any(row.reason for row in sheet.rows))
    _report(sheet, json_to, markdown_to, quiet=quiet)
    return sheet.exit_code


def _check_files(request: Request, json_to: str | None, markdown_to: Path | None) -> None:
    """See that the files to write can be written, and are none of those that are read."""
    from capturegate.cli.targets import check_targets, same_file
    from capturegate.scenario.loader import find_scenarios, shipped_scenarios
    from capturegate_mutations.reader import find_plans, shipped_plans

    scenarios, resumed = request.scenarios, [request.resume] if request.resume else []
    if request.results is not None:
        # That one is added to.
        resumed = [path for path in resumed if not same_file(request.results, path)]
    check_targets(
        {
            "--json": options.file_of(json_to),
            "--markdown": markdown_to,
            "--results": request.results,
        },
        {
            "plan": find_plans(request.plans) if request.plans else shipped_plans(),
            "scenario": find_scenarios(scenarios) if scenarios else shipped_scenarios(),
            "file of --resume": resumed,
        },
    )


def _say(text: str) -> None:
    """Keep one line of progress, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[2K{text}", err=True, nl=False)


def _print_learned(sheet: Sheet) -> None:
    from capturegate_mutations.report.learned import as_yaml

    for row in sheet.rows:
        click.echo(as_yaml(row))


def _report(sheet: Sheet, json_to: str | None, markdown_to: Path | None, *, quiet: bool) -> None:
    from capturegate_mutations.report.json import as_json
    from capturegate_mutations.report.markdown import as_markdown
    from capturegate_mutations.report.terminal import print_sheet

    if json_to != "-":
        print_sheet(sheet, quiet=quiet)
    if json_to is not None:
        options.write_json_text(as_json(sheet), json_to)
    if markdown_to is not None:
        options.write_file("--markdown", markdown_to, as_markdown(sheet))
