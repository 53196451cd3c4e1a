"""`capturegate list`: the cases that a run would have, and what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click

from capturegate.cli import options


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@options.selection
@options.backend
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(
    paths: tuple[Path, ...],
    keyword: str,
    lane: tuple[str, ...],
    arm: tuple[str, ...],
    backend: str,
    as_json: bool,
) -> None:
    """List the cases in PATHS, or the shipped ones, and gates, engines and backends."""
    from capturegate.gates.registry import all_gates
    from capturegate.report.json import dumps
    from capturegate.report.text import clean
    from capturegate.run.plan import Selection, backends, load, make_plan

    plan = make_plan(load(paths), backend, Selection(keyword=keyword, lanes=lane, arms=arm))
    gates = sorted(all_gates().values(), key=lambda gate: gate.code)
    engines = {point.name: point.value for point in entry_points(group="capturegate.adapters")}
    if as_json:
        cases = [
            {
                "id": case.id,
                "scenario": case.scenario.name,
                "lane": case.lane.name,
                "arm": case.arm.name,
                "backend": case.backend,
                "engine": case.scenario.engine,
                "path": case.scenario.path,
                "gates": [use.name for use in case.scenario.gates],
            }
            for case in plan.cases
        ]
        data: dict[str, Any] = {
            "schema": 1,
            "cases": cases,
            "gates": [{"code": gate.code, "name": gate.name} for gate in gates],
            "engines": engines,
            "backends": backends(),
        }
        click.echo(dumps(data), nl=False)
        return
    _section("cases", [clean(case.id) for case in plan.cases])
    _section("gates", [f"{gate.code}  {gate.name}" for gate in gates])
    _section("engines", [f"{name}  {value}" for name, value in sorted(engines.items())])
    _section("backends", [f"{name}  {module}" for name, module in sorted(backends().items())])


def _section(title: str, lines: Sequence[str]) -> None:
    click.echo(f"{title}: {len(lines)}")
    for line in lines:
        click.echo(f"  {line}")
