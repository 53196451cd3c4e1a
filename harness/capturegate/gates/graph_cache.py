"""What a graph cache told, read together with the calls that it made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from capturegate import notes
from capturegate.trace import ENGINE, Event, Trace

INSTANTIATE = "cudaGraphInstantiate"
UPDATE = "cudaGraphExecUpdate"
LAUNCH = "cudaGraphLaunch"
DESTROY = "cudaGraphExecDestroy"
_WORK = frozenset({"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"})

Work = tuple[str, int | str]
"""A call that puts something on a stream: its api, and the kernel where it launches one."""


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
        work: what its executable was captured from.
        ended: the last call of the same when it ran directly.
        launches: launches of the cache's executables.
        direct: work that ran, from here to the next observation.
        captured: work that was captured in that time.
    """

    what: What
    known: bool
    told: Event
    work: list[Event] = field(default_factory=list)
    ended: Event | None = None
    launches: list[Event] = field(default_factory=list)
    direct: list[Event] = field(default_factory=list)
    captured: list[Event] = field(default_factory=list)

    @property
    def ran_again(self) -> bool:
        """Whether it was also submitted call by call.

        The last of it has to write the same bytes: other work of an engine may well launch the
        same kernels in the same order.
        """
        last = self.ended
        if last is None or not self.work:
            return False
        ends = [
            number
            for number, event in enumerate(self.direct, 1)
            if _work(event) == _work(last) and event.writes == last.writes
        ]
        return bool(ends) and contains(self.direct[: ends[-1]], self.work)


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
        self._running: list[Event] | None = None
        self._captured: dict[What, list[Event]] = {}
        self._ended: dict[What, Event] = {}
        self._kept: set[int] = set()
        self._current: Observation | None = None
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
        if event.api in _WORK:
            if self._current is not None:
                own = self._current.captured if event.capture else self._current.direct
                own.append(event)
        elif act := self._on.get(event.api):
            act(event)

    def _observed(self, event: Event) -> None:
        what, holdings = what_of(event), self.found.holdings
        self._settle()
        kept = any(holdings.get(executable) == what for executable in self._kept)
        self._current = Observation(
            what=what,
            known=what in self._ran and kept,
            told=event,
            work=self._captured.get(what, []),
            ended=self._ended.get(what),
        )
        self.found.observations.append(self._current)

    def _settle(self) -> None:
        """Close an observation: what ran directly is proven for those after it, not for its own.

        The claim counts where calls outside of a capture bear it out: there were some, and all
        that its executable was captured from is among them.
        """
        current, ran = self._current, self._running
        if current is None:
            return
        if ran and contains(ran, self._captured.get(current.what, ())):
            self._ran.add(current.what)
            self._ended[current.what] = ran[-1]
        self._running = None

    def _ran_directly(self, event: Event) -> None:
        if self._current is not None and what_of(event) == self._current.what:
            self._running = list(self._current.direct)

    def _holds(self, event: Event) -> None:
        what, current = what_of(event), self._current
        self.found.holdings[_executable(event)] = what
        self._kept.add(_executable(event))
        if current is not None and current.what == what and current.captured:
            # Later windows, of other drivers, are none of its business.
            self._captured[what] = current.captured.copy()

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


def contains(done: Sequence[Event], wanted: Sequence[Event]) -> bool:
    """Whether the wanted work is among what was done, in its order."""
    rest = iter(map(_work, done))
    return all(_work(event) in rest for event in wanted)


def _work(event: Event) -> Work:
    return event.api, event.handle


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
