"""The ledger of fuzzing runs: counts that add up, the seeds, and the differences found."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capturegate.errors import InputError
from capturegate.programs import generate
from capturegate_backends.conform.fuzz import Difference, Result

FORMAT = "capturegate fuzzing ledger 1"
_DIGEST_SEEDS = 100
_KEPT_PER_KIND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzRun:
    """One run: its seeds, which generator made the programs, and what came of it."""

    seed: int
    next_seed: int
    generator: str
    seconds: float
    processes: int
    programs: int
    differences: int
    lost: int


@dataclass(slots=True)
class Ledger:
    """All runs against one device.

    `fixes` says, by kind of difference, what was wrong and what was done about it.
    """

    description: dict[str, str] = field(default_factory=dict)
    runs: list[FuzzRun] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    fixes: dict[str, str] = field(default_factory=dict)

    def add(self, result: Result, *, seed: int, seconds: float, processes: int) -> None:
        """Take over what a run found.

        Raises:
            InputError: the run was on another device, driver or CUDA version.
        """
        if self.description and self.description != result.description:
            raise InputError(
                f"the ledger is about {self.description}, the run about {result.description}",
                hint="keep one ledger for each device, driver and CUDA version",
            )
        self.description = dict(result.description)
        self.totals.update(result.totals)
        self.runs.append(
            FuzzRun(
                seed=seed,
                next_seed=result.next_seed,
                generator=generator_digest(),
                seconds=seconds,
                processes=processes,
                programs=result.totals["programs"],
                differences=result.totals["differences"],
                lost=len(result.lost),
            )
        )
        kept: Counter[str] = Counter()
        for one in result.differences:
            kept[one.kind] += 1
            if kept[one.kind] <= _KEPT_PER_KIND:
                self.differences.append(one)

    @property
    def next_seed(self) -> int:
        """The first seed that no run has tried."""
        return max((run.next_seed for run in self.runs), default=0)

    @property
    def clean_programs(self) -> int:
        """Programs since the last difference, counted in whole runs."""
        clean = 0
        for run in reversed(self.runs):
            if run.differences or run.lost:
                return clean
            clean += run.programs
        return clean

    def save(self, path: Path) -> None:
        """Write the ledger as JSON."""
        data = {
            "format": FORMAT,
            "description": self.description,
            "runs": [dataclasses.asdict(run) for run in self.runs],
            "totals": dict(sorted(self.totals.items())),
            "fixes": self.fixes,
            "differences": [dataclasses.asdict(one) for one in self.differences],
        }
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def load_ledger(path: Path) -> Ledger:
    """Read a ledger; a file that does not exist is an empty one.

    Raises:
        InputError: the file is no ledger.
    """
    if not path.exists():
        return Ledger()
    try:
        data: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(data["format"])
        return Ledger(
            description=dict(data["description"]),
            runs=[FuzzRun(**run) for run in data["runs"]],
            totals=Counter(data["totals"]),
            differences=[Difference(**one) for one in data["differences"]],
            fixes=dict(data["fixes"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a fuzzing ledger: {error}", where=str(path)) from error


def generator_digest() -> str:
    """What the generator makes of the first seeds, so that a run's programs can be told."""
    programs = [generate(seed) for seed in range(_DIGEST_SEEDS)]
    return hashlib.blake2b(json.dumps(programs).encode(), digest_size=6).hexdigest()
