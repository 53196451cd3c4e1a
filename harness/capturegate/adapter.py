"""The object that shows an engine to scenarios: verbs, counters, outputs, predicates.

An adapter is a plain class. It is created in the case's own process, with the environment of the
lane set before anything of the engine was imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from capturegate.backend import Backend, Pointer

Facts = Mapping[str, int | float | str | bool]
"""What a verb reports of itself: named facts that a step may check."""

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output buffer of an engine that a replay rewrites.

    `rows` are the leading rows that the last step's requests own, out of `rows_padded`; the rest
    is padding, never compared, and nobody may use it. `dtype` is NumPy's name of the items. Name
    the buffer that the graph itself writes: only what a replay wrote counts as replayed.
    """

    name: str
    pointer: Pointer
    row_bytes: int
    rows: int
    rows_padded: int
    dtype: str = "float32"


class Adapter(Protocol):
    """What a scenario needs of an engine.

    Class attributes:
        config_keys: the configuration keys with their type and default.
        predicates: named skip predicates; each asks the engine's own production predicate.
        tells_pool: whether the engine notes its pool events (see `capturegate.notes`).

    Verbs are the methods marked with `verb`. The keyword arguments of such a method, with their
    annotations and defaults, are what a scenario step may give. A verb returns facts.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]]
    predicates: ClassVar[Mapping[str, Callable[[], bool]]]
    tells_pool: ClassVar[bool]

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        """Build the engine.

        An `oracle` runs the same steps, at the same padded sizes, but never captures: its
        outputs are what a replay has to equal.
        """

    def counters(self) -> Mapping[str, int]:
        """The engine's own counters, cumulative; a step checks by how much they grew."""

    def outputs(self) -> Sequence[Output]:
        """The buffers that the last step wrote its results to; empty before the first."""

    def buffers(self) -> Sequence[Pointer]:
        """Every buffer that a coming replay will write results to; poisoned before each step."""

    def close(self) -> None:
        """Let go of everything."""


def verb(method: F) -> F:
    """Mark a method of an adapter as a verb."""
    method.__capturegate_verb__ = True  # type: ignore[attr-defined]
    return method


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a verb: its type's name and, when it has one, its default."""

    name: str
    type: str
    required: bool


def verbs_of(adapter: type) -> dict[str, list[Argument]]:
    """The verbs of an adapter class with their arguments."""
    found: dict[str, list[Argument]] = {}
    for name, method in inspect.getmembers(adapter, inspect.isfunction):
        if not getattr(method, "__capturegate_verb__", False):
            continue
        hints = inspect.get_annotations(method, eval_str=True)
        found[name] = [
            Argument(
                name=parameter.name,
                type=getattr(hints.get(parameter.name), "__name__", "any"),
                required=parameter.default is inspect.Parameter.empty,
            )
            for parameter in list(inspect.signature(method).parameters.values())[1:]
        ]
    return found
