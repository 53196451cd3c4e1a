"""What a device pool shows to scenarios. The pool is imported when an adapter is built."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference.configuration import at_least, choice, named

if TYPE_CHECKING:
    from capturegate_reference.pool import Block, DevicePool


def pool_bypassed() -> bool:
    """Whether the pools of this process pass every request on to the driver."""
    from capturegate_reference.pool import pool_bypassed as bypassed

    return bypassed()


NBYTES_MAX = 1 << 30
THREADS_MAX = 64
ROUNDS_MAX = 64
SEED_MAX = 1 << 32
_ABROAD = {"other_backend": True, "same_backend": False}

PREDICATES: Mapping[str, Callable[[], bool]] = {"pool.bypassed": lambda: pool_bypassed()}
"""The skip predicates of every adapter that has pools."""


class PoolAdapter:
    """A device pool by itself. Blocks are told apart by a name that the scenario gives them.

    Beside it are another pool of the same backend, and one `abroad`, which the configuration has
    belong to another backend, which may be another device, or to the same one.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {"abroad": (str, "other_backend")}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    def __init__(
        self,
        backend: Backend,
        config: Mapping[str, Any],
        *,
        oracle: bool,  # noqa: ARG002  # a pool has no outputs to compare
    ) -> None:
        from capturegate_reference.errors import PoolError
        from capturegate_reference.pool import DevicePool

        self._refusal = PoolError
        self._backend = backend
        self._pool = DevicePool(backend, "main")
        self._other = DevicePool(backend, "other")
        apart = choice("abroad", config, _ABROAD)
        self._stranger = Backend(backend.device) if apart else backend
        self._abroad = DevicePool(self._stranger, "abroad")
        self._blocks: dict[str, Block] = {}
        self._holders: defaultdict[str, object] = defaultdict(object)
        self._leased: dict[str, str] = {}
        self._profiles: dict[str, dict[int, int]] = {}
        self._graphs: dict[str, str] = {}

    @verb
    def get(self, nbytes: int, name: str) -> Facts:
        """Take a block and remember it by name."""
        return self._get(self._pool, nbytes, name)

    @verb
    def get_abroad(self, nbytes: int, name: str) -> Facts:
        """Take a block of the pool abroad and remember it by name."""
        return self._get(self._abroad, nbytes, name)

    @verb
    def put(self, name: str, holder: str = "") -> Facts:
        """Put a block back, as a holder when one is named."""
        key = self._holders[holder] if holder else None
        facts = self._told(lambda: self._pool.put(self._block(name), key))
        if not facts["refused"]:
            self._forget(name)
        return facts

    @verb
    def put_home(self, name: str) -> Facts:
        """Put a block into the pool that it comes from, whichever that is."""
        block = self._block(name)
        facts = self._told(lambda: block.owner.put(block))
        if not facts["refused"]:
            self._forget(name)
        return {**facts, "retained_bytes": block.owner.figures.retained_bytes}

    @verb
    def put_abroad(self, name: str) -> Facts:
        """Put a block into the pool abroad."""
        return self._told(lambda: self._abroad.put(self._block(name)))

    @verb
    def put_elsewhere(self, name: str) -> Facts:
        """Put a block into a pool that it does not come from."""
        return self._told(lambda: self._other.put(self._block(name)))

    @verb
    def lease(self, name: str, holder: str) -> Facts:
        """Hand a block to a holder, who alone may put it back."""
        key = self._holders[named("holder", {"holder": holder})]
        facts = self._told(lambda: self._pool.lease(self._block(name), key))
        if not facts["refused"]:
            self._leased[name] = holder
        return facts

    @verb
    def draw_on_other_backend(self) -> Facts:
        """Draw scratch for the backend abroad while this pool is the active one."""
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
        named("shape", {"shape": shape})
        profile = self._profiles[shape] = self._pool.step_demand_profile()
        return {
            "blocks": sum(profile.values()),
            "classes": len(profile),
            **{f"class.{size}": count for size, count in profile.items()},
        }

    @verb
    def pre_grow(self, shape: str = "default") -> Facts:
        """Make the free stacks as deep as a shape's profile."""
        profile = choice("shape", {"shape": shape}, self._profiles)
        return {"created": self._pool.pre_grow_for_capture(profile)}

    @verb
    def drain(self) -> Facts:
        """Give every free block to the driver."""
        return {"freed_bytes": self._pool.drain()}

    @verb
    def pin(self, name: str, graph: str) -> Facts:
        """Pin a block that is out for a graph."""
        self._graphs[named("graph", {"graph": graph})] = graph
        self._pool.pin_for_graph(graph, [self._block(name)])
        return {"pinned_bytes": self._pool.figures.pinned_bytes}

    @verb
    def unpin(self, graph: str) -> Facts:
        """Drop a graph's pins."""
        self._pool.unpin_for_graph(choice("graph", {"graph": graph}, self._graphs))
        del self._graphs[graph]
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

        at_least("threads", {"threads": threads}, 1, THREADS_MAX)
        at_least("rounds", {"rounds": rounds}, 1, ROUNDS_MAX)
        at_least("seed", {"seed": seed}, 0, SEED_MAX)
        first, second = (
            churn(self._backend, threads=threads, rounds=rounds, seed=seed) for _ in range(2)
        )
        return {
            "gets": first.gets,
            "unserved": first.gets - first.served,
            "handed_out_twice": first.handed_out_twice,
            "lost_bytes": first.lost_bytes,
            "failed_threads": first.failures,
            # Each thread is given a turn to begin with; every other one somebody lost.
            "turns_lost": first.switches - threads,
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
        at_least("nbytes", {"nbytes": nbytes}, 0, NBYTES_MAX)
        if named("name", {"name": name}) in self._blocks:
            raise InputError(f"the block {name!r} is out already")
        block = self._blocks[name] = pool.get(nbytes)
        return {
            "source": block.source,
            "class_bytes": block.charged_class,
            "block_bytes": block.size_class,
        }

    def _forget(self, name: str) -> None:
        del self._blocks[name]
        self._leased.pop(name, None)

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
