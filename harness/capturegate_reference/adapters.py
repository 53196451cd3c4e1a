"""What the engine shows to scenarios. The engine itself is imported when an adapter is built."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer
from capturegate.errors import InputError
from capturegate_reference.configuration import choice

if TYPE_CHECKING:
    from capturegate_reference.pool import Block

_UNDER_BYPASS = {"decline": False, "attempt": True}


def pool_bypassed() -> bool:
    """Whether the pools of this process pass every request on to the driver."""
    from capturegate_reference.pool import pool_bypassed as bypassed

    return bypassed()


class DecodeAdapter:
    """The decode engine. Requests live on from step to step, and their tokens feed back.

    `cold_step`, `capture_step` and `replay_step` all run the next step; their names say what a
    scenario means it to be, and the fact `state` what it was.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "async_executor": (bool, False),
        "decode_graph": (bool, True),
        "max_num_seqs": (int, 8),
        "padding": (bool, True),
        "capture_mode": (str, "thread_local"),
        "capture_under_bypass": (str, "decline"),
        "requests_max": (int, 10),
        "prompt_tokens": (int, 36),
        "layers": (int, 2),
        "heads": (int, 6),
        "kv_heads": (int, 2),
        "head_dim": (int, 20),
        "mlp_width": (int, 280),
        "vocab": (int, 200),
        "experts": (int, 10),
        "experts_kept": (int, 4),
        "expert_width": (int, 70),
        "page_tokens": (int, 16),
        "columns": (int, 4),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.decode import DecodeConfig
        from capturegate_reference.engine import Engine
        from capturegate_reference.sizes import ModelSizes
        from capturegate_reference.switches import switches

        size_names = ModelSizes.__dataclass_fields__.keys() & config.keys()
        sizes = ModelSizes(kind=config["model"], **{name: config[name] for name in size_names})
        self._row_bytes = 4 * sizes.vocab
        self._engine = Engine(
            backend,
            sizes,
            DecodeConfig(
                max_num_seqs=config["max_num_seqs"],
                graphs=config["decode_graph"] and switches().decode_graph,
                async_executor=config["async_executor"] or switches().async_executor,
                padding=config["padding"],
                capture_mode=choice(
                    "capture_mode", config, {mode.value: mode for mode in CaptureMode}
                ),
                capture_under_bypass=choice("capture_under_bypass", config, _UNDER_BYPASS),
                always_cold=oracle,
            ),
            requests_max=config["requests_max"],
            prompt_tokens=config["prompt_tokens"],
        )

    @verb
    def cold_step(self, requests: int = 1, tokens: int = 1) -> Facts:
        """Run a step that is meant to be its key's first."""
        return self._step([tokens] * requests)

    @verb
    def capture_step(self, requests: int = 1, tokens: int = 1) -> Facts:
        """Run a step that is meant to capture."""
        return self._step([tokens] * requests)

    @verb
    def replay_step(self, requests: int = 1, tokens: int = 1) -> Facts:
        """Run a step that is meant to replay."""
        return self._step([tokens] * requests)

    @verb
    def step(self, requests: int = 1, tokens: int = 1) -> Facts:
        """Run a step, whatever it comes to."""
        return self._step([tokens] * requests)

    @verb
    def ragged_step(self, requests: int = 2) -> Facts:
        """Run a step whose first request has two tokens and the others one."""
        return self._step([2] + [1] * (requests - 1))

    @verb
    def drain(self) -> Facts:
        """Give all free scratch to the driver."""
        return {"freed_bytes": self._engine.pool.drain()}

    def counters(self) -> Mapping[str, int]:
        """What the engine counts, with every reason to decline at 0 until it happens."""
        zeros = dict.fromkeys(_COUNTERS, 0)
        return zeros | dict(self._engine.figures)

    def outputs(self) -> Sequence[Output]:
        """The logits of the last step."""
        logits = self._engine.logits
        if logits is None:
            return ()
        return (
            Output(
                name="logits",
                pointer=logits.pointer,
                row_bytes=self._row_bytes,
                rows=logits.rows,
                rows_padded=logits.rows_padded,
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The retained logits of all slots."""
        return [slot.logits.pointer.at(0, slot.logits.nbytes) for slot in self._engine.driver.slots]

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def _step(self, token_counts: list[int]) -> Facts:
        decoded = self._engine.step(token_counts)
        result = decoded.result
        return {
            "state": str(result.state),
            "reason": result.reason,
            "rows": result.logits.rows,
            "rows_padded": result.logits.rows_padded,
            "tokens": sum(len(gained) for gained in decoded.tokens),
            "first_token": decoded.tokens[0][0],
            "sampled": " ".join(str(token) for gained in decoded.tokens for token in gained),
        }


_COUNTERS = (
    "captures",
    "replays",
    "begins",
    "ends",
    "failed",
    "inert",
    "cold_steps",
    "eager_steps",
    "declined",
    "declined.switch_off",
    "declined.bypass",
    "declined.too_large",
    "declined.ragged",
    "declined.too_many_lengths",
    "declined.padding",
)


class PoolAdapter:
    """A device pool by itself. Blocks are told apart by a name that the scenario gives them."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {}
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
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
        self._blocks: dict[str, Block] = {}
        self._holders: defaultdict[str, object] = defaultdict(object)
        self._leased: dict[str, str] = {}
        self._profile: dict[int, int] = {}

    @verb
    def get(self, nbytes: int, name: str) -> Facts:
        """Take a block and remember it by name."""
        if name in self._blocks:
            raise InputError(f"the block {name!r} is out already")
        block = self._blocks[name] = self._pool.get(nbytes)
        return {
            "source": block.source,
            "class_bytes": block.charged_class,
            "block_bytes": block.size_class,
        }

    @verb
    def put(self, name: str, holder: str = "") -> Facts:
        """Put a block back, as a holder when one is named."""
        key = self._holders[holder] if holder else None
        facts = self._told(lambda: self._pool.put(self._block(name), key))
        if not facts["refused"]:
            del self._blocks[name]
        return facts

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

        stranger = Backend(self._backend.device)
        with scope(self._pool):
            return self._told(lambda: active_pool(stranger, self._other))

    @verb
    def boundary(self) -> Facts:
        """Mark a step boundary."""
        self._pool.mark_step_boundary()
        return {}

    @verb
    def profile(self) -> Facts:
        """Take the demand since the last boundary, for the next pre-grow."""
        self._profile = self._pool.step_demand_profile()
        return {
            "blocks": sum(self._profile.values()),
            "classes": len(self._profile),
            "profile": " ".join(f"{size}:{count}" for size, count in self._profile.items()),
        }

    @verb
    def pre_grow(self) -> Facts:
        """Make the free stacks as deep as the last profile."""
        return {"created": self._pool.pre_grow_for_capture(self._profile)}

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
            self._pool.put(block, self._holders[holder] if holder else None)
        self._blocks.clear()
        self._pool.drain()

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
