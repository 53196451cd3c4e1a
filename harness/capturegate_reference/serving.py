"""The core of a server: one model with a prompt path and a decode path on one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capturegate.backend import Backend, Pointer, StreamKind
from capturegate_reference.decode import DecodeConfig, DecodeDriver
from capturegate_reference.inputs import Batch, Entry
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.prompt_cache import PromptCacheConfig, PromptGraphCache
from capturegate_reference.prompt_runner import PromptRunner, PromptText
from capturegate_reference.sampler import Sampler
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import Logits, State, StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """How the core runs: `part_tokens` is the most of a prompt that runs at once."""

    decode: DecodeConfig
    prompt: PromptCacheConfig
    pages: int
    part_tokens: int = 16
    seed: int = 0


class ServingCore:
    """Runs prompts and decode steps for whoever keeps the requests.

    Attributes:
        pool: transient scratch of decode steps; what their captures take.
        driver: the decode driver.
        prompts: the prompt path.
        logits: of the last prompt or step; None before the first.
        decoded: whether these came of a decode step.
    """

    def __init__(self, backend: Backend, sizes: ModelSizes, config: CoreConfig) -> None:
        self.sizes = sizes
        self._backend = backend
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.pool = DevicePool(backend, "main")
        self._persistent = DevicePool(backend, "persistent")
        self._ring_pool = DevicePool(backend, "ring")
        self._prompt_pool = DevicePool(backend, "prompt")
        self.model = Model(
            backend,
            sizes,
            pool=self.pool,
            persistent=self._persistent,
            pages=config.pages,
            seed=config.seed,
        )
        self.driver = DecodeDriver(
            backend,
            self.model,
            config.decode,
            stream=self._stream,
            pool=self.pool,
            persistent=self._persistent,
            ring=self._ring_pool,
        )
        cache = PromptGraphCache(
            backend, config.prompt, stream=self._stream, pool=self._prompt_pool
        )
        self.prompts = PromptRunner(
            backend,
            self.model,
            cache,
            stream=self._stream,
            scratch=self._prompt_pool,
            persistent=self._persistent,
            part_tokens=config.part_tokens,
        )
        self._sampler = Sampler(backend, self._persistent, sizes.vocab)
        self.logits: Logits | None = None
        self.decoded = False

    @property
    def counts(self) -> Mapping[str, int]:
        """Counters of the decode driver and of the prompt graphs."""
        prompts = {f"prompt.{name}": count for name, count in self.prompts.cache.counts.items()}
        return dict(self.driver.counts) | prompts | {"prompt.parts": self.prompts.parts}

    @property
    def retained(self) -> list[Pointer]:
        """The logits that coming replays may write."""
        found = [slot.logits.pointer.at(0, slot.logits.nbytes) for slot in self.driver.slots]
        if (room := self.prompts.room) is not None:
            found.append(room.logits.pointer.at(0, room.logits.nbytes))
        return found

    def prompt(
        self, tokens: Sequence[int], pages: tuple[int, ...], start: int = 0, *, tap: bool = False
    ) -> int:
        """Run a prompt from a position on; the token that follows it."""
        logits = self.read(tokens, pages, start, tap=tap)
        return self.sample(self.row(logits, logits.rows - 1))[0]

    def read(
        self, tokens: Sequence[int], pages: tuple[int, ...], start: int = 0, *, tap: bool = False
    ) -> Logits:
        """Run a prompt from a position on; the logits of its last part."""
        self._release_logits()
        text = PromptText(self._backend, tokens)
        self.logits = logits = self.prompts.run(text, pages, start, tap=tap)
        self.decoded = False
        return logits

    def step(self, entries: Sequence[Entry], *, spec: bool = False) -> tuple[StepResult, list[int]]:
        """Run a decode step; what it came to, and the token that follows each of its rows."""
        self._release_logits()
        batch = Batch(entries=tuple(entries), columns=self.sizes.columns, spec=spec)
        result = self.driver.step(batch)
        self.logits = result.logits
        self.decoded = True
        answers = self.sample(result.logits)
        if result.state is State.CAPTURE and len(entries) == 1:
            # Decode at batch one has its graph now: the prompts' are in its way.
            self.prompts.cache.release()
            self._prompt_pool.drain()
        return result, answers

    def row(self, logits: Logits, row: int) -> Logits:
        """One row of logits by itself."""
        at = logits.pointer.at(4 * self.sizes.vocab * row)
        return Logits(pointer=at, rows=1, rows_padded=1)

    def sample(self, logits: Logits) -> list[int]:
        """The most likely token of each row; waits for the stream."""
        return self._sampler.sample(logits, self._stream)

    def copy(self, target: Pointer, source: Pointer, nbytes: int) -> None:
        """Copy in the order of everything else."""
        self._backend.memcpy_async(target, source, nbytes, self._stream)

    def close(self) -> None:
        """Let go of graphs, blocks and streams, in this order."""
        self._release_logits()
        self.prompts.close()
        self.driver.close()
        self._sampler.close()
        self.model.close()
        for pool in (self.pool, self._persistent, self._ring_pool, self._prompt_pool):
            pool.drain()
        self._backend.stream_destroy(self._stream)

    def _release_logits(self) -> None:
        if self.logits is not None and self.logits.owned is not None:
            self._persistent.put(self.logits.owned)
        self.logits = None
