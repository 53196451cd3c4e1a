"""Finding gates: the shipped ones, and those that other distributions plug in."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from capturegate.errors import InputError
from capturegate.gates.base import Gate
from capturegate.gates.capture_completes import CaptureCompletes
from capturegate.gates.driver_allocation import NoDriverAllocationInWindow
from capturegate.gates.executables_bounded import ExecutablesAreBounded
from capturegate.gates.host_memory import PinnedMemoryOutlivesItsWork
from capturegate.gates.later_replays import LaterObservationsReplay
from capturegate.gates.launched_unproven import NeverLaunchedUnproven
from capturegate.gates.nothing_left import NothingLeftAtTeardown
from capturegate.gates.pregrow_used import PregrowIsUsed
from capturegate.gates.profile_covers import ProfileCoversWindow
from capturegate.gates.refusals_looked_at import RefusalsAreLookedAt
from capturegate.gates.replay_eager import ReplayMatchesEager
from capturegate.gates.replay_own import ReplayTouchesOnlyItsOwn

_SHIPPED: tuple[Gate, ...] = (
    # Judged in this order: a gate may ask for the verdict of an earlier one.
    CaptureCompletes(),
    NoDriverAllocationInWindow(),
    ProfileCoversWindow(),
    PregrowIsUsed(),
    ReplayMatchesEager(),
    ReplayTouchesOnlyItsOwn(),
    LaterObservationsReplay(),
    NeverLaunchedUnproven(),
    ExecutablesAreBounded(),
    PinnedMemoryOutlivesItsWork(),
    NothingLeftAtTeardown(),
    RefusalsAreLookedAt(),
)


@cache
def all_gates() -> dict[str, Gate]:
    """Every gate by name, in the order in which they judge.

    Raises:
        InputError: two gates share a name or a code.
    """
    plugged = [point.load()() for point in entry_points(group="capturegate.gates")]
    gates: dict[str, Gate] = {}
    codes: set[str] = set()
    for gate in (*_SHIPPED, *plugged):
        if gate.name in gates or gate.code in codes:
            raise InputError(
                f"gate {gate.code} {gate.name} is registered twice",
                hint="give the gate that your package adds another name and code",
            )
        gates[gate.name] = gate
        codes.add(gate.code)
    return gates
