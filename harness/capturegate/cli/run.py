"""`capturegate run`: scenarios in, verdicts out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capturegate.cli import options
from capturegate.cli.stops import exit_code_of_stop
from capturegate.report.run import RunReport
from capturegate.run.result import CaseResult
from capturegate.run.totals import ExitCode

if TYPE_CHECKING:
    from capturegate.run.plan import Plan
    from capturegate.run.session import Settings
    from capturegate.run.store import Writer
    from capturegate.scenario.model import Scenario


@click.command()
@options.paths
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
    callback=options.seconds,
    help="Wall-clock limit of one case, and of the import of an engine.",
)
@options.json_to
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    help="Append each result to this file, one line of JSON, as it comes.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
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

    A resumed run trusts a result when case, seed, version and sources are the same. Of an engine
    it knows the package of the adapter.
    """
    from capturegate.cli.targets import check_targets, same_file
    from capturegate.gates.registry import all_gates
    from capturegate.report.guide import guides_of
    from capturegate.report.run import report_on
    from capturegate.run.plan import Selection, load, make_plan
    from capturegate.run.session import Settings, marker
    from capturegate.run.store import read_results

    scenarios = load(paths)
    plan = make_plan(scenarios, backend, Selection(keyword=keyword, lanes=lane, arms=arm))
    targets = {"--json": options.file_of(json_to), "--results": results, "--resume": resume}
    if results and resume and same_file(results, resume):
        del targets["--resume"]
    check_targets(targets, {"scenario": [Path(scenario.path) for scenario in scenarios]})
    if results is not None and results.exists():
        # Who appends to a file that holds something else has named the wrong one.
        read_results(results)
    known = read_results(resume) if resume else {}
    settings = Settings(seed=seed, time_limit_s=time_limit, known=known)
    done, end = _run(scenarios, plan, settings, workers, results or resume, quiet=quiet)
    report = report_on(
        [done[place] for place in sorted(done)],
        unfiltered=plan.unfiltered,
        backend=backend,
        seed=seed,
        arguments=[str(path) for path in paths],
        guides=guides_of(all_gates().values()),
        missing=len(plan.cases) - len(done),
        stopped=end.stopped,
    )
    if resume is not None:
        mark = marker(seed)
        taken = sum(mark(case) in known for case in plan.cases)
        click.echo(f"{taken} results taken from {resume}", err=True)
    _publish(report, json_to, quiet=quiet)
    if end.lost:
        raise options.OutputLostError(end.lost)
    return report.exit_code


@dataclass(slots=True)
class _End:
    """What ended a run before its time: an exit code, or what became of the results' file."""

    stopped: ExitCode | None = None
    lost: str = ""


def _run(
    scenarios: Sequence[Scenario],
    plan: Plan,
    settings: Settings,
    workers: int,
    target: Path | None,
    *,
    quiet: bool,
) -> tuple[dict[int, CaseResult], _End]:
    """The results by their place in the plan: all, or those that came before the end."""
    from capturegate.gates.registry import all_gates
    from capturegate.run.plan import check_usable, preload_of, validate
    from capturegate.run.pool import Pool
    from capturegate.run.session import ResultsLostError, run_plan

    backend = plan.cases[0].backend
    done: dict[int, CaseResult] = {}
    end = _End()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool(workers))
        check_usable(backend, pool)
        validate(scenarios, pool, all_gates(), preload_of(backend), settings.time_limit_s)
        writer = stack.enter_context(_results_file(target)) if target else None
        advance = stack.enter_context(_progress(len(plan.cases), quiet=quiet))
        try:
            for place, result in run_plan(plan, pool, settings, writer):
                done[place] = result
                advance()
        except KeyboardInterrupt as error:
            # What has been judged is still reported.
            end.stopped = ExitCode(exit_code_of_stop(error))
        except ResultsLostError as error:
            end.lost = f"{target}: {error}"
            end.stopped = ExitCode.HARNESS_FAILED
    return done, end


@contextlib.contextmanager
def _results_file(path: Path) -> Iterator[Writer[CaseResult]]:
    from capturegate.run.store import RESULTS

    writer = RESULTS.writer(path)
    try:
        yield writer
    finally:
        # Closing tries to write again what could not be written, and that was told.
        with contextlib.suppress(OSError):
            writer.__exit__(None, None, None)


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
    from capturegate.report.json import run_as_json

    if json_to != "-":
        from capturegate.report.terminal import print_run
        from capturegate.report.text import Printer, terminal

        print_run(report, Printer(terminal()), quiet=quiet)
    if json_to is not None:
        options.write_json(run_as_json(report), json_to)
