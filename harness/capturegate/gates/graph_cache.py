"""What a graph cache told, read together with the calls that it made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from capturegate import notes
from capturegate.trace import (
    ADD_CHILD_API,
    END_API,
    ENGINE,
    WORK_APIS,
    Event,
    Trace,
)

INSTANTIATE = "cudaGraphInstantiate"
UPDATE = "cudaGraphExecUpdate"
LAUNCH = "cudaGraphLaunch"
DESTROY = "cudaGraphExecDestroy"
_CALLS = WORK_APIS - {LAUNCH}
_COPY = "cudaMemcpyAsync"
_BATCH = "cudaMemcpyBatchAsync"

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

    It lasts until its thread tells of the next one. A thread that tells of none works for the
    observation that was told last.

    Attributes:
        what: what the cache said it is.
        known: whether the same had run directly before, and an executable for it was kept.
        told: its note.
        launches: launches of the cache's executables that hold it.
        direct: work that ran, from here to the next observation of its thread.
        made_of: what its launched executable was made of, as far as the trace knows.
        proof: the earlier direct run that had all of that.
    """

    what: What
    known: bool
    told: Event
    launches: list[Event] = field(default_factory=list)
    direct: list[Event] = field(default_factory=list)
    made_of: Counter[Work] = field(default_factory=Counter)
    proof: Sequence[Event] = ()

    @property
    def ran_again(self) -> bool:
        """Whether it was also submitted call by call, in its step.

        The last call of the earlier run has to write the same bytes again: other work of an engine
        may well launch the same kernels.
        """
        if not self.made_of or not self.proof:
            return False
        last = self.proof[-1]
        direct = [event for event in self.direct if event.phase == self.told.phase]
        ends = any(_work(e) == _work(last) and e.writes == last.writes for e in direct)
        return ends and contains(direct, self.made_of)


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
        self._made = _MadeOf()
        self._runs: dict[What | None, list[tuple[Observation, list[Event]]]] = {}
        self._kept: set[int] = set()
        self._current: dict[int, Observation] = {}
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
        self._made.read(event)
        if event.api in _CALLS:
            current = self._current_of(event)
            if current is not None and not event.capture:
                current.direct.append(event)
        elif act := self._on.get(event.api):
            act(event)

    def _current_of(self, event: Event) -> Observation | None:
        told = self.found.observations
        return self._current.get(event.thread) or (told[-1] if told else None)

    def _observed(self, event: Event) -> None:
        what, holdings = what_of(event), self.found.holdings
        held = [executable for executable in self._kept if holdings.get(executable) == what]
        known = any(self._proof(executable, what, None) for executable in held)
        observation = Observation(what=what, known=known, told=event)
        self._current[event.thread] = observation
        self.found.observations.append(observation)

    def _ran_directly(self, event: Event) -> None:
        current = self._current_of(event)
        if current is not None and what_of(event) == current.what:
            self._runs.setdefault(current.what, []).append((current, current.direct.copy()))

    def _proof(self, executable: int, what: What | None, now: Observation | None) -> list[Event]:
        """The newest direct run, of another observation than this, that proves an executable.

        The claim counts where calls outside of a capture bear it out: there were some, and all
        that the executable is known to be made of is among them.
        """
        made = self._made.executables.get(executable, Counter())
        for observation, run in self._runs.get(what, [])[::-1]:
            if observation is not now and run and contains(run, made):
                return run
        return []

    def _holds(self, event: Event) -> None:
        self.found.holdings[_executable(event)] = what_of(event)
        self._kept.add(_executable(event))

    def _updated(self, event: Event) -> None:
        if event.handle in self.found.holdings:
            # Nobody knows what it holds until that is told.
            self.found.holdings[int(event.handle)] = None

    def _launched(self, event: Event) -> None:
        executable = int(event.handle)
        if executable not in self.found.holdings:
            return
        self.found.launches += 1
        held, current = self.found.holdings[executable], self._current_of(event)
        proof = self._proof(executable, held, current)
        if not proof:
            self.found.unproven.append((event, held))
        if current is not None and held == current.what:
            current.launches.append(event)
            current.made_of = self._made.executables.get(executable, Counter())
            current.proof = proof


class _MadeOf:
    """What executables are made of, as far as the trace knows: calls that were captured.

    Of a node that a graph got by other means than a capture or a child graph nothing is known, and
    one that was patched in an executable still counts as what was captured.
    """

    def __init__(self) -> None:
        self.executables: dict[int, Counter[Work]] = {}
        self._captures: dict[int, Counter[Work]] = {}
        self._graphs: dict[int, Counter[Work]] = {}

    def read(self, event: Event) -> None:
        detail, handle = event.detail or {}, event.handle
        if event.api in _CALLS and event.capture:
            self._captures.setdefault(event.capture, Counter())[_work(event)] += 1
        elif event.api == END_API and event.capture:
            self._graph(handle).update(self._captures.pop(event.capture, Counter()))
        elif event.api == ADD_CHILD_API:
            self._graph(handle).update(self._graph(detail["child"]))
        elif event.api in (INSTANTIATE, UPDATE):
            self.executables[int(handle)] = self._graph(detail.get("graph", 0)).copy()

    def _graph(self, graph: int | str) -> Counter[Work]:
        return self._graphs.setdefault(int(graph), Counter())


def contains(done: Iterable[Event], wanted: Counter[Work]) -> bool:
    """Whether the wanted calls are among what was done, in whatever order the host made them.

    A batch of copies stands for single ones: it cannot be captured.
    """
    had = Counter(map(_work, done))
    batched = any(api == _BATCH for api, _ in had)
    return all(
        had[work] >= count or (batched and work[0] == _COPY) for work, count in wanted.items()
    )


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
