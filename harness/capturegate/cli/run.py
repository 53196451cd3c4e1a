"""`capturegate run`: scenarios in, verdicts out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from capturegate.cli import options
from capturegate.errors import InputError
from capturegate.report.run import RunReport
from capturegate.run.result import CaseResult


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@options.selection
@options.backend
@click.option("--seed", default=0, show_default=True, help="Order in which streams progress.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Cases that run at once.",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(0.1, 86400),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wall-clock limit of one case.",
)
@click.option("--json", "json_to", metavar="FILE", help="Write the run as JSON; - is stdout.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append each result to this file, one line of JSON, as it comes.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Skip cases whose result this file has, and append the others to it.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print what broke and the counts only.")
def run(
    paths: tuple[Path, ...],
    keyword: str,
    lane: tuple[str, ...],
    arm: tuple[str, ...],
    backend: str,
    seed: int,
    workers: int,
    time_limit: float,
    json_to: str | None,
    results: Path | None,
    resume: Path | None,
    quiet: bool,
) -> int:
    """Run the scenarios in PATHS, or the shipped ones, and judge them.

    A resumed run trusts a result when case, seed and version are the same. It does not know
    whether the engine's code is.
    """
    from capturegate.gates.registry import all_gates
    from capturegate.report.guide import guides_of
    from capturegate.report.run import report_on
    from capturegate.run.plan import Selection, load, make_plan, preload_of, validate
    from capturegate.run.pool import Pool
    from capturegate.run.session import Settings, run_plan
    from capturegate.run.store import ResultWriter, read_results

    scenarios = load(paths)
    plan = make_plan(scenarios, backend, Selection(keyword=keyword, lanes=lane, arms=arm))
    known = read_results(resume) if resume else {}
    settings = Settings(seed=seed, time_limit_s=time_limit, known=known)
    done: dict[int, CaseResult] = {}
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool(workers))
        validate(scenarios, pool, all_gates(), preload_of(backend))
        target = results or resume
        writer = stack.enter_context(ResultWriter(target)) if target else None
        with _interruptible(), _progress(len(plan.cases), quiet=quiet) as advance:
            for place, result in run_plan(plan, pool, settings, writer):
                done[place] = result
                advance()
    report = report_on(
        [done[place] for place in sorted(done)],
        unfiltered=plan.unfiltered,
        backend=backend,
        seed=seed,
        arguments=[str(path) for path in paths],
        guides=guides_of(all_gates().values()),
        missing=len(plan.cases) - len(done),
    )
    _publish(report, json_to, quiet=quiet)
    return report.exit_code


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """End early on Ctrl-C: what has been judged is still reported."""
    with contextlib.suppress(KeyboardInterrupt):
        yield


@contextlib.contextmanager
def _progress(total: int, *, quiet: bool) -> Iterator[options.Advance]:
    """A bar on a terminal, once a run turns out to be long."""
    if quiet or not sys.stderr.isatty():
        yield lambda: None
        return
    from capturegate.report.progress import Progress

    with Progress(total) as bar:
        yield bar.advance


def _publish(report: RunReport, json_to: str | None, *, quiet: bool) -> None:
    from capturegate.report.json import dumps, run_as_json

    if json_to == "-":
        click.echo(dumps(run_as_json(report)), nl=False)
        return
    from capturegate.report.terminal import print_run
    from capturegate.report.text import Printer, terminal

    print_run(report, Printer(terminal()), quiet=quiet)
    if json_to is not None:
        try:
            Path(json_to).write_text(dumps(run_as_json(report)), encoding="utf-8")
        except OSError as error:
            raise InputError(f"the JSON report cannot be written: {error}") from error
