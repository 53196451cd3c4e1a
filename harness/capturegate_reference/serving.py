"""The core of a server: one model with a prompt path and a decode path on one stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from capturegate.backend import Array, Backend, Pointer
from capturegate_reference.chunk import ChunkConfig, ChunkDriver
from capturegate_reference.chunk_runner import ChunkRunner
from capturegate_reference.decode import DecodeConfig
from capturegate_reference.draft_driver import DraftConfig, DraftDriver
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Batch, Entry
from capturegate_reference.parts import Parts
from capturegate_reference.prompt_cache import PromptCacheConfig, PromptGraphCache
from capturegate_reference.prompt_runner import PromptRunner, PromptText
from capturegate_reference.sampler import Sampler
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import Logits, State, StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """How the core runs.

    Attributes:
        prompt: how prompts run in parts, each as long as it happens to be.
        part_tokens: the most of a prompt that runs at once.
        chunk: run prompts in chunks of one length instead.
        draft: guess with a draft model, the first `draft_layers` layers of the model itself.
    """

    decode: DecodeConfig
    prompt: PromptCacheConfig
    pages: int
    part_tokens: int = 16
    chunk: ChunkConfig | None = None
    draft: DraftConfig | None = None
    draft_layers: int = 1
    seed: int = 0


class PromptPath(Protocol):
    """What runs prompts."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What happened how often."""

    @property
    def kept(self) -> tuple[Array, ...]:
        """The logits that coming replays may write."""

    def run(self, text: PromptText, pages: tuple[int, ...], start: int = 0) -> Logits:
        """Fill the pages from a position on; the logits of the last part, one row a token."""

    def release(self) -> None:
        """Let go of the graphs that decode at batch one cannot have beside it."""

    def close(self) -> None:
        """Let go of everything."""


class ServingCore:
    """Runs prompts and decode steps for whoever keeps the requests.

    Attributes:
        pool: transient scratch of decode steps; what their captures take.
        prompt_pool: that of prompts.
        draft_pool: that of drafts.
        driver: the decode driver.
        prompts: the prompt path.
        drafts: the draft driver; None where nobody drafts.
        logits: of the last prompt or step; None before the first.
        decoded: whether these came of a decode step.
    """

    def __init__(self, backend: Backend, sizes: ModelSizes, config: CoreConfig) -> None:
        """Build it.

        Raises:
            EngineError: the draft model would have no layer, or more of them than there are.
        """
        layers = config.draft_layers
        if config.draft is not None and not 1 <= layers <= sizes.layers:
            # Before anything is taken, since whoever is refused has nothing to close.
            raise EngineError(f"a draft of {layers} layers out of {sizes.layers}")
        self.sizes = sizes
        self._backend = backend
        self._parts = parts = Parts(backend, sizes, pages=config.pages, seed=config.seed)
        self._stream = parts.stream
        self.model = parts.model
        self.pool = parts.pool
        self.prompt_pool = parts.new_pool("prompt")
        self.draft_pool = parts.new_pool("draft")
        self.driver = parts.decode_driver(config.decode)
        self.prompts = self._prompt_path(config)
        self.drafts = self._draft_driver(config.draft, layers)
        self._sampler = Sampler(backend, parts.persistent, sizes.vocab)
        self.logits: Logits | None = None
        self.decoded = False
        self._prompts_released = False

    @property
    def counts(self) -> Mapping[str, int]:
        """Counters of the decode driver, of the prompt path and of the draft driver."""
        drafts = self.drafts.counts if self.drafts is not None else {}
        drafted = {f"draft.{name}": count for name, count in drafts.items()}
        return dict(self.driver.counts) | dict(self.prompts.counts) | drafted

    @property
    def retained(self) -> list[Pointer]:
        """The logits that coming replays may write."""
        found = [slot.logits for slot in self.driver.slots]
        found += self.prompts.kept
        for slot in self.drafts.slots.values() if self.drafts is not None else ():
            found += slot.logits
        return [kept.pointer.at(0, kept.nbytes) for kept in found]

    def prompt(self, tokens: Sequence[int], pages: tuple[int, ...], start: int = 0) -> int:
        """Run a prompt from a position on; the token that follows it."""
        logits = self.read(tokens, pages, start)
        return self.sample(self.row(logits, logits.rows - 1))[0]

    def read(self, tokens: Sequence[int], pages: tuple[int, ...], start: int = 0) -> Logits:
        """Run a prompt from a position on; the logits of its last part."""
        self._release_logits()
        text = PromptText(self._backend, tokens)
        self.logits = logits = self.prompts.run(text, pages, start)
        self.decoded = False
        return logits

    def guess(self, entries: Sequence[Entry]) -> list[tuple[int, ...]]:
        """What the draft model says after each request's next token.

        Raises:
            EngineError: nobody drafts here.
        """
        if self.drafts is None:
            raise EngineError("a guess was asked for where there is no draft model")
        batch = Batch(entries=tuple(entries), columns=self.sizes.columns)
        return self.drafts.collect(self.drafts.draft(batch))

    def step(self, entries: Sequence[Entry], *, spec: bool = False) -> tuple[StepResult, list[int]]:
        """Run a decode step; what it came to, and the token that follows each of its rows."""
        self._release_logits()
        batch = Batch(entries=tuple(entries), columns=self.sizes.columns, spec=spec)
        result = self.driver.step(batch)
        self.logits = result.logits
        self.decoded = True
        answers = self.sample(result.logits)
        first = not self._prompts_released
        if first and result.state is State.CAPTURE and len(entries) == 1:
            # Decode at batch one has its first graph now: the prompts' are in its way. Those that
            # come after it were made beside it.
            self._prompts_released = True
            self.prompts.release()
            self.prompt_pool.drain()
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
        if self.drafts is not None:
            self.drafts.close()
        self.prompts.close()
        self.driver.close()
        self._sampler.close()
        self._parts.close()

    def _prompt_path(self, config: CoreConfig) -> PromptPath:
        parts, pool = self._parts, self.prompt_pool
        if config.chunk is not None:
            driver = ChunkDriver(
                self._backend,
                parts.model,
                config.chunk,
                stream=parts.stream,
                pool=pool,
                persistent=parts.persistent,
                columns=self.sizes.columns,
            )
            return ChunkRunner(driver, config.chunk, columns=self.sizes.columns)
        return PromptRunner(
            self._backend,
            parts.model,
            PromptGraphCache(self._backend, config.prompt, stream=parts.stream, pool=pool),
            stream=parts.stream,
            scratch=pool,
            persistent=parts.persistent,
            part_tokens=config.part_tokens,
        )

    def _draft_driver(self, config: DraftConfig | None, layers: int) -> DraftDriver | None:
        if config is None:
            return None
        return DraftDriver(
            self._backend,
            self.model.early_exit(layers),
            config,
            stream=self._stream,
            pool=self.draft_pool,
            persistent=self._parts.persistent,
        )

    def _release_logits(self) -> None:
        if self.logits is not None and self.logits.owned is not None:
            self.logits.owned.owner.put(self.logits.owned)
        self.logits = None
