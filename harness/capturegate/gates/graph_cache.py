"""What a graph cache told, read together with the calls that it made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import ClassVar, NamedTuple

from capturegate import notes
from capturegate.trace import (
    ADD_CHILD_API,
    END_API,
    ENGINE,
    INSTANTIATE_API,
    LAUNCH_API,
    UPDATE_API,
    WORK_APIS,
    Event,
    Trace,
)

DESTROY = "cudaGraphExecDestroy"
_CALLS = WORK_APIS - {LAUNCH_API}
_COPY = "cudaMemcpyAsync"
_BATCH = "cudaMemcpyBatchAsync"
_LIVES = (INSTANTIATE_API, DESTROY, notes.HOLDS, notes.RELEASED)
NESTED_MAX = 8
"""Observations around another that are followed; those that are never answered would pile up."""

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

    It lasts until its thread tells of the next one. One that was not answered by then, by a launch
    or by a direct run, goes on around the next one in the same step: they are nested. A thread
    that tells of none works for the observation that was told last.

    Attributes:
        what: what the cache said it is.
        known: whether the same had run directly before, and an executable for it was kept.
        told: its note.
        launches: launches of the cache's executables that hold it.
        direct: work that ran in it, that of observations nested in it included.
        before: its own thread's own part of that, up to its first launch.
        claimed: whether the cache said that it ran directly.
        others: numbers of the calls that ran for an observation nested in it, by its own claim.
        made_of: what its launched executable was made of, as far as the trace knows.
        proof: the earlier direct run that had all of that.
    """

    what: What
    known: bool
    told: Event
    launches: list[Event] = field(default_factory=list)
    direct: list[Event] = field(default_factory=list)
    before: list[Event] = field(default_factory=list)
    claimed: bool = False
    others: set[int] = field(default_factory=set)
    made_of: Counter[Work] = field(default_factory=Counter)
    proof: Sequence[Event] = ()

    @property
    def answered(self) -> bool:
        """Whether something came of it already."""
        return self.claimed or bool(self.launches)

    @property
    def ran_again(self) -> bool:
        """Whether it was also submitted call by call, in its step.

        Where the cache does not say so itself, all calls of the executable between the note and
        the launch are a direct run, wherever they write. After the launch the last call of the
        earlier run has to write the same bytes again: other work of an engine may well launch the
        same kernels.
        """
        if self.claimed:
            return True
        if not self.made_of or not self.proof:
            return False
        if contains(self.before, self.made_of):
            return True
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
        mismatched: launches of what no observation in progress was of, with what was held and the
            observation that was in progress.
        launches: how many launches of the cache's executables there were.
        holdings: every executable with what it was said to hold last.
    """

    observations: list[Observation] = field(default_factory=list)
    unproven: list[tuple[Event, What | None]] = field(default_factory=list)
    mismatched: list[tuple[Event, What, Observation]] = field(default_factory=list)
    launches: int = 0
    holdings: dict[int, What | None] = field(default_factory=dict)


def history(trace: Trace) -> CacheHistory:
    """Read a trace from its beginning."""
    reader = _Reader()
    for event in trace.of(reader.reads):
        if event.actor == ENGINE and not event.refused:
            reader.read(event)
    return reader.found


class _Reader:
    """Follows what executables hold and what ran, event by event of the apis that it `reads`."""

    def __init__(self) -> None:
        self.found = CacheHistory()
        self._made = _MadeOf()
        self._runs: dict[What | None, list[tuple[Observation, list[Event]]]] = {}
        self._kept: set[int] = set()
        self._open: dict[int, list[Observation]] = {}
        self._on: dict[str, Callable[[Event], None]] = {
            notes.OBSERVED: self._observed,
            notes.RAN_DIRECTLY: self._ran_directly,
            notes.HOLDS: self._holds,
            notes.DROPPED: lambda event: self._kept.discard(_executable(event)),
            DESTROY: lambda event: self._kept.discard(int(event.handle)),
            UPDATE_API: self._updated,
            LAUNCH_API: self._launched,
        }
        self.reads = {*_CALLS, *self._on, *_MadeOf.READS}

    def read(self, event: Event) -> None:
        self._made.read(event)
        if event.api in _CALLS:
            if not event.capture:
                self._worked(event)
        elif act := self._on.get(event.api):
            act(event)

    def _in_progress(self, event: Event) -> list[Observation]:
        """The observations that an event's thread works for, the innermost last."""
        return self._open.get(event.thread) or self.found.observations[-1:]

    def _worked(self, event: Event) -> None:
        observations = self._in_progress(event)
        for observation in observations:
            observation.direct.append(event)
        for own in observations[-1:]:
            if not own.launches and own.told.thread == event.thread:
                own.before.append(event)

    def _observed(self, event: Event) -> None:
        what, holdings = what_of(event), self.found.holdings
        held = [executable for executable in self._kept if holdings.get(executable) == what]
        known = any(self._proof(executable, what, None) for executable in held)
        observation = Observation(what=what, known=known, told=event)
        around = [
            outer
            for outer in self._open.get(event.thread, ())
            if not outer.answered and outer.told.phase == event.phase
        ]
        self._open[event.thread] = [*around[-NESTED_MAX:], observation]
        self.found.observations.append(observation)

    def _ran_directly(self, event: Event) -> None:
        what, nested = what_of(event), self._in_progress(event)
        observation = next((o for o in _answerable(nested) if o.what == what), None)
        if observation is None:
            return
        observation.claimed = True
        # One that submitted nothing itself did not run, whatever ran within it.
        own = [call for call in observation.direct if call.seq not in observation.others]
        run = observation.direct.copy() if own else []
        self._runs.setdefault(what, []).append((observation, run))
        for outer in takewhile(lambda other: other is not observation, nested):
            outer.others.update(call.seq for call in observation.direct)

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
        held, current = self.found.holdings[executable], self._in_progress(event)[-1:]
        meant = self._meant(event, held)
        proof = self._proof(executable, held, meant or (current[0] if current else None))
        if not proof:
            self.found.unproven.append((event, held))
        if meant is not None:
            meant.launches.append(event)
            meant.made_of = self._made.executables.get(executable, Counter())
            meant.proof = proof
        elif held is not None and current:
            self.found.mismatched.append((event, held, current[0]))

    def _meant(self, event: Event, held: What | None) -> Observation | None:
        """The observation in progress that a launch is for: the one that its executable holds.

        A thread that tells of none may help any other.
        """
        own = self._open.get(event.thread)
        stacks = [own] if own else list(self._open.values())
        fitting = [o for stack in stacks for o in _answerable(stack) if o.what == held]
        return max(fitting, key=lambda observation: observation.told.seq, default=None)


def _answerable(observations: Sequence[Observation]) -> Iterator[Observation]:
    """Of nested observations the innermost, then those around it as far as it was answered."""
    for observation in reversed(observations):
        yield observation
        if not observation.answered:
            return


class _MadeOf:
    """What executables are made of, as far as the trace knows: calls that were captured.

    Of a node that a graph got by other means than a capture or a child graph nothing is known, and
    one that was patched in an executable still counts as what was captured.
    """

    READS: ClassVar[frozenset[str]] = _CALLS | {END_API, ADD_CHILD_API, INSTANTIATE_API, UPDATE_API}

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
        elif event.api in (INSTANTIATE_API, UPDATE_API):
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
    for event in trace.of(_LIVES):
        if event.refused:
            continue
        if event.api == INSTANTIATE_API:
            live[int(event.handle)] = event
        elif event.api == DESTROY:
            live.pop(int(event.handle), None)
        yield event, live


def what_of(event: Event) -> What:
    """What a note is about."""
    detail = event.detail or {}
    return What(detail["namespace"], detail["identity"], detail["properties"])


def _executable(event: Event) -> int:
    return int((event.detail or {})["executable"])
