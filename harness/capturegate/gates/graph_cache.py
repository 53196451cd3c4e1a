"""What a graph cache told, read together with the calls that it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from capturegate import notes
from capturegate.trace import ENGINE, Event, Trace

INSTANTIATE = "cudaGraphInstantiate"
UPDATE = "cudaGraphExecUpdate"
LAUNCH = "cudaGraphLaunch"
DESTROY = "cudaGraphExecDestroy"
_WORK = frozenset({"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"})


class What(NamedTuple):
    """What an observation is and what an executable holds; see `capturegate.notes.GraphNotes`."""

    namespace: str
    identity: str
    properties: str

    def __str__(self) -> str:
        return f"{self.namespace} {self.identity}/{self.properties}"


@dataclass(slots=True, kw_only=True)
class Observation:
    """One observation with what was submitted for it.

    Attributes:
        what: what the cache said it is.
        known: whether the same had run directly before, and an executable for it was kept.
        told: its note.
        launches: launches of the cache's executables.
    """

    what: What
    known: bool
    told: Event
    launches: list[Event] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CacheHistory:
    """All observations, and what stood at each launch.

    Attributes:
        observations: in the order in which they came.
        unproven: launches of what had run directly in no earlier observation, with what was held.
        launches: how many launches of the cache's executables there were.
        holdings: every executable with what it was said to hold last.
    """

    observations: list[Observation] = field(default_factory=list)
    unproven: list[tuple[Event, What | None]] = field(default_factory=list)
    launches: int = 0
    holdings: dict[int, What | None] = field(default_factory=dict)


def history(trace: Trace) -> CacheHistory:
    """Read a trace from its beginning."""
    reader = _Reader()
    for event in trace.events:
        if event.actor == ENGINE and not event.refused:
            reader.read(event)
    return reader.found


class _Reader:
    """Follows what executables hold and what ran, event by event."""

    def __init__(self) -> None:
        self.found = CacheHistory()
        self._ran: set[What] = set()
        self._running: set[What] = set()
        self._kept: set[int] = set()
        self._current: Observation | None = None
        self._worked = False
        self._on: dict[str, Callable[[Event], None]] = {
            notes.OBSERVED: self._observed,
            notes.RAN_DIRECTLY: self._ran_directly,
            notes.HOLDS: self._holds,
            notes.DROPPED: lambda event: self._kept.discard(_executable(event)),
            DESTROY: lambda event: self._kept.discard(int(event.handle)),
            UPDATE: self._updated,
            LAUNCH: self._launched,
        }

    def read(self, event: Event) -> None:
        if event.api in _WORK and event.capture == 0:
            self._worked = True
        elif act := self._on.get(event.api):
            act(event)

    def _observed(self, event: Event) -> None:
        what, holdings = what_of(event), self.found.holdings
        # What ran directly is proven for the observations after it, not for its own.
        self._ran |= self._running
        self._running.clear()
        kept = any(holdings.get(executable) == what for executable in self._kept)
        self._current = Observation(what=what, known=what in self._ran and kept, told=event)
        self.found.observations.append(self._current)
        self._worked = False

    def _ran_directly(self, event: Event) -> None:
        # A claim counts where calls outside of a capture bear it out.
        if self._worked and self._current is not None and what_of(event) == self._current.what:
            self._running.add(self._current.what)

    def _holds(self, event: Event) -> None:
        self.found.holdings[_executable(event)] = what_of(event)
        self._kept.add(_executable(event))

    def _updated(self, event: Event) -> None:
        if event.handle in self.found.holdings:
            # Nobody knows what it holds until that is told.
            self.found.holdings[int(event.handle)] = None

    def _launched(self, event: Event) -> None:
        if event.handle not in self.found.holdings:
            return
        self.found.launches += 1
        held = self.found.holdings[int(event.handle)]
        if held not in self._ran:
            self.found.unproven.append((event, held))
        if self._current is not None and held == self._current.what:
            self._current.launches.append(event)


def live_executables(trace: Trace) -> Iterator[tuple[Event, dict[int, Event]]]:
    """After each event that matters: the executables that exist, each with what made it."""
    live: dict[int, Event] = {}
    for event in trace.events:
        if event.refused:
            continue
        if event.api == INSTANTIATE:
            live[int(event.handle)] = event
        elif event.api == DESTROY:
            live.pop(int(event.handle), None)
        elif event.api not in (notes.HOLDS, notes.RELEASED):
            continue
        yield event, live


def what_of(event: Event) -> What:
    """What a note is about."""
    detail = event.detail or {}
    return What(detail["namespace"], detail["identity"], detail["properties"])


def _executable(event: Event) -> int:
    return int((event.detail or {})["executable"])
