"""What drafting shows to scenarios. The engine is imported when an adapter is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference import rig
from capturegate_reference.configuration import at_least, capture_mode
from capturegate_reference.instruments import retried
from capturegate_reference.pool_adapter import PREDICATES

if TYPE_CHECKING:
    from capturegate_reference.draft_driver import Drafted
    from capturegate_reference.inputs import Batch

_REQUESTS_MAX = 256
_COUNTERS = ("begins", "ends", "failed", "inert", "declined", "declined.bypass")


class DraftAdapter:
    """Requests that start from nothing, and whose target model takes some of each draft.

    After a draft the target takes the first `accepted` guesses and adds one token of its own,
    which follows from where it stands. Where drafts are `awaited`, also those of `drafts_ahead` are
    each waited for before the next one is submitted.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        **rig.RIG_KEYS,
        "model": (str, "dense"),
        "layers": (int, 1),
        "draft_tokens": (int, 3),
        "requests_max": (int, 4),
        "awaited": (bool, False),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    ask_tenant = rig.ask_tenant
    drain = rig.drain
    refuse = rig.refuse
    retile = rig.retile
    seat_tenant = rig.seat_tenant

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.draft_driver import DraftConfig, DraftDriver
        from capturegate_reference.parts import Parts
        from capturegate_reference.sizes import ModelSizes

        self._sizes = sizes = ModelSizes(kind=config["model"], layers=config["layers"])
        self._ahead = at_least("draft_tokens", config, 1, sizes.context_tokens - 1)
        self._awaited: bool = config["awaited"]
        self._requests_max = at_least("requests_max", config, 1, _REQUESTS_MAX)
        self.rig = rig.Rig(backend, config)
        pages = 1 + self._requests_max * sizes.columns
        self._parts = parts = Parts(self.rig.backend, sizes, pages=pages, seed=1)
        self._driver = DraftDriver(
            self.rig.backend,
            parts.model,
            DraftConfig(
                tokens=self._ahead,
                max_num_seqs=self._requests_max,
                capture_mode=capture_mode(config),
                always_cold=oracle,
            ),
            stream=parts.stream,
            pool=parts.pool,
            persistent=parts.persistent,
        )
        self.rig.watch(parts.pool, parts.model)
        self._positions = [0] * self._requests_max
        self._last: Drafted | None = None

    @verb
    def draft(self, requests: int = 1, accepted: int = 1) -> Facts:
        """Draft for the first requests, and let the target take so many guesses of each."""
        # The model has never seen the last guess.
        at_least("accepted", {"accepted": accepted}, 0, self._ahead - 1)
        self._last = self._submit(requests)
        guesses = self._driver.collect(self._last)
        self._advance(requests, accepted + 1)
        return {
            "state": str(self._last.state),
            "reason": self._last.reason,
            "rows": self._last.rows,
            "guesses": "tokens " + " / ".join(" ".join(map(str, line)) for line in guesses),
            "likeliest": self._likeliest(self._last, guesses),
        }

    @verb
    def drafts_ahead(self, requests: int = 1, count: int = 4) -> Facts:
        """Submit drafts of tokens that are known, and wait for the last one alone or for each."""
        at_least("count", {"count": count}, 1)
        for _ in range(count):
            self._last = self._submit(requests)
            self._advance(requests, 1)
            if self._awaited:
                self.rig.backend.stream_synchronize(self._parts.stream)
        self.rig.backend.stream_synchronize(self._parts.stream)
        return {"drafts": count}

    @verb
    def rewind(self) -> Facts:
        """Let every request start from nothing again, so that a draft can be repeated."""
        self.rig.shows = False
        self._positions = [0] * self._requests_max
        return {}

    @verb
    def retried_draft(self, requests: int = 1, attempts: int = 2) -> Facts:
        """Draft, and again for as long as it is refused and attempts are left."""
        return retried(lambda: self.draft(requests), attempts)

    def counters(self) -> Mapping[str, int]:
        """What the driver counts, from 0."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._driver.counts)

    def outputs(self) -> Sequence[Output]:
        """The logits of every pass of the last draft; nothing after other verbs."""
        if self._last is None or not self.rig.shows:
            return ()
        return [
            Output(
                name=f"logits-{number}",
                pointer=logits.pointer,
                row_bytes=4 * self._sizes.vocab,
                rows=self._last.rows,
                rows_padded=logits.shape[0],
            )
            for number, logits in enumerate(self._last.slot.logits, 1)
        ]

    def buffers(self) -> Sequence[Pointer]:
        """The kept logits of all passes."""
        slots = self._driver.slots.values()
        return [kept.pointer.at(0, kept.nbytes) for slot in slots for kept in slot.logits]

    def close(self) -> None:
        """Let go of everything."""
        self.rig.close(self._driver.close, self._parts.close)

    def _submit(self, requests: int) -> Drafted:
        at_least("requests", {"requests": requests}, 1, self._requests_max)
        furthest = max(self._positions[:requests]) + self._ahead
        if furthest > self._sizes.context_tokens:
            raise InputError(
                f"a draft to position {furthest} does not fit {self._sizes.context_tokens}"
            )
        drafted = self._driver.draft(self._batch(requests))
        self.rig.shows = True
        return drafted

    def _batch(self, requests: int) -> Batch:
        from capturegate_reference.inputs import Batch, Entry

        entries = tuple(
            Entry(
                tokens=((7 * position + 3 + line) % self._sizes.vocab,),
                position=position,
                pages=self._sizes.pages_of(line),
            )
            for line, position in enumerate(self._positions[:requests])
        )
        return Batch(entries=entries, columns=self._sizes.columns)

    def _likeliest(self, drafted: Drafted, guesses: Sequence[Sequence[int]]) -> int:
        """How many guesses their own pass gave the highest score, by the logits that it kept."""
        import numpy as np

        backend, rows, found = self.rig.backend, drafted.rows, 0
        for number, logits in enumerate(drafted.slot.logits):
            nbytes = 4 * rows * self._sizes.vocab
            copy = backend.pageable(nbytes)
            backend.memcpy(copy, logits.pointer, nbytes)
            scores = np.frombuffer(backend.host_read(copy, nbytes), np.float32)
            picks = scores.reshape(rows, -1).argmax(axis=1)
            found += sum(line[number] == pick for line, pick in zip(guesses, picks, strict=True))
        return int(found)

    def _advance(self, requests: int, tokens: int) -> None:
        for line in range(requests):
            self._positions[line] += tokens
