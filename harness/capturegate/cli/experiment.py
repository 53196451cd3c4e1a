"""`capturegate experiment`: pre-registered experiments, run and read as registered."""

from __future__ import annotations

from pathlib import Path

import click

from capturegate.cli import options


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@options.backend
@click.option("--seed", default=0, show_default=True, help="Order in which streams progress.")
@click.option("--only", multiple=True, metavar="NAME", help="Run only this one; may be repeated.")
@click.option(
    "--until-settled", is_flag=True, help="Leave out what asks a question that is settled."
)
@options.json_to
def experiment(
    files: tuple[Path, ...],
    backend: str,
    seed: int,
    only: tuple[str, ...],
    until_settled: bool,
    json_to: str | None,
) -> int:
    """Run the experiments in FILES in their order, and read each as it was registered.

    Exit code 0 when every experiment that ran settled its question, 1 when one did not, 5 when
    none ran.
    """
    from capturegate.cli.targets import check_targets
    from capturegate.experiment.conduct import conduct
    from capturegate.experiment.reader import find_experiments, load_experiments
    from capturegate.experiment.report import as_json, exit_code_of, print_reports
    from capturegate.report.text import Printer, terminal
    from capturegate.run.plan import check_backend, check_usable, preload_of, validate
    from capturegate.run.pool import Pool
    from capturegate.scenario.problems import unknown

    check_backend(backend)
    found = find_experiments(files)
    check_targets({"--json": options.file_of(json_to)}, {"experiment": found})
    experiments = load_experiments(found)
    names = {item.name for item in experiments}
    for name in only:
        if name not in names:
            raise unknown("experiment", name, names)
    with Pool() as pool:
        check_usable(backend, pool)
        validate([item.scenario for item in experiments], pool, {}, preload_of(backend))
        reports = list(
            conduct(
                experiments,
                pool,
                backend=backend,
                seed=seed,
                only=only,
                until_settled=until_settled,
            )
        )
    if json_to != "-":
        print_reports(reports, Printer(terminal()))
    if json_to is not None:
        options.write_json(as_json(reports, backend, seed), json_to)
    return exit_code_of(reports)
