"""What the prompt path shows to scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference import rig
from capturegate_reference.configuration import at_least, capture_mode, choice
from capturegate_reference.instruments import refused
from capturegate_reference.pool_adapter import PREDICATES

if TYPE_CHECKING:
    from capturegate_reference.inputs import Entry
    from capturegate_reference.prompt_runner import PromptRunner

_REQUESTS_MAX = 256
_COUNTERS = (
    "captures",
    "replays",
    "prompt.parts",
    "prompt.seeded",
    "prompt.replayed",
    "prompt.updated",
    "prompt.reinstantiated",
    "prompt.released",
    "prompt.inert",
)


class PromptAdapter:
    """Prompts and the decode steps after them. Each prompt is a request; the newest decode.

    `decoding` is how many of them a decode step is of that does not say so itself.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        **rig.RIG_KEYS,
        "model": (str, "dense"),
        "graphs": (bool, True),
        "async_executor": (bool, False),
        "cache_key": (str, "nodes"),
        "namespace": (str, "own"),
        "after_update": (str, "direct"),
        "entries_max": (int, 8),
        "siblings_max": (int, 2),
        "part_tokens": (int, 8),
        "requests_max": (int, 4),
        "decoding": (int, 1),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    ask_tenant = rig.ask_tenant
    drain = rig.drain
    refuse = rig.refuse
    retile = rig.retile
    seat_tenant = rig.seat_tenant
    unseat_tenant = rig.unseat_tenant

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.decode import DecodeConfig
        from capturegate_reference.prompt_cache import PromptCacheConfig
        from capturegate_reference.serving import CoreConfig, ServingCore
        from capturegate_reference.sizes import ModelSizes

        mode = capture_mode(config)
        sizes = ModelSizes(kind=config["model"], layers=2, page_tokens=16, columns=4)
        at_least("part_tokens", config, 1, sizes.context_tokens)
        for name in ("entries_max", "siblings_max"):
            at_least(name, config, 1)
        self._requests_max = at_least("requests_max", config, 1, _REQUESTS_MAX)
        self._decoding = at_least("decoding", config, 1, self._requests_max)
        self.rig = rig.Rig(backend, config)
        self._core = ServingCore(
            self.rig.backend,
            sizes,
            CoreConfig(
                decode=DecodeConfig(
                    capture_mode=mode,
                    always_cold=oracle,
                    async_executor=config["async_executor"],
                ),
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
        self._runner = cast("PromptRunner", self._core.prompts)
        self.rig.watch(self._core.prompt_pool, self._core.model)
        self._prompts = 0
        self._requests: list[_Request] = []

    @verb
    def prompt(self, tokens: int, tap: bool = False) -> Facts:
        """Run a new request's prompt of so many tokens, which no other request has."""
        from capturegate_reference.workload import new_prompt

        sizes = self._core.sizes
        at_least("tokens", {"tokens": tokens}, 1, sizes.context_tokens - 1)
        drawn = new_prompt(self._prompts, tokens, sizes.vocab)
        pages = sizes.pages_of(self._prompts % self._requests_max)
        self._prompts += 1
        self._runner.tapped = tap
        token = self._core.prompt(drawn, pages)
        self.rig.shows = True
        self._requests = [r for r in self._requests if r.pages != pages]
        self._requests.append(_Request(pages, tokens, token))
        return {"token": token, "executables": self._runner.cache.size}

    @verb
    def refused_prompt(self, tokens: int) -> Facts:
        """Run a new request's prompt that is meant to be refused."""
        refusal = refused(lambda: self.prompt(tokens))
        self.rig.shows = False
        return refusal

    @verb
    def decode(self, requests: int = 0) -> Facts:
        """Run a decode step of the newest requests; 0 for as many as are configured."""
        requests = at_least("requests", {"requests": requests}, 0) or self._decoding
        chosen = self._requests[-requests:]
        if len(chosen) < requests:
            raise InputError(
                f"{requests} requests were to decode, {len(chosen)} are there",
                expected="a prompt for each of them before",
            )
        furthest, context = max(r.position for r in chosen) + 1, self._core.sizes.context_tokens
        if furthest > context:
            raise InputError(f"a step to position {furthest} does not fit {context}")
        result, answers = self._core.step([request.entry() for request in chosen])
        for request, answer in zip(chosen, answers, strict=True):
            request.position, request.token = request.position + 1, answer
        self.rig.shows = True
        return {"state": str(result.state), "executables": self._runner.cache.size}

    def counters(self) -> Mapping[str, int]:
        """What the decode driver and the prompt graphs count, from 0."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._core.counts)

    def outputs(self) -> Sequence[Output]:
        """The logits of the last prompt part or decode step; nothing after other verbs."""
        logits = self._core.logits
        if logits is None or not self.rig.shows:
            return ()
        name = "logits" if self._core.decoded else "prompt-logits"
        return (rig.output(name, logits, self._core.sizes.vocab),)

    def buffers(self) -> Sequence[Pointer]:
        """What replays write logits to."""
        return self._core.retained

    def close(self) -> None:
        """Close the core."""
        self.rig.close(self._core.close)


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
