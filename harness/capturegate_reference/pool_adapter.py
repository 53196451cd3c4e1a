"""What a device pool shows to scenarios. The pool is imported when an adapter is built."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError

if TYPE_CHECKING:
    from capturegate_reference.pool import Block, DevicePool


def pool_bypassed() -> bool:
    """Whether the pools of this process pass every request on to the driver."""
    from capturegate_reference.pool import pool_bypassed as bypassed

    return bypassed()


PREDICATES: Mapping[str, Callable[[], bool]] = {"pool.bypassed": lambda: pool_bypassed()}
"""The skip predicates of every adapter that has pools."""


class PoolAdapter:
    """A device pool by itself. Blocks are told apart by a name that the scenario gives them.

    Beside it are another pool of the same backend, and a pool of another backend, which may be
    another device.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    def __init__(
        self,
        backend: Backend,
        config: Mapping[str, Any],  # noqa: ARG002  # there is nothing to configure
        *,
        oracle: bool,  # noqa: ARG002  # a pool has no outputs to compare
    ) -> None:
        from capturegate_reference.errors import PoolError
        from capturegate_reference.pool import DevicePool

        self._refusal = PoolError
        self._backend = backend
        self._pool = DevicePool(backend, "main")
        self._other = DevicePool(backend, "other")
        self._stranger = Backend(backend.device)
        self._abroad = DevicePool(self._stranger, "abroad")
        self._blocks: dict[str, Block] = {}
        self._holders: defaultdict[str, object] = defaultdict(object)
        self._leased: dict[str, str] = {}
        self._profiles: dict[str, dict[int, int]] = {}

    @verb
    def get(self, nbytes: int, name: str) -> Facts:
        """Take a block and remember it by name."""
        return self._get(self._pool, nbytes, name)

    @verb
    def get_abroad(self, nbytes: int, name: str) -> Facts:
        """Take a block of the other backend's pool and remember it by name."""
        return self._get(self._abroad, nbytes, name)

    @verb
    def put(self, name: str, holder: str = "") -> Facts:
        """Put a block back, as a holder when one is named."""
        key = self._holders[holder] if holder else None
        facts = self._told(lambda: self._pool.put(self._block(name), key))
        if not facts["refused"]:
            del self._blocks[name]
        return facts

    @verb
    def put_home(self, name: str) -> Facts:
        """Put a block into the pool that it comes from, whichever that is."""
        block = self._blocks.pop(name)
        block.owner.put(block)
        return {"retained_bytes": block.owner.figures.retained_bytes}

    @verb
    def put_abroad(self, name: str) -> Facts:
        """Put a block into the other backend's pool."""
        return self._told(lambda: self._abroad.put(self._block(name)))

    @verb
    def put_elsewhere(self, name: str) -> Facts:
        """Put a block into a pool that it does not come from."""
        return self._told(lambda: self._other.put(self._block(name)))

    @verb
    def lease(self, name: str, holder: str) -> Facts:
        """Hand a block to a holder, who alone may put it back."""
        key = self._holders[holder]
        facts = self._told(lambda: self._pool.lease(self._block(name), key))
        if not facts["refused"]:
            self._leased[name] = holder
        return facts

    @verb
    def draw_on_other_backend(self) -> Facts:
        """Draw scratch for another backend while this pool is the active one."""
        from capturegate_reference.scratch import active_pool, scope

        with scope(self._pool):
            return self._told(lambda: active_pool(self._stranger, self._other))

    @verb
    def boundary(self) -> Facts:
        """Mark a step boundary."""
        self._pool.mark_step_boundary()
        return {}

    @verb
    def profile(self, shape: str = "default") -> Facts:
        """Take the demand since the last boundary, as that of a shape."""
        profile = self._profiles[shape] = self._pool.step_demand_profile()
        return {
            "blocks": sum(profile.values()),
            "classes": len(profile),
            **{f"class.{size}": count for size, count in profile.items()},
        }

    @verb
    def pre_grow(self, shape: str = "default") -> Facts:
        """Make the free stacks as deep as a shape's profile."""
        return {"created": self._pool.pre_grow_for_capture(self._profiles.get(shape, {}))}

    @verb
    def drain(self) -> Facts:
        """Give every free block to the driver."""
        return {"freed_bytes": self._pool.drain()}

    @verb
    def pin(self, name: str, graph: str) -> Facts:
        """Pin a block that is out for a graph."""
        self._pool.pin_for_graph(graph, [self._block(name)])
        return {"pinned_bytes": self._pool.figures.pinned_bytes}

    @verb
    def unpin(self, graph: str) -> Facts:
        """Drop a graph's pins."""
        self._pool.unpin_for_graph(graph)
        return {"pinned_bytes": self._pool.figures.pinned_bytes}

    @verb
    def size_class(self, nbytes: int) -> Facts:
        """Look up the class of a size; 0 where there is none."""
        found = [0]
        facts = self._told(lambda: found.append(self._pool.class_of(nbytes)))
        return {"class_bytes": found[-1], **facts}

    @verb
    def churn(self, threads: int = 8, rounds: int = 10, seed: int = 0) -> Facts:
        """Let threads take and return blocks of a pool of their own, in a seed's order, twice."""
        from capturegate_reference.churn import churn

        first, second = (
            churn(self._backend, threads=threads, rounds=rounds, seed=seed) for _ in range(2)
        )
        return {
            "gets": first.gets,
            "unserved": first.gets - first.served,
            "handed_out_twice": first.handed_out_twice,
            "lost_bytes": first.lost_bytes,
            "failed_threads": first.failures,
            "repeatable": (first.order, first.switches) == (second.order, second.switches),
        }

    @verb
    def state(self) -> Facts:
        """Read what the pool keeps and lends."""
        figures = self._pool.figures
        return {
            "retained_bytes": figures.retained_bytes,
            "pinned_bytes": figures.pinned_bytes,
            "live": figures.live,
        }

    def counters(self) -> Mapping[str, int]:
        """Requests by how they were served."""
        figures = self._pool.figures
        return {"hits": figures.hits, "misses": figures.misses, "borrows": figures.borrows}

    def outputs(self) -> Sequence[Output]:
        """A pool has none."""
        return ()

    def buffers(self) -> Sequence[Pointer]:
        """A pool has none."""
        return ()

    def close(self) -> None:
        """Put everything back and drain."""
        for name, block in self._blocks.items():
            holder = self._leased.get(name)
            block.owner.put(block, self._holders[holder] if holder else None)
        self._blocks.clear()
        for pool in (self._pool, self._abroad):
            pool.drain()

    def _get(self, pool: DevicePool, nbytes: int, name: str) -> Facts:
        if name in self._blocks:
            raise InputError(f"the block {name!r} is out already")
        block = self._blocks[name] = pool.get(nbytes)
        return {
            "source": block.source,
            "class_bytes": block.charged_class,
            "block_bytes": block.size_class,
        }

    def _block(self, name: str) -> Block:
        if name not in self._blocks:
            raise InputError(
                f"no block {name!r} is out",
                expected=f"one of {', '.join(self._blocks) or 'none'}",
            )
        return self._blocks[name]

    def _told(self, act: Callable[[], object]) -> dict[str, bool]:
        """Do something that the pool may refuse; whether it did."""
        try:
            act()
        except self._refusal:
            return {"refused": True}
        return {"refused": False}
