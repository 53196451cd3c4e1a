"""What the prompt path shows to scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer
from capturegate.errors import InputError
from capturegate_reference.adapters import pool_bypassed
from capturegate_reference.configuration import choice
from capturegate_reference.instruments import FAULTS, ForkingDevice, refuse, refused
from capturegate_reference.tenant import Tenant

if TYPE_CHECKING:
    from capturegate_reference.inputs import Entry

_COUNTERS = (
    "captures",
    "replays",
    "prompt.parts",
    "prompt.seeded",
    "prompt.replayed",
    "prompt.updated",
    "prompt.reinstantiated",
    "prompt.released",
)


class PromptAdapter:
    """Prompts and the decode steps after them. Each prompt is a request; the newest decode."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "graphs": (bool, True),
        "cache_key": (str, "nodes"),
        "namespace": (str, "own"),
        "after_update": (str, "direct"),
        "entries_max": (int, 8),
        "siblings_max": (int, 2),
        "part_tokens": (int, 8),
        "requests_max": (int, 4),
        "fault": (str, "none"),
        "capture_mode": (str, "thread_local"),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.decode import DecodeConfig
        from capturegate_reference.prompt_cache import PromptCacheConfig
        from capturegate_reference.serving import CoreConfig, ServingCore
        from capturegate_reference.sizes import ModelSizes

        fault = choice("fault", config, FAULTS)
        self._faulty = fault(backend.device) if fault is not None else None
        if self._faulty is not None:
            backend = Backend(self._faulty, backend.recorder)
        modes = {mode.value: mode for mode in CaptureMode}
        mode = choice("capture_mode", config, modes)
        sizes = ModelSizes(kind=config["model"], layers=2, page_tokens=16, columns=4)
        self._requests_max = config["requests_max"]
        self._core = ServingCore(
            backend,
            sizes,
            CoreConfig(
                decode=DecodeConfig(capture_mode=mode, always_cold=oracle),
                prompt=PromptCacheConfig(
                    enabled=config["graphs"] and not oracle,
                    entries_max=config["entries_max"],
                    siblings_max=config["siblings_max"],
                    capture_mode=mode,
                    keyed_by_address=choice("cache_key", config, _KEYS),
                    shared_namespace=choice("namespace", config, _NAMESPACES),
                    launch_unproven=choice("after_update", config, _AFTER_UPDATE),
                ),
                pages=1 + self._requests_max * sizes.columns,
                part_tokens=config["part_tokens"],
            ),
        )
        self._tenant = Tenant(backend, self._core.prompts.scratch)
        self._quiet = False
        self._prompts = 0
        self._requests: list[_Request] = []

    @verb
    def prompt(self, tokens: int, tap: bool = False) -> Facts:
        """Run a new request's prompt of so many tokens, which no other request has."""
        import numpy as np

        sizes = self._core.sizes
        if not 0 < tokens < sizes.context_tokens:
            raise InputError(f"a prompt of {tokens} tokens does not fit {sizes.context_tokens}")
        line = self._prompts % self._requests_max
        random = np.random.default_rng((7, self._prompts))
        drawn = [int(token) for token in random.integers(sizes.vocab, size=tokens)]
        pages = tuple(1 + line * sizes.columns + column for column in range(sizes.columns))
        self._prompts += 1
        self._quiet = False
        token = self._core.prompt(drawn, pages, tap=tap)
        self._requests = [r for r in self._requests if r.pages != pages]
        self._requests.append(_Request(pages, tokens, token))
        return {"token": token, "executables": self._core.prompts.cache.size}

    @verb
    def refused_prompt(self, tokens: int) -> Facts:
        """Run a new request's prompt that is meant to be refused."""
        refusal = refused(lambda: self.prompt(tokens))
        self._quiet = True
        return refusal

    @verb
    def refuse(self, number: int = 1) -> Facts:
        """Let one of the coming calls be refused that the configured fault is about."""
        self._quiet = True
        refuse(self._faulty, number)
        return {}

    @verb
    def retile(self, cache: str) -> Facts:
        """Have a cache by shape asked for rounded-up rows in captures; `none` for no cache."""
        from capturegate_reference.shape_caches import RETILABLE

        self._quiet = True
        self._core.model.caches.retiled = choice("cache", {"cache": cache}, RETILABLE)
        return {"retiled": cache}

    @verb
    def seat_tenant(self, nbytes: int, blocks: int = 1) -> Facts:
        """Let somebody else take blocks of the prompts' pool and fill them."""
        self._quiet = True
        self._tenant.take(nbytes, blocks)
        return {"blocks": blocks}

    @verb
    def unseat_tenant(self) -> Facts:
        """Let the tenant give his blocks back."""
        self._quiet = True
        blocks = len(self._tenant)
        self._tenant.leave()
        return {"blocks": blocks}

    @verb
    def ask_tenant(self) -> Facts:
        """Ask the tenant whether all of it is as it was."""
        self._quiet = True
        intact, blocks = self._tenant.intact_blocks(), len(self._tenant)
        return {"intact_blocks": intact, "overwritten_blocks": blocks - intact}

    @verb
    def drain(self) -> Facts:
        """Give all free scratch of prompts to the driver."""
        self._quiet = True
        return {"freed_bytes": self._core.prompts.scratch.drain()}

    @verb
    def decode(self, requests: int = 1) -> Facts:
        """Run a decode step of the newest requests."""
        chosen = self._requests[-requests:]
        if len(chosen) < requests:
            raise InputError(f"{requests} requests were to decode, {len(chosen)} are there")
        self._quiet = False
        result, answers = self._core.step([request.entry() for request in chosen])
        for request, answer in zip(chosen, answers, strict=True):
            request.position, request.token = request.position + 1, answer
        return {"state": str(result.state), "executables": self._core.prompts.cache.size}

    def counters(self) -> Mapping[str, int]:
        """What the decode driver and the prompt graphs count, from 0."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._core.counts)

    def outputs(self) -> Sequence[Output]:
        """The logits of the last prompt part or decode step; nothing after other verbs."""
        logits = self._core.logits
        if logits is None or self._quiet:
            return ()
        return (
            Output(
                name="logits" if self._core.decoded else "prompt-logits",
                pointer=logits.pointer,
                row_bytes=4 * self._core.sizes.vocab,
                rows=logits.rows,
                rows_padded=logits.rows_padded,
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """What replays write logits to."""
        return self._core.retained

    def close(self) -> None:
        """Close the core."""
        self._tenant.leave()
        self._core.close()
        if isinstance(self._faulty, ForkingDevice):
            self._faulty.dismiss()


class _Request:
    """A request in flight: `position` is where its next token stands."""

    def __init__(self, pages: tuple[int, ...], position: int, token: int) -> None:
        self.pages = pages
        self.position = position
        self.token = token

    def entry(self) -> Entry:
        from capturegate_reference.inputs import Entry

        return Entry(tokens=(self.token,), position=self.position, pages=self.pages)


_KEYS = {"nodes": False, "address": True}
_NAMESPACES = {"own": False, "shared": True}
_AFTER_UPDATE = {"direct": False, "launch": True}
