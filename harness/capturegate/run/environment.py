"""The environment of a case: set before its process starts, and before any engine is imported."""

from __future__ import annotations

from collections.abc import Mapping

OWN_PREFIX = "CAPTUREGATE_"

# One thread only: a process with a BLAS pool cannot be forked safely, and sums differ in bits
# with the number of threads. Hash order is fixed because the same seed has to give the same trace.
_FIXED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


def child_environment(parent: Mapping[str, str], lane: Mapping[str, str]) -> dict[str, str]:
    """The parent's environment without our switches, then what is fixed, then the lane's."""
    scrubbed = {name: value for name, value in parent.items() if not name.startswith(OWN_PREFIX)}
    return scrubbed | _FIXED | dict(lane)
