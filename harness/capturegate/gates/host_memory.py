"""CG010: pinned memory is freed once all work on it is awaited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.gates.replay_own import SET_PARAMS_API
from capturegate.run.in_flight import CREATE_API, FOLLOWED, Flight, blocking_streams
from capturegate.run.result import Verdict
from capturegate.trace import ENGINE, LAUNCH_API, UPDATE_API, WORK_APIS, Event

_PINS = frozenset({"cudaMallocHost", "cudaHostRegister"})
_UNPINS = frozenset({"cudaFreeHost", "cudaHostUnregister"})
_REBAKES = frozenset({UPDATE_API, SET_PARAMS_API})
_LOOKED_AT = FOLLOWED | _PINS | _UNPINS | _REBAKES | {CREATE_API}


class PinnedMemoryOutlivesItsWork:
    """Pinned memory is freed once everything that reads or writes it is awaited.

    What it checks:
        Every free of pinned host memory, and every unregistration, against the copies, kernels
        and graph launches before it that touch the memory: the host has to have awaited each of
        them, by synchronizing with, or finding ready, a stream or an event that is behind it, or
        by cudaDeviceSynchronize. A cudaFree awaits nothing. And no executable is launched again
        whose launch before touched what was freed since. What an executable touches is known
        from its last launch: not before the first one, nor after an update or other arguments.

    Why it is unsafe:
        A captured upload bakes the host's address, and a launch of its graph returns long before
        the copy reads. No manual promises that freeing pinned memory waits for the device. Where
        it does not, the copy reads what the next owner of these pages wrote, and where an
        allocator of the host's stands between, that is an ordinary reuse.

    Goes red when:
        Pinned memory is freed while work that touches it is still in flight as far as the host
        can know, or a graph that touches it is launched after that. Vacuous when no pinned memory
        that work had touched was freed.

    How to fix it:
        Record an event behind the last work that touches the memory, and wait for it before the
        memory is freed or handed on. Drop a graph before what it bakes.

    When it is vacuous:
        Let the engine upload from pinned memory and give it back, at its close at the latest.

    Proven by:
        cell-freed-in-flight, cell-not-marked, columns-not-compared,
        draft-collected-unwaited, eager-inputs-not-refreshed, eager-upload-not-marked,
        failed-upload-not-marked, prompt-held-not-compared, prompt-inputs-not-refreshed,
        prompt-upload-not-marked, replay-not-marked, staging-not-marked,
        tokens-read-unwaited, uploads-not-marked, vectors-freed-in-flight.
    """

    code: ClassVar[str] = "CG010"
    name: ClassVar[str] = "pinned-memory-outlives-its-work"
    needs: ClassVar[frozenset[str]] = frozenset({"accesses", "allocations"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first free of what is in use, or the first use of what was freed."""
        seen = evidence.trace.of(_LOOKED_AT)
        events = [event for event in seen if event.actor == ENGINE and not event.refused]
        flight, pinned = Flight(blocking_streams(events)), _Pinned()
        for event in events:
            if event.api in _UNPINS:
                touched = pinned.free(event)
                if unawaited := flight.still(touched):
                    work = touched[max(unawaited)]
                    reason = f"{event.api} while a {work.api} on it is in flight"
                    return pinned.broken(reason, event, work, in_flight=len(unawaited))
            elif event.api in WORK_APIS and not event.capture:
                if freed := pinned.touch(event):
                    reason = (
                        "a graph is launched whose pinned memory was freed since its last launch"
                    )
                    return pinned.broken(reason, event, freed, in_flight=0)
            else:
                pinned.see(event)
            flight.see(event)
        figures = {"freed": pinned.freed, "in_flight": 0}
        if not pinned.freed:
            return Judgement(
                verdict=Verdict.VACUOUS,
                reason="no pinned memory that work had touched was freed",
                figures=figures,
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)


class _Pinned:
    """Pinned memory that is there, and the work on it; memory that went, and who baked it.

    Attributes:
        freed: how much memory that work had touched went so far.
    """

    def __init__(self) -> None:
        self.freed = 0
        self._uses: dict[int, dict[int, Event]] = {}
        self._gone: dict[int, Event] = {}
        self._baked: dict[int | str, set[int]] = {}

    def see(self, event: Event) -> None:
        """Take into account what is pinned, and executables that bake something else now."""
        if event.api in _PINS:
            self._uses[event.allocation] = {}
            self._gone.pop(event.allocation, None)
        elif event.api in _REBAKES:
            self._baked.pop(event.handle, None)

    def touch(self, event: Event) -> Event | None:
        """Take work into account; the free of what it touches, where there was one."""
        is_launch = event.api == LAUNCH_API
        if is_launch and (gone := self._gone.keys() & self._baked.get(event.handle, set())):
            return self._gone[min(gone)]
        touched = {span[0] for span in (*event.reads, *event.writes)} & self._uses.keys()
        for allocation in touched:
            self._uses[allocation][event.seq] = event
        if is_launch:
            self._baked[event.handle] = touched
        return None

    def free(self, event: Event) -> dict[int, Event]:
        """Take a free into account; the work that had touched the memory, by sequence number."""
        touched = self._uses.pop(event.allocation, {})
        self.freed += bool(touched)
        self._gone[event.allocation] = event
        return touched

    def broken(self, reason: str, event: Event, other: Event, *, in_flight: int) -> Judgement:
        """The verdict, with both calls as its witness."""
        return Judgement(
            verdict=Verdict.BROKEN,
            reason=reason,
            figures={"freed": self.freed, "in_flight": in_flight},
            witness=(event, other),
        )
