"""CG006: a replay touches only memory that nobody else was given since its capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from capturegate import notes
from capturegate.gates.base import Evidence, Judgement
from capturegate.gates.capture_completes import CaptureCompletes, fault_of
from capturegate.run.result import Verdict
from capturegate.trace import (
    ALLOCATING_APIS,
    END_API,
    ENGINE,
    FREEING_APIS,
    INSTANTIATE_API,
    LAUNCH_API,
    UPDATE_API,
    Event,
)

SET_PARAMS_API = "cudaGraphExecKernelNodeSetParams"
_MAKING = frozenset({END_API, SET_PARAMS_API, INSTANTIATE_API, UPDATE_API})
_LOOKED_AT = _MAKING | ALLOCATING_APIS | FREEING_APIS | {notes.GOT, LAUNCH_API}


class ReplayTouchesOnlyItsOwn:
    """What a graph bakes stays the graph's own for as long as the graph is launched.

    What it checks:
        Every launch's reads and writes, allocation by allocation, against everything that was
        handed out after the graph was captured: blocks of a pool, and memory from the driver.
        Allocations are told by their generation, so an address that was freed and came back
        counts as another one.

    Why it is unsafe:
        When the captured pass returns, its scratch goes back to the pool while the graph keeps
        writing there. The next tenant of that block is overwritten by the next replay, without an
        error, and both outputs can still look right for a while.

    Goes red when:
        A launch touches an allocation that somebody was given since the capture, or one that was
        freed since its last launch. Vacuous when nobody was given anything between a capture and
        a later launch of its graph.

    How to fix it:
        Hold the blocks that a capture took, by identity, from the capture's end until the graph
        is dropped. Keep what a graph reads in memory that lives as long as the graph.

    When it is vacuous:
        Let somebody else be given memory, of the pool or of the driver, between a capture and a
        later launch of its graph.

    Proven by:
        chunk-scratch-of-the-pool, chunk-scratch-released, container-keeps-segments,
        decode-taken-not-recorded, draft-scratch-of-the-pool, draft-scratch-released,
        outgrown-scratch-freed, pin-removed, pins-of-others-lifted,
        prompt-held-not-compared, prompt-pin-removed, prompt-refused-update-ignored,
        prompt-repin-removed, prompt-scratch-of-the-main-pool, prompt-taken-not-recorded.
    """

    code: ClassVar[str] = "CG006"
    name: ClassVar[str] = "replay-touches-only-its-own"
    needs: ClassVar[frozenset[str]] = frozenset({"accesses", "pool"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = True

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by the first launch that touches what belongs to somebody else."""
        hands = _Hands()
        launches = tenants = 0
        for event in evidence.trace.of(_LOOKED_AT):
            if event.actor != ENGINE or event.refused:
                continue
            if event.api != LAUNCH_API:
                hands.see(event)
                continue
            launches += 1
            tenants = max(tenants, hands.given_since(event.handle))
            if fault := hands.fault_of(event):
                reason, cause = fault
                return Judgement(
                    verdict=Verdict.BROKEN,
                    reason=reason,
                    figures={"launches": launches, "tenants": tenants},
                    witness=(event, cause),
                )
        figures = {"launches": launches, "tenants": tenants}
        if not tenants and any(fault_of(window) for window in evidence.trace.windows):
            return Judgement(
                verdict=Verdict.UNKNOWN,
                reason="a capture was lost before anybody could be in its way",
                figures=figures,
                blocked_by=CaptureCompletes.name,
            )
        if not tenants:
            return Judgement(
                verdict=Verdict.VACUOUS,
                reason="nobody was given memory between a capture and a replay of it",
                figures=figures,
            )
        return Judgement(verdict=Verdict.HELD, figures=figures)


@dataclass(slots=True)
class _Hands:
    """Through whose hands memory went so far: the last event of each kind, by allocation.

    `ends` has the end of each graph's capture, `born` that of what each executable bakes, and
    `born_before` that of what it baked before a node of it was given other arguments.
    """

    given: dict[int, Event] = field(default_factory=dict)
    freed: dict[int, Event] = field(default_factory=dict)
    given_count: int = 0
    ends: dict[int | str, tuple[int, int]] = field(default_factory=dict)
    born: dict[int | str, tuple[int, int]] = field(default_factory=dict)
    born_before: dict[int | str, dict[int, int]] = field(default_factory=dict)
    touched: dict[int | str, set[int]] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        """Take an event other than a launch into account."""
        now = (event.seq, self.given_count)
        if event.api == END_API:
            # Of several captures into one graph the first says since when its memory is baked.
            self.ends.setdefault(event.handle, now)
        elif event.api == SET_PARAMS_API:
            # One node may name other memory now; what was touched before stays as old as it is.
            born = self.born.get(event.handle, now)
            old = self.born_before.setdefault(event.handle, {})
            for allocation in self.touched.get(event.handle, ()):
                old.setdefault(allocation, born[0])
            self.born[event.handle] = (event.seq, born[1])
        elif event.api in (INSTANTIATE_API, UPDATE_API):
            graph = (event.detail or {}).get("graph")
            self.born[event.handle] = self.ends.get(graph, now) if graph is not None else now
            self.touched[event.handle] = set()
            self.born_before.pop(event.handle, None)
        elif event.api == notes.GOT or event.allocates:
            self.given[event.allocation] = event
            self.given_count += 1
        elif event.api in FREEING_APIS:
            self.freed[event.allocation] = event

    def given_since(self, executable: int | str) -> int:
        """How often somebody was given memory since what an executable bakes was captured."""
        _, count = self.born.get(executable, (0, self.given_count))
        return self.given_count - count

    def fault_of(self, launch: Event) -> tuple[str, Event] | None:
        """What a launch touches that is not its own, and the event that took it away."""
        born, _ = self.born.get(launch.handle, (launch.seq, 0))
        old = self.born_before.get(launch.handle, {})
        spans = {allocation for allocation, _, _ in (*launch.reads, *launch.writes)}
        touched = self.touched.setdefault(launch.handle, set())
        for allocation in sorted(spans):
            given = self.given.get(allocation)
            if given is not None and given.seq > old.get(allocation, born):
                how = "writes" if any(a == allocation for a, _, _ in launch.writes) else "reads"
                return f"a replay {how} memory that was handed out after its capture", given
        for allocation in sorted(touched - spans):
            if allocation in self.freed:
                reason = "a replay follows the free of memory that its graph uses"
                return reason, self.freed[allocation]
        touched |= spans
        return None
