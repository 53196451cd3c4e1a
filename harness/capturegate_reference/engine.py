"""The engine: requests with their KV pages, decoded greedily step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from capturegate.backend import Backend
from capturegate_reference.decode import DecodeConfig
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
from capturegate_reference.parts import Parts
from capturegate_reference.sampler import Sampler
from capturegate_reference.scratch import Scratch, scope
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import StepResult


@dataclass(slots=True, kw_only=True)
class Request:
    """A request in flight: `position` is where its next token, `token`, stands."""

    pages: tuple[int, ...]
    position: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A step's result and the tokens that each request gained."""

    result: StepResult
    tokens: tuple[tuple[int, ...], ...]


class Engine:
    """One model on one backend, with its decode driver and its requests.

    Attributes:
        pool: transient scratch; what a capture takes.
        model: the forward pass.
        driver: the decode driver.
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
        seed: int = 0,
    ) -> None:
        """Build it.

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
        self._seed = seed
        pages = 1 + requests_max * sizes.columns
        self._free_pages = [page for page in range(pages) if page != NULL_PAGE]
        self._parts = parts = Parts(backend, sizes, pages=pages, seed=seed)
        self._stream = parts.stream
        self.pool = parts.pool
        self.model = parts.model
        self.driver = parts.decode_driver(config)
        self._prompt_pool = parts.new_pool("prompt")
        self._sampler = Sampler(backend, parts.persistent, sizes.vocab)
        self._prompt_host = HostVectors(backend, self._prompt_shape.nbytes)
        self._requests: list[Request] = []
        self.last: StepResult | None = None

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

    def longest(self, token_counts: Sequence[int]) -> int:
        """How many tokens the longest request has after a step of so many tokens each."""
        positions = [request.position for request in self._requests[: len(token_counts)]]
        positions += [self._prompt_tokens - 1] * (len(token_counts) - len(positions))
        return max(map(sum, zip(positions, token_counts, strict=True)))

    def step(
        self,
        token_counts: Sequence[int],
        *,
        taps: tuple[int, ...] = (),
        speculative: bool = False,
        columns: int | None = None,
    ) -> Decoded:
        """Decode the first requests, one for each entry, with that many tokens each.

        Tokens after the first are guesses; a request gains them as far as they prove right. A
        step is `speculative` also where nobody has a guess, if its requests speculate. The outputs
        of the layers in `taps` are handed out too. Block tables are as wide as a context unless
        `columns` says otherwise.

        Raises:
            EngineError: a request outgrows its context, or there is no room for another one.
        """
        batch = Batch(
            entries=self._entries(token_counts),
            columns=columns or self._sizes.columns,
            spec=speculative or any(n > 1 for n in token_counts),
            taps=taps,
        )
        result = self._run(batch)
        answers = self._sampler.sample(result.logits, self._stream)
        gained = []
        for request, entry in zip(self._requests, batch.entries, strict=False):
            mine, answers = answers[: len(entry.tokens)], answers[len(entry.tokens) :]
            gained.append(_advance(request, entry, mine))
        return Decoded(result=result, tokens=tuple(gained))

    def follow(self, tokens: Sequence[int]) -> StepResult:
        """Decode the first requests, whose next tokens are known: submitted, not waited for.

        Raises:
            EngineError: a request outgrows its context, or there is no room for another one.
        """
        entries = self._entries([1] * len(tokens))
        result = self._run(Batch(entries=entries, columns=self._sizes.columns))
        for request, token in zip(self._requests, tokens, strict=False):
            request.position += 1
            request.token = token
        return result

    def close(self) -> None:
        """Let go of graphs, blocks and streams, in this order."""
        self._release()
        self.driver.close()
        self._prompt_host.close()
        self._sampler.close()
        self._parts.close()

    def _run(self, batch: Batch) -> StepResult:
        self._release()
        self.last = self.driver.step(batch)
        return self.last

    def _entries(self, token_counts: Sequence[int]) -> tuple[Entry, ...]:
        """The next tokens of the first requests, admitted as needed."""
        for _ in range(len(token_counts) - len(self._requests)):
            self._admit()
        return tuple(map(self._entry, self._requests, token_counts))

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
        with (
            self._prompt_host.read_by(self._stream),
            scope(self._prompt_pool),
            Scratch(self._backend, self.pool) as scratch,
        ):
            inputs = take_inputs(scratch.array, shape, sizes.half)
            hidden = scratch.array((shape.rows, sizes.hidden))
            self.model.upload(self._prompt_host, inputs, self._stream)
            self.model.forward(inputs, hidden, None, self._stream)
        self._requests.append(
            Request(pages=pages, position=self._prompt_tokens - 1, token=prompt[-1])
        )

    def _release(self) -> None:
        for block in self.last.owned if self.last is not None else ():
            block.owner.put(block)
        self.last = None


def _advance(request: Request, entry: Entry, answers: Sequence[int]) -> tuple[int, ...]:
    """Move a request past the tokens that are settled; the tokens that it gained."""
    right = 1
    while right < len(answers) and entry.tokens[right] == answers[right - 1]:
        right += 1
    request.position += right
    request.token = answers[right - 1]
    return tuple(answers[:right])
