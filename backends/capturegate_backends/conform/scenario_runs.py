"""What the shipped scenarios came to on the fake and on a device, trimmed to what a page tells."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capturegate.errors import InputError

FORMAT = "capturegate scenario runs 1"
NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """One case: `gates` maps the gates that count to their verdicts, `failed` names checks.

    `skipped` is the reason of a skip. A case that was not run has no gates and no checks.
    """

    gates: Mapping[str, str]
    checks: int
    failed: Sequence[str]
    skipped: str = ""

    def __str__(self) -> str:
        if self.skipped:
            return "skipped"
        if not self.gates and not self.checks:
            return NOT_RUN
        words = [f"{gate} {verdict}" for gate, verdict in self.gates.items() if verdict != "held"]
        held = sum(verdict == "held" for verdict in self.gates.values())
        passed = self.checks - len(self.failed)
        return ", ".join([f"held {held}", *words, f"checks {passed}/{self.checks}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRuns:
    """Both runs by case; `description` is the device's."""

    description: Mapping[str, str]
    fake: Mapping[str, CaseRow]
    device: Mapping[str, CaseRow]

    def save(self, path: Path) -> None:
        """Write it to a file."""
        data = {
            "format": FORMAT,
            **self.description,
            "fake": {case: asdict(row) for case, row in self.fake.items()},
            "on_device": {case: asdict(row) for case, row in self.device.items()},
        }
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def trim(fake: Mapping[str, Any], device: Mapping[str, Any]) -> ScenarioRuns:
    """Take what is needed from the JSON of two runs.

    Raises:
        InputError: they are not those of the fake and of a device.
    """
    if fake["backend"]["name"] != "fake" or device["backend"]["name"] == "fake":
        raise InputError("these are not a run on the fake and one on a device, in this order")
    about = {key: str(device["backend"][key]) for key in ("device", "driver", "cuda")}
    return ScenarioRuns(description=about, fake=_rows(fake), device=_rows(device))


def load_run(path: Path) -> ScenarioRuns:
    """Read what `ScenarioRuns.save` wrote.

    Raises:
        InputError: it is no such file.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        if data.pop("format") != FORMAT:
            raise ValueError("another format")
        fake, device = (
            {case: CaseRow(**row) for case, row in data.pop(side).items()}
            for side in ("fake", "on_device")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not a file of scenario runs: {error}", where=str(path)) from error
    return ScenarioRuns(description=data, fake=fake, device=device)


def table(runs: ScenarioRuns, shipped: Collection[str]) -> list[str]:
    """The page's section as lines of Markdown; `shipped` are the cases that there are now."""
    about = runs.description
    cases = list(dict.fromkeys((*runs.fake, *runs.device)))
    nothing = CaseRow(gates={}, checks=0, failed=())
    both = {case: (runs.fake.get(case, nothing), runs.device.get(case, nothing)) for case in cases}
    absent = [case for case, (_, there) in both.items() if str(there) == NOT_RUN]
    skipped = [case for case, (_, there) in both.items() if there.skipped]
    same = [
        c for c, (here, there) in both.items() if here == there and c not in (*absent, *skipped)
    ]
    differ = len(cases) - len(same) - len(absent) - len(skipped)
    lines = [
        "## Scenarios on the device",
        "",
        f"{about['device']}, driver {about['driver']}, CUDA {about['cuda']}.",
        f"Of {len(cases)} cases {len(same)} gave the verdicts of the fake, {differ} others;",
        f"{len(skipped)} are skipped by their lane, {len(absent)} were not run.",
        *_names("Shipped since, and not in this run", [c for c in shipped if c not in both]),
        *_names("In this run, and not shipped any more", [c for c in both if c not in shipped]),
        "",
        "| case | fake | device | same |",
        "|---|---|---|---|",
    ]
    for case, (here, there) in both.items():
        lines.append(f"| `{case}` | {here} | {there} | {'yes' if here == there else 'no'} |")
    return [*lines, ""]


def _names(told: str, cases: Sequence[str]) -> list[str]:
    return ["", f"{told}: {', '.join(f'`{case}`' for case in cases)}."] if cases else []


def _rows(run: Mapping[str, Any]) -> dict[str, CaseRow]:
    return {case["case"].rpartition("@")[0]: _row(case) for case in run["cases"]}


def _row(case: Mapping[str, Any]) -> CaseRow:
    gates = [gate for gate in case["gates"] if gate["named"] or gate["verdict"] == "broken"]
    return CaseRow(
        gates={gate["gate"]: gate["verdict"] for gate in gates},
        checks=len(case["checks"]),
        failed=[check["id"] for check in case["checks"] if check["outcome"] != "passed"],
        skipped=case["skip"]["reason"] if case["skip"] else "",
    )
