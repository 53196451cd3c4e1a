"""The commands `capturegate conform` and `capturegate fuzz`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capturegate.cli import options
from capturegate.errors import InputError

if TYPE_CHECKING:
    from capturegate_backends.conform.compare import Comparison
    from capturegate_backends.conform.ledger import FuzzRun, Ledger
    from capturegate_backends.conform.scenario_runs import ScenarioRuns

_PATH = click.Path(path_type=Path)
_SHOWN_MAX = 12
_DESCRIBED_BY = ("device", "driver", "cuda")
AS_EXPECTED, NOT_AS_EXPECTED, NOTHING_JUDGED = 0, 1, 5


@click.command()
@click.option("--backend", default="fake", show_default=True, help="Backend to compare or record.")
@click.option(
    "--recording", "recordings", multiple=True, type=_PATH, help="Recordings; default: the shipped."
)
@click.option("--record", "record_to", type=_PATH, help="Record the corpus to this file instead.")
@click.option("--ledger", "ledger_at", type=_PATH, help="Fuzzing ledger for the page.")
@click.option(
    "--scenarios",
    "runs_at",
    multiple=True,
    type=_PATH,
    help="`capturegate run --json` of a device beside the fake's, for the page.",
)
@click.option("--page", "page_to", type=_PATH, help="Write the conformance page as Markdown.")
@options.json_to
@click.option("--processes", default=2, show_default=True, type=click.IntRange(1, 128))
def conform(
    backend: str,
    recordings: tuple[Path, ...],
    record_to: Path | None,
    ledger_at: Path | None,
    runs_at: tuple[Path, ...],
    page_to: Path | None,
    json_to: str | None,
    processes: int,
) -> int:
    """Compare a backend with recordings of a real device, or make a recording."""
    from capturegate.cli.targets import check_targets
    from capturegate_backends.conform.compare import Comparison, compare_with
    from capturegate_backends.conform.devices import check_backend, driver_of
    from capturegate_backends.truth.recordings import read_recording, shipped

    check_backend(backend)
    if not recordings and record_to is None:
        recordings = shipped()
    check_targets(
        {"--record": record_to, "--page": page_to, "--json": options.file_of(json_to)},
        {
            "recording": recordings,
            "ledger": () if ledger_at is None else (ledger_at,),
            "file of --scenarios": runs_at,
        },
    )
    ledger, runs = _ledger_of(ledger_at), [_run_of(path) for path in runs_at]
    if record_to is not None:
        return _record(backend, record_to, processes)
    read = {path.name: read_recording(path) for path in recordings}
    comparison = Comparison()
    for one in read.values():
        comparison.add(compare_with(backend, one.cases, driver_of(one.description)))
    about = {name: one.description for name, one in read.items()}
    exit_code = _publish(backend, comparison, about, json_to)
    if page_to is not None:
        from capturegate.run.plan import expand, load
        from capturegate_backends.conform.page import page

        cases = [case.name for case in expand(load([]), "fake")]
        options.write_file("--page", page_to, page(read, comparison, ledger, runs, cases))
    return exit_code


@click.command()
@click.option("--backend", default="cupy", show_default=True, help="Backend to hold the fake to.")
@click.option(
    "--seconds",
    default=60.0,
    show_default=True,
    type=click.FloatRange(1),
    callback=options.seconds,
)
@click.option(
    "--seed", type=click.IntRange(0), help="First seed; default: after the ledger's last."
)
@click.option("--processes", default=2, show_default=True, type=click.IntRange(1, 128))
@click.option("--ledger", "ledger_at", type=_PATH, help="Add counts and differences to this file.")
def fuzz(
    backend: str, seconds: float, seed: int | None, processes: int, ledger_at: Path | None
) -> int:
    """Run random call programs on the fake and on a device, and compare what they show."""
    from capturegate.cli.targets import check_targets, is_descriptor
    from capturegate_backends.conform.devices import check_backend
    from capturegate_backends.conform.fuzz import fuzz as run_fuzz
    from capturegate_backends.conform.ledger import Ledger, load_ledger

    check_backend(backend)
    check_targets({"--ledger": ledger_at}, {})
    if ledger_at is not None and is_descriptor(ledger_at):
        # It is read first, and what is open for writing might never end.
        raise InputError(f"--ledger {ledger_at} is not a regular file")
    ledger = load_ledger(ledger_at) if ledger_at is not None else Ledger()
    first = ledger.next_seed if seed is None else seed
    result = run_fuzz(backend, seconds, first, processes)
    ledger.add(result, seed=first, seconds=seconds, processes=processes)
    run = ledger.runs[-1]
    _say_fuzz(run)
    for kind, times in result.kinds.most_common(_SHOWN_MAX):
        click.echo(f"  {times:6}  {kind}")
    for one in result.lost[:_SHOWN_MAX]:
        click.echo(f"  lost: seed {first + one.job}, exit code {one.exit_code}")
    if ledger_at is not None:
        try:
            ledger.save(ledger_at)
        except OSError as error:
            raise options.OutputLostError(f"--ledger {ledger_at}: {error.strerror}") from error
    if not run.programs:
        return NOTHING_JUDGED
    return NOT_AS_EXPECTED if run.differences or run.lost else AS_EXPECTED


def _say_fuzz(run: FuzzRun) -> None:
    click.echo(
        f"programs: {run.programs} | {run.differences} differ | {run.lost} lost"
        f" · seeds {run.seed} to {run.next_seed - 1}"
    )


def _ledger_of(path: Path | None) -> Ledger:
    """The ledger for a page; here one that is named has to be there."""
    from capturegate_backends.conform.ledger import Ledger, load_ledger

    if path is None:
        return Ledger()
    if not path.exists():
        raise InputError(f"--ledger {path} is not there", expected="a file that `fuzz` wrote")
    return load_ledger(path)


def _run_of(path: Path) -> ScenarioRuns:
    from capturegate_backends.conform.scenario_runs import load_run

    run = load_run(path)
    if lacks := [key for key in _DESCRIBED_BY if key not in run.description]:
        raise InputError(f"the scenario runs lack {', '.join(lacks)}", where=str(path))
    return run


def _record(backend: str, path: Path, processes: int) -> int:
    from capturegate_backends.conform.devices import check_backend
    from capturegate_backends.conform.record import record

    check_backend(backend)
    cases, lost = record(backend, path, processes)
    click.echo(f"recorded: {cases} programs | {len(lost)} lost")
    for name, one in lost[:_SHOWN_MAX]:
        click.echo(f"  lost: {name}, exit code {one.exit_code}")
    if not cases:
        return NOTHING_JUDGED
    return NOT_AS_EXPECTED if lost else AS_EXPECTED


def _publish(
    backend: str, comparison: Comparison, about: Mapping[str, object], json_to: str | None
) -> int:
    differ = len(comparison.mismatches)
    if json_to != "-":
        first: dict[str, str] = {}
        for one in comparison.mismatches:
            first.setdefault(one.kind, one.case.name)
        for kind, times in comparison.kinds.most_common(_SHOWN_MAX):
            click.echo(f"  {times:6}  {kind}  (first: {first[kind]})")
        click.echo(
            f"programs: {comparison.cases} | {comparison.cases - differ} as recorded"
            f" | {differ} differ"
        )
    if json_to is not None:
        import json

        data = {
            "backend": backend,
            "recordings": about,
            "programs": comparison.cases,
            "differences": [
                {
                    "kind": one.kind,
                    "name": one.case.name,
                    "program": one.case.program,
                    "expected": one.case.observation.as_data(),
                    "actual": one.actual.as_data() if one.actual else None,
                }
                for one in comparison.mismatches
            ],
        }
        options.write_json_text(json.dumps(data, indent=1) + "\n", json_to)
    if not comparison.cases:
        return NOTHING_JUDGED
    return NOT_AS_EXPECTED if differ else AS_EXPECTED
