"""Continuous batching: admit, run prompts, decode what runs, make room when memory is short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from capturegate.backend import Backend
from capturegate_reference.drafts import Draft, PositionDiscontinuity
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Entry
from capturegate_reference.pages import PageTable
from capturegate_reference.pool import Block
from capturegate_reference.scheduler import Policy, Scheduler, ServedRequest
from capturegate_reference.serving import CoreConfig, ServingCore
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import Logits


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How a server works.

    Attributes:
        running_max: requests that run at once.
        waiting_max: requests that wait at most; more are refused.
        prefix_caching: whether requests share the pages of common prefixes.
        speculate: whether requests guess ahead: one token from what they said before, or as far
            as the core's draft model goes where it has one.
    """

    core: CoreConfig
    running_max: int = 8
    waiting_max: int = 256
    policy: Policy = Policy.FIFO
    prefix_caching: bool = False
    speculate: bool = False


class ServerCore:
    """Everything of a server but its event loop: one `iterate` is one turn of it.

    Attributes:
        core: the model with its prompt and decode paths.
        counts: what happened how often.
    """

    def __init__(self, backend: Backend, sizes: ModelSizes, config: ServerConfig) -> None:
        self.core = ServingCore(backend, sizes, config.core)
        self.counts: Counter[str] = Counter()
        self._sizes = sizes
        self._config = config
        self._scheduler = Scheduler(config.policy, config.running_max)
        self._table = PageTable(config.core.pages, sizes.page_tokens, self._forget_scores)
        self._scores: dict[int, Block] = {}
        self._spec_tokens = 1 + (config.core.draft.tokens if config.core.draft is not None else 1)

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return self._scheduler.idle

    @property
    def figures(self) -> Mapping[str, int]:
        """All counters."""
        own = {"evictions": self._table.evictions, "overtakes": self._scheduler.overtakes}
        return dict(self.core.counts) | dict(self.counts) | own

    def add(self, request: ServedRequest) -> None:
        """Take a request in.

        Raises:
            EngineError: it could never run, however empty the server was, or too many wait.
        """
        if len(self._scheduler.waiting) >= self._config.waiting_max:
            raise EngineError(f"{self._config.waiting_max} requests wait already")
        wanted = len(request.prompt) + request.new_tokens
        if not request.prompt or request.new_tokens < 1:
            raise EngineError("a request has a prompt and asks for a token at least")
        if wanted > self._sizes.context_tokens or self._table.needed(wanted) > self._table.total:
            raise EngineError(
                f"a request of {len(request.prompt)} + {request.new_tokens} tokens does not fit"
            )
        self._scheduler.waiting.append(request)

    def drop(self, request: ServedRequest) -> None:
        """Forget a request that nobody waits for any more; one that is done is gone already."""
        for queue in (self._scheduler.waiting, self._scheduler.running):
            if request in queue:
                queue.remove(request)
        self._table.release(request.pages)
        request.pages = []

    def iterate(self) -> list[ServedRequest]:
        """Do one turn; the requests that are done with it."""
        while (request := self._scheduler.next(self._shared_tokens)) is not None:
            if not self._admit(request):
                break
        finished = self._finish()
        for request in list(self._scheduler.running):
            if request in self._scheduler.running:
                self._make_room(request)
        widths = [(request, self._width(request)) for request in self._scheduler.running]
        for width in (self._spec_tokens, 1):
            if group := [request for request, its_width in widths if its_width == width]:
                self._decode(group, width)
        return finished + self._finish()

    def close(self) -> None:
        """Let go of everything, whatever still waits or runs."""
        for page in list(self._scores):
            self._forget_scores(page)
        self.core.close()

    def _admit(self, request: ServedRequest) -> bool:
        """Give a request its pages and run its prompt; False when there are no pages."""
        tokens = request.tokens
        shared = self._shared_pages(tokens)
        self._table.share(shared)
        own = self._table.take(self._table.needed(len(tokens) + 1) - len(shared))
        if own is None:
            self._table.release(shared)
            self.counts["exhausted"] += 1
            return False
        self._scheduler.admit(request)
        request.pages = [*shared, *own]
        cached = len(shared) * self._sizes.page_tokens
        if shared:
            self.counts["prefix_hits"] += 1
            self.counts["prefix_tokens"] += cached
        request.draft = self._draft(tokens, cached)
        request.speculates = self._config.speculate and (
            request.draft is not None or self.core.drafts is not None
        )
        if cached == len(tokens):
            scores = self._scores[shared[-1]].pointer
            answer = self.core.sample(Logits(pointer=scores, rows=1, rows_padded=1))[0]
        else:
            answer = self.core.prompt(tokens, tuple(request.pages), cached)
        request.stored = len(tokens)
        self._publish(request, cached)
        request.generated.append(answer)
        return True

    def _draft(self, tokens: tuple[int, ...], cached: int) -> Draft | None:
        """What guesses from a request's own words; None when it may not, cannot, or need not."""
        if not self._config.speculate or self.core.drafts is not None:
            return None
        draft = Draft()
        try:
            draft.see(cached, tokens[cached:])
        except PositionDiscontinuity:
            # It never saw the tokens of the shared pages, so its guesses would be about others.
            self.counts["discontinuities"] += 1
            return None
        return draft

    def _width(self, request: ServedRequest) -> int:
        fits = request.stored + self._spec_tokens <= self._sizes.context_tokens
        return self._spec_tokens if request.speculates and fits else 1

    def _make_room(self, request: ServedRequest) -> None:
        """See that a running request has pages for its next tokens; the youngest gives way."""
        while request in self._scheduler.running:
            missing = self._table.needed(request.stored + self._width(request)) - len(request.pages)
            if missing <= 0:
                return
            taken = self._table.take(missing)
            if taken is not None:
                request.pages += taken
                return
            self.counts["exhausted"] += 1
            self._preempt(self._scheduler.running[-1])

    def _preempt(self, request: ServedRequest) -> None:
        """Let a request begin again later, with what it has said so far as its prompt."""
        self._scheduler.preempt(request)
        self._table.release(request.pages)
        request.pages = []
        request.stored = 0
        self.counts["preempted"] += 1

    def _decode(self, group: list[ServedRequest], width: int) -> None:
        entries = [_next_entry(request) for request in group]
        if width > 1:
            guesses = self._guesses(group, entries)
            entries = [
                replace(entry, tokens=entry.tokens + guessed)
                for entry, guessed in zip(entries, guesses, strict=True)
            ]
        _, answers = self.core.step(entries, spec=width > 1)
        self.counts["steps"] += 1
        for row, (request, entry) in enumerate(zip(group, entries, strict=True)):
            mine = answers[row * width : (row + 1) * width]
            gained = mine[:1]
            while len(gained) < width and entry.tokens[len(gained)] == gained[-1]:
                gained.append(mine[len(gained)])
                self.counts["guessed_right"] += 1
            before = request.stored
            gained = gained[: request.new_tokens - len(request.generated)]
            if request.draft is not None:
                request.draft.see(before, entry.tokens[: len(gained)])
            request.stored += len(gained)
            request.generated += gained
            self._publish(request, before, row * width)

    def _guesses(self, group: list[ServedRequest], entries: list[Entry]) -> list[tuple[int, ...]]:
        """What may follow the next token of each request."""
        if self.core.drafts is not None:
            return self.core.guess(entries)
        return [(r.draft.guess(r.tokens[-1]),) for r in group if r.draft is not None]

    def _publish(self, request: ServedRequest, since: int, first_row: int | None = None) -> None:
        """Let others share the pages that became full since so many tokens were stored.

        The scores at the end of a full page are kept with it, so that a prompt that ends there
        needs no pass at all.
        """
        if not self._config.prefix_caching:
            return
        page_tokens, logits = self._sizes.page_tokens, self.core.logits
        tokens = request.tokens
        for end in range(
            since - since % page_tokens + page_tokens, request.stored + 1, page_tokens
        ):
            page = request.pages[end // page_tokens - 1]
            if not self._table.publish(tokens[:end], page) or logits is None:
                continue
            base = logits.rows - request.stored if first_row is None else first_row - since
            if 0 <= (row := base + end - 1) < logits.rows:
                nbytes = 4 * self._sizes.vocab
                block = self._scores[page] = self.core.pool.get(nbytes)
                self.core.copy(block.pointer, self.core.row(logits, row).pointer, nbytes)

    def _forget_scores(self, page: int) -> None:
        if (block := self._scores.pop(page, None)) is not None:
            self.core.pool.put(block)

    def _shared_tokens(self, request: ServedRequest) -> int:
        return len(self._shared_pages(request.tokens)) * self._sizes.page_tokens

    def _shared_pages(self, tokens: tuple[int, ...]) -> list[int]:
        """The pages that a prompt shares; all of it only where the scores at its end are kept."""
        if not self._config.prefix_caching:
            return []
        found = self._table.match(tokens)
        whole = len(found) * self._sizes.page_tokens == len(tokens)
        return found[:-1] if found and whole and found[-1] not in self._scores else found

    def _finish(self) -> list[ServedRequest]:
        done = self._scheduler.finish()
        for request in done:
            self._table.release(request.pages)
            request.pages = []
        return done


def _next_entry(request: ServedRequest) -> Entry:
    return Entry(tokens=(request.tokens[-1],), position=request.stored, pages=tuple(request.pages))
