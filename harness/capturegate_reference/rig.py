"""What scenarios may do to every engine: faults, a tenant, caches that are asked for other shapes.

An adapter has a `Rig` and names the verbs of this module that it wants among its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend
from capturegate_reference.configuration import at_least, choice
from capturegate_reference.instruments import (
    FAULTS,
    RETILABLE,
    ForkingDevice,
    RetiledCaches,
)
from capturegate_reference.instruments import refuse as refuse_call
from capturegate_reference.tenant import BLOCKS_MAX, NBYTES_MAX, Tenant, VisitedDevice

if TYPE_CHECKING:
    from capturegate_reference.model import Model
    from capturegate_reference.pool import DevicePool
    from capturegate_reference.slots import Logits

RIG_KEYS: Mapping[str, tuple[type, Any]] = {
    "capture_mode": (str, "thread_local"),
    "fault": (str, "none"),
    "retiled": (str, "none"),
    "tenant": (str, "stays"),
}
"""The configuration of a rig: adapters have these keys beside their own."""

_TENANTS = {"stays": "stays", "leaves_in_step": "leaves", "takes_before_window": "takes"}


class Rig:
    """The surroundings of one engine.

    Attributes:
        backend: what the engine works on; its device has the fault that is configured.
        shows: whether the last verb was a step, whose outputs are there to be seen.
        pool: whose blocks the tenant takes.
        tenant: somebody else who takes blocks of it, fills them and expects to find them so.
        caches: what the model keeps by shape.
    """

    pool: DevicePool
    tenant: Tenant
    caches: RetiledCaches

    def __init__(self, backend: Backend, config: Mapping[str, Any]) -> None:
        self._retiled = choice("retiled", config, RETILABLE)
        self._visits = choice("tenant", config, _TENANTS)
        self._visited = VisitedDevice(backend.device)
        if self._visits != "stays":
            backend = Backend(self._visited, backend.recorder)
        fault = choice("fault", config, FAULTS)
        self.faulty = fault(backend.device) if fault is not None else None
        if self.faulty is not None:
            backend = Backend(self.faulty, backend.recorder)
        self.backend = backend
        self.shows = False

    def watch(self, pool: DevicePool, model: Model) -> None:
        """Get between an engine and its surroundings."""
        self.pool = pool
        self.tenant = Tenant(self.backend, pool)
        self.caches = RetiledCaches(self.backend, model.caches, self._retiled)
        model.caches = self.caches

    def seat(self, nbytes: int, blocks: int) -> None:
        """Let the tenant take blocks, now or also when the configuration says so."""
        self.tenant.take(nbytes, blocks)
        if self._visits == "leaves":
            self._visited.before_upload = self.tenant.leave
        if self._visits == "takes":
            self._visited.before_window = lambda: self.tenant.take(nbytes, 1)

    def close(self, *engine: Callable[[], None]) -> None:
        """Close an engine's parts, in this order, and take everything else away."""
        self.tenant.leave()
        for close in engine:
            close()
        if isinstance(self.faulty, ForkingDevice):
            self.faulty.dismiss()


class Rigged(Protocol):
    """An adapter with a rig."""

    rig: Rig


def output(name: str, rows: Logits, width: int) -> Output:
    """What a step hands out, `width` numbers a row."""
    return Output(
        name=name,
        pointer=rows.pointer,
        row_bytes=4 * width,
        rows=rows.rows,
        rows_padded=rows.rows_padded,
    )


@verb
def refuse(self: Rigged, number: int = 1) -> Facts:
    """Let one of the coming calls be refused that the configured fault is about."""
    self.rig.shows = False
    refuse_call(self.rig.faulty, number)
    return {}


@verb
def retile(self: Rigged, cache: str) -> Facts:
    """Have a cache by shape asked for rounded-up rows in captures; `none` for no cache."""
    self.rig.shows = False
    self.rig.caches.retiled = choice("cache", {"cache": cache}, RETILABLE)
    return {"retiled": cache}


@verb
def drain(self: Rigged) -> Facts:
    """Give all free scratch to the driver."""
    self.rig.shows = False
    return {"freed_bytes": self.rig.pool.drain()}


@verb
def seat_tenant(self: Rigged, nbytes: int, blocks: int = 1) -> Facts:
    """Let somebody else take blocks and fill them."""
    self.rig.shows = False
    at_least("nbytes", {"nbytes": nbytes}, 1, NBYTES_MAX)
    at_least("blocks", {"blocks": blocks}, 1, BLOCKS_MAX)
    self.rig.seat(nbytes, blocks)
    return {"blocks": blocks}


@verb
def unseat_tenant(self: Rigged) -> Facts:
    """Let the tenant give his blocks back."""
    self.rig.shows = False
    blocks = len(self.rig.tenant)
    self.rig.tenant.leave()
    return {"blocks": blocks}


@verb
def ask_tenant(self: Rigged) -> Facts:
    """Ask the tenant whether all of it is as it was."""
    self.rig.shows = False
    intact, blocks = self.rig.tenant.intact_blocks(), len(self.rig.tenant)
    return {"intact_blocks": intact, "overwritten_blocks": blocks - intact}
