"""What one prompt cache shows to scenarios when two runners share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate_reference import rig
from capturegate_reference.configuration import at_least, capture_mode
from capturegate_reference.pool_adapter import PREDICATES

if TYPE_CHECKING:
    from capturegate_reference.slots import Logits

_COUNTERS = ("seeded", "replayed", "updated", "reinstantiated", "released")


class SharedPromptsAdapter:
    """Two prompt runners on one stream, each with a room of its own, and one cache of graphs.

    A graph's addresses change whenever the other runner asks for it, and come back when the first
    one does. Each runner has one request, whose pages every prompt fills anew.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        **rig.RIG_KEYS,
        "siblings_max": (int, 2),
        "part_tokens": (int, 16),
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
        from capturegate_reference.parts import Parts
        from capturegate_reference.prompt_cache import PromptCacheConfig, PromptGraphCache
        from capturegate_reference.prompt_runner import PromptRunner
        from capturegate_reference.sizes import ModelSizes

        self._sizes = sizes = ModelSizes(layers=2, page_tokens=16, columns=4)
        at_least("siblings_max", config, 1)
        at_least("part_tokens", config, 1, sizes.context_tokens)
        self.rig = rig.Rig(backend, config)
        self._parts = parts = Parts(self.rig.backend, sizes, pages=1 + 2 * sizes.columns)
        self._cache = PromptGraphCache(
            self.rig.backend,
            PromptCacheConfig(
                enabled=not oracle,
                siblings_max=config["siblings_max"],
                capture_mode=capture_mode(config),
            ),
            stream=parts.stream,
            pool=parts.pool,
        )
        self._runners = [
            PromptRunner(
                self.rig.backend,
                parts.model,
                self._cache,
                stream=parts.stream,
                scratch=parts.pool,
                persistent=parts.persistent,
                part_tokens=config["part_tokens"],
            )
            for _ in range(2)
        ]
        self.rig.watch(parts.pool, parts.model)
        self._prompts = 0
        self._logits: Logits | None = None

    @verb
    def prompt(self, tokens: int, runner: int = 1) -> Facts:
        """Have a runner, the first or the second, run a prompt that nobody had before."""
        from capturegate_reference.prompt_runner import PromptText
        from capturegate_reference.workload import new_prompt

        at_least("runner", {"runner": runner}, 1, len(self._runners))
        at_least("tokens", {"tokens": tokens}, 1, self._sizes.context_tokens - 1)
        text = PromptText(self.rig.backend, new_prompt(self._prompts, tokens, self._sizes.vocab))
        self._prompts += 1
        pages = self._sizes.pages_of(runner - 1)
        self._logits = self._runners[runner - 1].run(text, pages)
        self.rig.backend.stream_synchronize(self._parts.stream)
        self.rig.shows = True
        return {"executables": self._cache.size}

    def counters(self) -> Mapping[str, int]:
        """What the cache counts, from 0."""
        return {f"prompt.{name}": self._cache.counts[name] for name in _COUNTERS}

    def outputs(self) -> Sequence[Output]:
        """The logits of the last part; nothing after other verbs."""
        if self._logits is None or not self.rig.shows:
            return ()
        return (rig.output("prompt-logits", self._logits, self._sizes.vocab),)

    def buffers(self) -> Sequence[Pointer]:
        """The logits that coming replays may write, in each room."""
        rooms = [runner.room for runner in self._runners if runner.room is not None]
        return [room.logits.pointer.at(0, room.logits.nbytes) for room in rooms]

    def close(self) -> None:
        """Let go of everything."""
        self.rig.close(*(runner.close for runner in self._runners), self._parts.close)
