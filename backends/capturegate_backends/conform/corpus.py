"""The project's corpus: the sweeps, the structures, and a share of random programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from capturegate.programs import generate
from capturegate.programs.structures import structures
from capturegate.programs.sweeps import beside_captures

RANDOM_PROGRAMS = 2000


def corpus() -> Iterator[tuple[str, list[list[Any]]]]:
    """Every named program of the corpus, in a fixed order."""
    yield from beside_captures()
    yield from structures()
    for seed in range(RANDOM_PROGRAMS):
        yield f"random/{seed}", generate(seed)
