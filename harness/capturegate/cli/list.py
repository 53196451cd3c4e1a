"""`capturegate list`: the cases that a run would have, and what is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from capturegate.cli import options
from capturegate.gates.base import Gate
from capturegate.run.plan import Plan


@click.command()
@options.paths
@options.selection
@options.backend
@options.json_to
def list_(
    paths: tuple[Path, ...],
    keyword: str,
    lane: tuple[str, ...],
    arm: tuple[str, ...],
    backend: str,
    json_to: str | None,
) -> None:
    """List the cases in PATHS, or the shipped ones, and gates, engines and backends."""
    from capturegate.cli.targets import check_targets
    from capturegate.gates.registry import all_gates
    from capturegate.report.text import clean
    from capturegate.run.engines import ADAPTERS, entry_points
    from capturegate.run.plan import Selection, backends, load, make_plan, unusable
    from capturegate.run.pool import Pool

    scenarios = load(paths)
    check_targets(
        {"--json": options.file_of(json_to)},
        {"scenario": [Path(scenario.path) for scenario in scenarios]},
    )
    plan = make_plan(scenarios, backend, Selection(keyword=keyword, lanes=lane, arms=arm))
    with Pool() as pool:
        problems = unusable(sorted(backends()), pool)
    if (problem := problems[backend]) is not None:
        raise problem
    why_not = {name: str(problem).splitlines()[0] for name, problem in problems.items() if problem}
    gates = sorted(all_gates().values(), key=lambda gate: gate.code)
    engines = {point.name: point.value for point in entry_points(ADAPTERS)}
    if json_to is not None:
        options.write_json(_as_json(plan, gates, engines, backends(), why_not), json_to)
    if json_to == "-":
        return
    _section("cases", [clean(case.id) for case in plan.cases])
    _section("gates", [f"{gate.code}  {gate.name}" for gate in gates])
    _section("engines", [f"{name}  {value}" for name, value in sorted(engines.items())])
    lines = []
    for name, module in sorted(backends().items()):
        lines.append(f"{name}  {module}")
        if name in why_not:
            lines[-1] += f"  not usable here: {clean(why_not[name])}"
    _section("backends", lines)


def _as_json(
    plan: Plan,
    gates: Sequence[Gate],
    engines: dict[str, str],
    backends: dict[str, str],
    why_not: dict[str, str],
) -> dict[str, Any]:
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
    return {
        "schema": 1,
        "cases": cases,
        "gates": [{"code": gate.code, "name": gate.name} for gate in gates],
        "engines": engines,
        "backends": backends,
        "unusable": why_not,
    }


def _section(title: str, lines: Sequence[str]) -> None:
    click.echo(f"{title}: {len(lines)}")
    for line in lines:
        click.echo(f"  {line}")
