"""What the oracle of a case came to, and who may know it already."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from capturegate.run.drive import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRun:
    """The outputs of the eager engine, and what makes it no oracle; empty when it is one."""

    snapshots: tuple[Snapshot, ...]
    error: str


class OracleKeeper(Protocol):
    """Keeps the oracle of a case for later runs of it, in which nothing can change it."""

    def known(self) -> OracleRun | None:
        """What is known; None where the oracle has to run."""

    def keep(self, run: OracleRun) -> None:
        """Take what it came to."""
