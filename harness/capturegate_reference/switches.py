"""The switches of the engine: environment variables, read once per process."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

from capturegate.errors import InputError

_VALUES = {"1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What the environment says.

    Attributes:
        pool_bypass: every request to a pool is a driver call.
        pool_exact: a pool keeps exact sizes instead of size classes, and never borrows.
        pool_borrow: a pool may lend a block of a larger class.
        async_executor: decode steps alternate between two slots.
        decode_graph: decode steps may be captured.
        prompt_graph_capture_seed: prompt graphs are captured at their first observation.
    """

    pool_bypass: bool
    pool_exact: bool
    pool_borrow: bool
    async_executor: bool
    decode_graph: bool
    prompt_graph_capture_seed: bool


VARIABLES = tuple(f"CAPTUREGATE_{name.upper()}" for name in Switches.__dataclass_fields__)
"""The environment variables of the switches."""


@functools.cache
def switches() -> Switches:
    """The switches as the environment stood when somebody first asked.

    Raises:
        InputError: a variable is set to something other than 0 or 1.
    """
    return Switches(
        pool_bypass=_read("CAPTUREGATE_POOL_BYPASS"),
        pool_exact=_read("CAPTUREGATE_POOL_EXACT"),
        pool_borrow=_read("CAPTUREGATE_POOL_BORROW", default="1"),
        async_executor=_read("CAPTUREGATE_ASYNC_EXECUTOR"),
        decode_graph=_read("CAPTUREGATE_DECODE_GRAPH", default="1"),
        prompt_graph_capture_seed=_read("CAPTUREGATE_PROMPT_GRAPH_CAPTURE_SEED"),
    )


def _read(variable: str, *, default: str = "0") -> bool:
    value = os.environ.get(variable, default)
    if value not in _VALUES:
        raise InputError(
            f"the switch {variable} is set to {value!r}",
            expected="1 (on) or 0 (off)",
            hint=f"unset {variable} for its default, {default}",
        )
    return _VALUES[value]
