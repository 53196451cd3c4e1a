"""What the engine shows to scenarios. The engine itself is imported when an adapter is built."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference import rig
from capturegate_reference.configuration import at_least, capture_mode, choice
from capturegate_reference.instruments import RETILED_ROWS, refused, retried
from capturegate_reference.pool_adapter import PREDICATES, PoolAdapter, pool_bypassed

__all__ = ["DecodeAdapter", "PoolAdapter", "pool_bypassed"]

_REQUESTS_MAX = 1 << 10
_UNDER_BYPASS = {"decline": False, "attempt": True}
_TABLES = {"fixed": False, "per_step": True}


class DecodeAdapter:
    """The decode engine. Requests live on from step to step, and their tokens feed back.

    `cold_step`, `capture_step` and `replay_step` all run the next step; their names say what a
    scenario means it to be, and the fact `state` what it was.

    A tenant is somebody else who takes blocks of the main pool, fills them and expects to find
    them as they were.

    Without `speculation` a step that has no guesses is a plain one, whoever asks for it. Caches
    that are retiled are asked for rows rounded up to a multiple of `retiled_rows`; with 1 that is
    what they are asked for anyhow.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        **rig.RIG_KEYS,
        "model": (str, "dense"),
        "async_executor": (bool, False),
        "decode_graph": (bool, True),
        "max_num_seqs": (int, 8),
        "padding": (bool, True),
        "speculation": (bool, True),
        "retiled_rows": (int, RETILED_ROWS),
        "capture_under_bypass": (str, "decline"),
        "tables": (str, "fixed"),
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
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    ask_tenant = rig.ask_tenant
    drain = rig.drain
    refuse = rig.refuse
    retile = rig.retile
    seat_tenant = rig.seat_tenant

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.decode import DecodeConfig
        from capturegate_reference.engine import Engine
        from capturegate_reference.sizes import ModelSizes
        from capturegate_reference.switches import switches

        size_names = ModelSizes.__dataclass_fields__.keys() & config.keys()
        sizes = ModelSizes(kind=config["model"], **{name: config[name] for name in size_names})
        at_least("max_num_seqs", config, 1, _REQUESTS_MAX)
        self._requests_max = at_least("requests_max", config, 1, _REQUESTS_MAX)
        # The last token of a prompt is what the first step decodes.
        at_least("prompt_tokens", config, 2, sizes.context_tokens - 1)
        retiled_rows = at_least("retiled_rows", config, 1, _REQUESTS_MAX)
        self._sizes = sizes
        self._tables_follow_requests = choice("tables", config, _TABLES)
        self._speculation = config["speculation"]
        self._taps: tuple[int, ...] = ()
        self._environment: dict[str, str | None] = {}
        self.rig = rig.Rig(backend, config)
        self._engine = Engine(
            self.rig.backend,
            sizes,
            DecodeConfig(
                max_num_seqs=config["max_num_seqs"],
                graphs=config["decode_graph"] and switches().decode_graph,
                async_executor=config["async_executor"] or switches().async_executor,
                padding=config["padding"],
                capture_mode=capture_mode(config),
                capture_under_bypass=choice("capture_under_bypass", config, _UNDER_BYPASS),
                always_cold=oracle,
            ),
            requests_max=config["requests_max"],
            prompt_tokens=config["prompt_tokens"],
        )
        self.rig.watch(self._engine.pool, self._engine.model)
        self.rig.caches.rows = retiled_rows

    @verb
    def step(self, requests: int = 1, tokens: int = 1, speculative: bool = False) -> Facts:
        """Run the next step of the first requests; a speculative one may have no guesses."""
        self._require_requests(requests)
        return self._step([tokens] * requests, speculative and self._speculation)

    cold_step = capture_step = replay_step = step

    @verb
    def ragged_step(self, requests: int = 2) -> Facts:
        """Run a step whose first request has two tokens and the others one."""
        self._require_requests(requests, least=2)
        return self._step([2] + [1] * (requests - 1))

    @verb
    def retried_step(self, requests: int = 1, tokens: int = 1, attempts: int = 2) -> Facts:
        """Run a step, and again for as long as it is refused and attempts are left."""
        self._require_requests(requests)
        return retried(lambda: self._step([tokens] * requests), attempts)

    @verb
    def refused_step(self, requests: int = 1) -> Facts:
        """Run a step that may be refused, and leave it at that."""
        self._require_requests(requests)
        return refused(lambda: self._step([1] * requests))

    @verb
    def steps_ahead(self, requests: int = 1, count: int = 4) -> Facts:
        """Submit steps one after another, of tokens that are known, and wait for none."""
        self._require_requests(requests)
        at_least("count", {"count": count}, 1)
        self._require_room([count] * requests)
        vocab = self._sizes.vocab
        for number in range(count):
            self._engine.follow([(11 * number + 5 * line) % vocab for line in range(requests)])
        self.rig.shows = True
        return {"submitted": count}

    @verb
    def set_environment(self, name: str, value: str) -> Facts:
        """Change a variable of this process; switches that were read stay as they were."""
        from capturegate_reference.switches import VARIABLES

        self.rig.shows = False
        choice("name", {"name": name}, dict.fromkeys(VARIABLES))
        choice("value", {"value": value}, {"0": False, "1": True})
        was = os.environ.get(name)
        self._environment.setdefault(name, was)
        os.environ[name] = value
        return {"changed": was != value}

    @verb
    def tap(self, layer: int) -> Facts:
        """Have a layer's output handed out from the next step on."""
        self.rig.shows = False
        at_least("layer", {"layer": layer}, 0, self._sizes.layers - 1)
        self._taps = tuple(sorted({*self._taps, layer}))
        return {"taps": len(self._taps)}

    @verb
    def untap(self) -> Facts:
        """Have no layer's output handed out any more."""
        self.rig.shows = False
        self._taps = ()
        return {"taps": 0}

    def counters(self) -> Mapping[str, int]:
        """What the engine counts, with every reason to decline at 0 until it happens."""
        zeros = dict.fromkeys(_COUNTERS, 0)
        return zeros | dict(self._engine.figures)

    def outputs(self) -> Sequence[Output]:
        """The logits of a step, and the outputs of tapped layers; nothing after other verbs."""
        last = self._engine.last
        if last is None or not self.rig.shows:
            return ()
        taps = last.taps.items()
        return (
            rig.output("logits", last.logits, self._sizes.vocab),
            *(rig.output(f"tap-{layer}", rows, self._sizes.hidden) for layer, rows in taps),
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
        for name, value in self._environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        self.rig.close(self._engine.close)

    def _require_requests(self, requests: int, least: int = 1) -> None:
        at_least("requests", {"requests": requests}, least, self._requests_max)

    def _require_room(self, token_counts: list[int]) -> int:
        """How many tokens the longest request has after so many more, which have to fit."""
        longest, context = self._engine.longest(token_counts), self._sizes.context_tokens
        if longest > context:
            raise InputError(f"a step to position {longest} does not fit {context}")
        return longest

    def _step(self, token_counts: list[int], speculative: bool = False) -> Facts:
        at_least("tokens", {"tokens": min(token_counts)}, 1)
        pages = -(-self._require_room(token_counts) // self._sizes.page_tokens)
        # A known mistake that a configuration can make: tables as wide as the longest request.
        columns = pages if self._tables_follow_requests else self._sizes.columns
        decoded = self._engine.step(
            token_counts, taps=self._taps, speculative=speculative, columns=columns
        )
        self.rig.shows = True
        result, slots = decoded.result, self._engine.driver.slots
        return {
            "columns": columns,
            "slots": len(slots),
            "ring_slots": sum(slot.inputs is not None for slot in slots),
            "pages": pages,
            "state": str(result.state),
            "reason": result.reason,
            "rows": result.logits.rows,
            "rows_padded": result.logits.rows_padded,
            "tokens": sum(len(gained) for gained in decoded.tokens),
            "first_token": decoded.tokens[0][0],
            "last_token": decoded.tokens[-1][-1],
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
