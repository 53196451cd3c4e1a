"""The baseline's oracles, kept in files for mutants that cannot change them.

Imports nothing of the harness: in a bare zygote every module of it can still be flipped.
"""

from __future__ import annotations

import pickle
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from capturegate.run.oracle import OracleRun


class KeptOracle:
    """One case's oracle in a folder: read where it is known, written where it ran.

    Attributes:
        hits: what had been entered when the oracle was done, of `entered`, which fills with the
            keys of what runs; None where it did not run to be kept.
    """

    def __init__(
        self, folder: Path, case: str, *, is_known: bool, entered: AbstractSet[str]
    ) -> None:
        self.hits: list[str] | None = None
        self._file = folder / quote(case, safe="")
        self._is_known = is_known
        self._entered = entered

    def known(self) -> OracleRun | None:
        """What the baseline's oracle came to, where nothing can have changed it."""
        if not self._is_known:
            return None
        run: OracleRun = pickle.loads(self._file.read_bytes())  # noqa: S301, a child wrote it for us
        return run

    def keep(self, run: OracleRun) -> None:
        """Write it down, with what it entered."""
        self._file.write_bytes(pickle.dumps(run))
        self.hits = sorted(self._entered)
