"""The engine: requests with their KV pages, decoded greedily step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from capturegate.backend import Backend, StreamKind
from capturegate_reference.decode import DecodeConfig, DecodeDriver
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import (
    NULL_PAGE,
    Batch,
    Entry,
    HostVectors,
    StepShape,
    pack,
    take_inputs,
)
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.sampler import Sampler
from capturegate_reference.scratch import Scratch, scope
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import Logits, StepResult


@dataclass(slots=True, kw_only=True)
class Request:
    """A request in flight: `position` is where its next token, `token`, stands."""

    pages: tuple[int, ...]
    position: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A step's result and the tokens that each request gained.

    `columns` is how wide the block tables were, `pages` how many of them the longest request used.
    """

    result: StepResult
    tokens: tuple[tuple[int, ...], ...]
    columns: int
    pages: int


class Engine:
    """One model on one backend, with its pools, its decode driver and its requests.

    Attributes:
        pool: transient scratch; what a capture takes.
        driver: the decode driver.
        model: the forward pass.
        last: what the last step came to; None before the first, and where a step failed.
    """

    def __init__(
        self,
        backend: Backend,
        sizes: ModelSizes,
        config: DecodeConfig,
        *,
        requests_max: int,
        prompt_tokens: int,
        tables_follow_requests: bool = False,
        retiled: str = "",
        seed: int = 0,
    ) -> None:
        """Build it.

        `tables_follow_requests` is a known mistake that a configuration can make: block tables as
        wide as the longest request needs, instead of as wide as the context. So is `retiled`, see
        `ShapeCaches`.

        Raises:
            EngineError: a prompt does not fit a context.
        """
        if not 1 < prompt_tokens < sizes.context_tokens:
            raise EngineError(
                f"a prompt of {prompt_tokens} tokens does not fit a context of "
                f"{sizes.context_tokens}"
            )
        self._backend = backend
        self._sizes = sizes
        self._prompt_tokens = prompt_tokens
        self._tables_follow_requests = tables_follow_requests
        self._seed = seed
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.pool = DevicePool(backend, "main")
        self._persistent = DevicePool(backend, "persistent")
        self._ring_pool = DevicePool(backend, "ring")
        self._prompt_pool = DevicePool(backend, "prompt")
        pages = 1 + requests_max * sizes.columns
        self._free_pages = [page for page in range(pages) if page != NULL_PAGE]
        self.model = Model(
            backend,
            sizes,
            pool=self.pool,
            persistent=self._persistent,
            pages=pages,
            seed=seed,
            retiled=retiled,
        )
        self.driver = DecodeDriver(
            backend,
            self.model,
            config,
            stream=self._stream,
            pool=self.pool,
            persistent=self._persistent,
            ring=self._ring_pool,
        )
        self._sampler = Sampler(backend, self._persistent, sizes.vocab)
        self._prompt_host = HostVectors(backend, self._prompt_shape.nbytes)
        self._requests: list[Request] = []
        self.last: StepResult | None = None

    @property
    def logits(self) -> Logits | None:
        """Of the last step."""
        return self.last.logits if self.last is not None else None

    @property
    def figures(self) -> Mapping[str, int]:
        """Counters of the driver and of the main pool, and the requests admitted so far."""
        pool = self.pool.figures
        return self.driver.counts | {
            "requests": len(self._requests),
            "pool.hits": pool.hits,
            "pool.misses": pool.misses,
            "pool.borrows": pool.borrows,
        }

    def step(self, token_counts: Sequence[int], taps: tuple[int, ...] = ()) -> Decoded:
        """Decode the first requests, one for each entry, with that many tokens each.

        Tokens after the first are guesses; a request gains them as far as they prove right. The
        outputs of the layers in `taps` are handed out too.

        Raises:
            EngineError: a request outgrows its context, or there is no room for another one.
        """
        requests, batch = self._batch(token_counts, taps)
        self._release()
        result = self.last = self.driver.step(batch)
        answers = self._sampler.sample(result.logits, self._stream)
        gained = []
        for request, entry in zip(requests, batch.entries, strict=True):
            mine, answers = answers[: len(entry.tokens)], answers[len(entry.tokens) :]
            gained.append(_advance(request, entry, mine))
        pages = self._pages_of(batch)
        return Decoded(result=result, tokens=tuple(gained), columns=batch.columns, pages=pages)

    def follow(self, tokens: Sequence[int]) -> StepResult:
        """Decode the first requests, whose next tokens are known: submitted, not waited for.

        Raises:
            EngineError: a request outgrows its context, or there is no room for another one.
        """
        requests, batch = self._batch([1] * len(tokens), ())
        self._release()
        result = self.last = self.driver.step(batch)
        for request, token in zip(requests, tokens, strict=True):
            request.position += 1
            request.token = token
        return result

    def close(self) -> None:
        """Let go of graphs, blocks and streams, in this order."""
        self._release()
        self.driver.close()
        self._prompt_host.close()
        self._sampler.close()
        self.model.close()
        for pool in (self.pool, self._persistent, self._ring_pool, self._prompt_pool):
            pool.drain()
        self._backend.stream_destroy(self._stream)

    def _batch(
        self, token_counts: Sequence[int], taps: tuple[int, ...]
    ) -> tuple[list[Request], Batch]:
        """The next step of the first requests, admitted as needed."""
        for _ in range(len(token_counts) - len(self._requests)):
            self._admit()
        requests = self._requests[: len(token_counts)]
        batch = Batch(
            entries=tuple(map(self._entry, requests, token_counts)),
            columns=self._sizes.columns,
            spec=any(n > 1 for n in token_counts),
            taps=taps,
        )
        if self._tables_follow_requests:
            batch = replace(batch, columns=self._pages_of(batch))
        return requests, batch

    def _pages_of(self, batch: Batch) -> int:
        """How many pages the longest request of a step uses."""
        longest = max(entry.position + len(entry.tokens) for entry in batch.entries)
        return -(-longest // self._sizes.page_tokens)

    @property
    def _prompt_shape(self) -> StepShape:
        return StepShape(requests=1, rows=self._prompt_tokens - 1, columns=self._sizes.columns)

    def _entry(self, request: Request, tokens: int) -> Entry:
        if request.position + tokens > self._sizes.context_tokens:
            raise EngineError(
                f"a request at position {request.position} has no room for {tokens} more token(s) "
                f"in a context of {self._sizes.context_tokens}"
            )
        # The cheapest guess that can be right: the last token, repeated.
        return Entry(
            tokens=(request.token,) * tokens, position=request.position, pages=request.pages
        )

    def _admit(self) -> None:
        """Take a new request in and fill its pages with its prompt, all but the last token."""
        sizes = self._sizes
        if len(self._free_pages) < sizes.columns:
            raise EngineError(f"no KV pages are left for request {len(self._requests) + 1}")
        pages = tuple(self._free_pages.pop() for _ in range(sizes.columns))
        random = np.random.default_rng((self._seed, len(self._requests)))
        prompt = tuple(
            int(token) for token in random.integers(sizes.vocab, size=self._prompt_tokens)
        )
        shape = self._prompt_shape
        entry = Entry(tokens=prompt[:-1], position=0, pages=pages)
        batch = Batch(entries=(entry,), columns=sizes.columns)
        self._prompt_host.refresh(pack(batch, shape, sizes.page_tokens))
        # A prompt's scratch is many times a decode step's; it has a pool of its own, so that it
        # neither feeds nor inflates what decode captures rely on.
        with scope(self._prompt_pool), Scratch(self._backend, self.pool) as scratch:
            inputs = take_inputs(scratch.array, shape, sizes.half)
            hidden = scratch.array((shape.rows, sizes.hidden))
            self.model.upload(self._prompt_host, inputs, self._stream)
            self.model.forward(inputs, hidden, None, self._stream)
        self._prompt_host.mark_uploaded(self._stream)
        self._requests.append(
            Request(pages=pages, position=self._prompt_tokens - 1, token=prompt[-1])
        )

    def _release(self) -> None:
        for block in self.last.owned if self.last is not None else ():
            self._persistent.put(block)
        self.last = None


def _advance(request: Request, entry: Entry, answers: Sequence[int]) -> tuple[int, ...]:
    """Move a request past the tokens that are settled; the tokens that it gained."""
    right = 1
    while right < len(answers) and entry.tokens[right] == answers[right - 1]:
        right += 1
    request.position += right
    request.token = answers[right - 1]
    return tuple(answers[:right])
