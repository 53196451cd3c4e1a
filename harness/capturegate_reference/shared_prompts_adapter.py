"""What one prompt cache shows to scenarios when two runners share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer, StreamKind
from capturegate.errors import InputError
from capturegate_reference.configuration import choice
from capturegate_reference.pool_adapter import pool_bypassed
from capturegate_reference.tenant import Tenant

if TYPE_CHECKING:
    from capturegate_reference.slots import Logits

COLUMNS = 4


class SharedPromptsAdapter:
    """Two prompt runners on one stream, each with a room of its own, and one cache of graphs.

    A graph's addresses change whenever the other runner asks for it, and come back when the first
    one does. Each runner has one request, whose pages every prompt fills anew.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "siblings_max": (int, 2),
        "part_tokens": (int, 16),
        "capture_mode": (str, "thread_local"),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.model import Model
        from capturegate_reference.pool import DevicePool
        from capturegate_reference.prompt_cache import PromptCacheConfig, PromptGraphCache
        from capturegate_reference.prompt_runner import PromptRunner
        from capturegate_reference.sizes import ModelSizes

        self._sizes = ModelSizes(layers=2, page_tokens=16, columns=COLUMNS)
        self._backend = backend
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._persistent = DevicePool(backend, "persistent")
        self._scratch = DevicePool(backend, "prompt")
        self._model = Model(
            backend,
            self._sizes,
            pool=self._scratch,
            persistent=self._persistent,
            pages=1 + 2 * COLUMNS,
            seed=0,
        )
        modes = {mode.value: mode for mode in CaptureMode}
        self._cache = PromptGraphCache(
            backend,
            PromptCacheConfig(
                enabled=not oracle,
                siblings_max=config["siblings_max"],
                capture_mode=choice("capture_mode", config, modes),
            ),
            stream=self._stream,
            pool=self._scratch,
        )
        self._runners = [
            PromptRunner(
                backend,
                self._model,
                self._cache,
                stream=self._stream,
                scratch=self._scratch,
                persistent=self._persistent,
                part_tokens=config["part_tokens"],
            )
            for _ in range(2)
        ]
        self._tenant = Tenant(backend, self._scratch)
        self._prompts = 0
        self._logits: Logits | None = None

    @verb
    def prompt(self, tokens: int, runner: int = 1) -> Facts:
        """Have a runner, the first or the second, run a prompt that nobody had before."""
        import numpy as np

        from capturegate_reference.prompt_runner import PromptText

        if runner not in (1, 2) or not 0 < tokens < self._sizes.context_tokens:
            raise InputError(
                f"no prompt of {tokens} tokens can run on runner {runner}",
                expected=f"runner 1 or 2, and less than {self._sizes.context_tokens} tokens",
            )
        random = np.random.default_rng((7, self._prompts))
        drawn = [int(token) for token in random.integers(self._sizes.vocab, size=tokens)]
        self._prompts += 1
        first = 1 + (runner - 1) * COLUMNS
        text = PromptText(self._backend, drawn)
        pages = tuple(range(first, first + COLUMNS))
        self._logits = self._runners[runner - 1].run(text, pages)
        self._backend.stream_synchronize(self._stream)
        return {"executables": self._cache.size}

    @verb
    def seat_tenant(self, nbytes: int, blocks: int = 1) -> Facts:
        """Let somebody else take blocks of the prompts' pool and fill them."""
        self._logits = None
        self._tenant.take(nbytes, blocks)
        return {"blocks": blocks}

    @verb
    def unseat_tenant(self) -> Facts:
        """Let the tenant give his blocks back."""
        self._logits = None
        blocks = len(self._tenant)
        self._tenant.leave()
        return {"blocks": blocks}

    @verb
    def drain(self) -> Facts:
        """Give all free scratch to the driver."""
        self._logits = None
        return {"freed_bytes": self._scratch.drain()}

    def counters(self) -> Mapping[str, int]:
        """What the cache counts, from 0."""
        names = ("seeded", "replayed", "updated", "reinstantiated", "released")
        return {f"prompt.{name}": self._cache.counts[name] for name in names}

    def outputs(self) -> Sequence[Output]:
        """The logits of the last part; nothing after other verbs."""
        logits = self._logits
        if logits is None:
            return ()
        return (
            Output(
                name="prompt-logits",
                pointer=logits.pointer,
                row_bytes=4 * self._sizes.vocab,
                rows=logits.rows,
                rows_padded=logits.rows_padded,
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The logits that coming replays may write, in each room."""
        rooms = [runner.room for runner in self._runners if runner.room is not None]
        return [room.logits.pointer.at(0, room.logits.nbytes) for room in rooms]

    def close(self) -> None:
        """Let go of everything."""
        self._tenant.leave()
        for runner in self._runners:
            runner.close()
        self._model.close()
        self._scratch.drain()
        self._persistent.drain()
        self._backend.stream_destroy(self._stream)
