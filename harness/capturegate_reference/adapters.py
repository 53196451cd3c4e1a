"""What the engine shows to scenarios. The engine itself is imported when an adapter is built."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer
from capturegate_reference.configuration import choice
from capturegate_reference.instruments import FAULTS, ForkingDevice, refuse, retried
from capturegate_reference.pool_adapter import PoolAdapter, pool_bypassed
from capturegate_reference.tenant import Tenant, VisitedDevice

if TYPE_CHECKING:
    from capturegate_reference.slots import Logits

__all__ = ["DecodeAdapter", "PoolAdapter", "pool_bypassed"]

_UNDER_BYPASS = {"decline": False, "attempt": True}
_TABLES = {"fixed": False, "per_step": True}
_TENANTS = {"stays": "stays", "leaves_in_step": "leaves", "takes_before_window": "takes"}


class DecodeAdapter:
    """The decode engine. Requests live on from step to step, and their tokens feed back.

    `cold_step`, `capture_step` and `replay_step` all run the next step; their names say what a
    scenario means it to be, and the fact `state` what it was.

    A tenant is somebody else who takes blocks of the main pool, fills them and expects to find
    them as they were.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "async_executor": (bool, False),
        "decode_graph": (bool, True),
        "max_num_seqs": (int, 8),
        "padding": (bool, True),
        "capture_mode": (str, "thread_local"),
        "capture_under_bypass": (str, "decline"),
        "tables": (str, "fixed"),
        "retiled": (str, "none"),
        "fault": (str, "none"),
        "tenant": (str, "stays"),
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
        from capturegate_reference.shape_caches import RETILABLE
        from capturegate_reference.sizes import ModelSizes
        from capturegate_reference.switches import switches

        size_names = ModelSizes.__dataclass_fields__.keys() & config.keys()
        sizes = ModelSizes(kind=config["model"], **{name: config[name] for name in size_names})
        self._hidden_bytes = 4 * sizes.hidden
        self._vocab = sizes.vocab
        self._row_bytes = 4 * sizes.vocab
        self._visits = choice("tenant", config, _TENANTS)
        self._visited = VisitedDevice(backend.device)
        if self._visits != "stays":
            backend = Backend(self._visited, backend.recorder)
        fault = choice("fault", config, FAULTS)
        self._faulty = fault(backend.device) if fault is not None else None
        if self._faulty is not None:
            backend = Backend(self._faulty, backend.recorder)
        self._backend = backend
        self._taps: tuple[int, ...] = ()
        self._ran_step = False
        self._environment: dict[str, str | None] = {}
        self._retilable = RETILABLE
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
            tables_follow_requests=choice("tables", config, _TABLES),
            retiled=choice("retiled", config, RETILABLE),
        )
        self._tenant = Tenant(backend, self._engine.pool)

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
    def retried_step(self, requests: int = 1, tokens: int = 1, attempts: int = 2) -> Facts:
        """Run a step, and again for as long as it is refused and attempts are left."""
        return retried(lambda: self._step([tokens] * requests), attempts)

    @verb
    def steps_ahead(self, requests: int = 1, count: int = 4) -> Facts:
        """Submit steps one after another, of tokens that are known, and wait for none."""
        vocab = self._vocab
        for number in range(count):
            self._engine.follow([(11 * number + 5 * line) % vocab for line in range(requests)])
        self._ran_step = True
        return {"submitted": count}

    @verb
    def retile(self, cache: str) -> Facts:
        """Have a cache by shape asked for rounded-up rows in captures; `none` for no cache."""
        self._ran_step = False
        self._engine.model.caches.retiled = choice("cache", {"cache": cache}, self._retilable)
        return {"retiled": cache}

    @verb
    def refuse_next_close(self) -> Facts:
        """Let the end of the next capture be refused; needs `fault: refused_close`."""
        self._ran_step = False
        refuse(self._faulty, 1)
        return {}

    @verb
    def refuse_next_executable(self) -> Facts:
        """Let the next executable be refused; needs `fault: refused_executable`."""
        self._ran_step = False
        refuse(self._faulty, 1)
        return {}

    @verb
    def set_environment(self, name: str, value: str) -> Facts:
        """Change a variable of this process; switches that were read stay as they were."""
        self._ran_step = False
        was = os.environ.get(name)
        self._environment.setdefault(name, was)
        os.environ[name] = value
        return {"changed": was != value}

    @verb
    def tap(self, layer: int) -> Facts:
        """Have a layer's output handed out from the next step on."""
        self._ran_step = False
        self._taps = tuple(sorted({*self._taps, layer}))
        return {"taps": len(self._taps)}

    @verb
    def untap(self) -> Facts:
        """Have no layer's output handed out any more."""
        self._ran_step = False
        self._taps = ()
        return {"taps": 0}

    @verb
    def seat_tenant(self, nbytes: int, blocks: int = 1) -> Facts:
        """Let somebody else take blocks and fill them."""
        self._ran_step = False
        self._tenant.take(nbytes, blocks)
        if self._visits == "leaves":
            self._visited.before_upload = self._tenant.leave
        if self._visits == "takes":
            self._visited.before_window = lambda: self._tenant.take(nbytes, 1)
        return {"blocks": blocks}

    @verb
    def ask_tenant(self) -> Facts:
        """Ask the tenant whether all of it is as it was."""
        self._ran_step = False
        intact, blocks = self._tenant.intact_blocks(), len(self._tenant)
        return {"intact_blocks": intact, "overwritten_blocks": blocks - intact}

    @verb
    def drain(self) -> Facts:
        """Give all free scratch to the driver."""
        self._ran_step = False
        return {"freed_bytes": self._engine.pool.drain()}

    def counters(self) -> Mapping[str, int]:
        """What the engine counts, with every reason to decline at 0 until it happens."""
        zeros = dict.fromkeys(_COUNTERS, 0)
        return zeros | dict(self._engine.figures)

    def outputs(self) -> Sequence[Output]:
        """The logits of a step, and the outputs of tapped layers; nothing after other verbs."""
        last = self._engine.last
        if last is None or not self._ran_step:
            return ()
        taps = last.taps.items()
        return (
            _output("logits", last.logits, self._row_bytes),
            *(_output(f"tap-{layer}", rows, self._hidden_bytes) for layer, rows in taps),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The retained logits of all slots, and their copies of tapped layers."""
        return [
            kept.pointer.at(0, kept.nbytes)
            for slot in self._engine.driver.slots
            for kept in (slot.logits, *slot.taps.values())
        ]

    def close(self) -> None:
        """Close the engine."""
        self._tenant.leave()
        for name, value in self._environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        self._engine.close()
        if isinstance(self._faulty, ForkingDevice):
            self._faulty.dismiss()

    def _step(self, token_counts: list[int]) -> Facts:
        decoded = self._engine.step(token_counts, self._taps)
        self._ran_step = True
        result = decoded.result
        return {
            "columns": decoded.columns,
            "pages": decoded.pages,
            "state": str(result.state),
            "reason": result.reason,
            "rows": result.logits.rows,
            "rows_padded": result.logits.rows_padded,
            "tokens": sum(len(gained) for gained in decoded.tokens),
            "first_token": decoded.tokens[0][0],
            "sampled": " ".join(str(token) for gained in decoded.tokens for token in gained),
        }


def _output(name: str, rows: Logits, row_bytes: int) -> Output:
    return Output(
        name=name,
        pointer=rows.pointer,
        row_bytes=row_bytes,
        rows=rows.rows,
        rows_padded=rows.rows_padded,
    )


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
