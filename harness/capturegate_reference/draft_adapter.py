"""What drafting shows to scenarios. The engine is imported when an adapter is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer, StreamKind
from capturegate.errors import InputError
from capturegate_reference.configuration import choice
from capturegate_reference.instruments import FAULTS, ForkingDevice, refuse, retried
from capturegate_reference.pool_adapter import pool_bypassed
from capturegate_reference.tenant import Tenant

if TYPE_CHECKING:
    from capturegate_reference.draft_driver import Drafted
    from capturegate_reference.inputs import Batch


class DraftAdapter:
    """Requests that start from nothing, and whose target model takes some of each draft.

    After a draft the target takes the first `accepted` guesses and adds one token of its own,
    which follows from where it stands.
    """

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "layers": (int, 1),
        "draft_tokens": (int, 3),
        "requests_max": (int, 4),
        "capture_mode": (str, "thread_local"),
        "fault": (str, "none"),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.draft_driver import DraftConfig, DraftDriver
        from capturegate_reference.model import Model
        from capturegate_reference.pool import DevicePool
        from capturegate_reference.sizes import ModelSizes

        fault = choice("fault", config, FAULTS)
        self._faulty = fault(backend.device) if fault is not None else None
        if self._faulty is not None:
            backend = Backend(self._faulty, backend.recorder)
        self._backend = backend
        self._sizes = sizes = ModelSizes(kind=config["model"], layers=config["layers"])
        self._ahead = config["draft_tokens"]
        self._requests_max = config["requests_max"]
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._pool = DevicePool(backend, "draft")
        self._persistent = DevicePool(backend, "draft-persistent")
        self._model = Model(
            backend,
            sizes,
            pool=self._pool,
            persistent=self._persistent,
            pages=1 + self._requests_max * sizes.columns,
            seed=1,
        )
        captures = {mode.value: mode for mode in CaptureMode}
        self._driver = DraftDriver(
            backend,
            self._model,
            DraftConfig(
                tokens=self._ahead,
                max_num_seqs=self._requests_max,
                capture_mode=choice("capture_mode", config, captures),
                always_cold=oracle,
            ),
            stream=self._stream,
            pool=self._pool,
            persistent=self._persistent,
        )
        self._tenant = Tenant(backend, self._pool)
        self._positions = [0] * self._requests_max
        self._last: Drafted | None = None

    @verb
    def draft(self, requests: int = 1, accepted: int = 1) -> Facts:
        """Draft for the first requests, and let the target take so many guesses of each."""
        if not 0 <= accepted < self._ahead:
            raise InputError(
                f"{accepted} guesses were to be taken",
                expected=f"0 to {self._ahead - 1}: the last one was never seen by the model",
            )
        self._last = self._driver.draft(self._batch(requests))
        guesses = self._driver.collect(self._last)
        self._advance(requests, accepted + 1)
        return {
            "state": str(self._last.state),
            "rows": self._last.rows,
            "guesses": "tokens " + " / ".join(" ".join(map(str, line)) for line in guesses),
            "likeliest": self._likeliest(self._last, guesses),
        }

    @verb
    def drafts_ahead(self, requests: int = 1, count: int = 4) -> Facts:
        """Submit drafts of tokens that are known, and wait for the last one alone."""
        for _ in range(count):
            self._last = self._driver.draft(self._batch(requests))
            self._advance(requests, 1)
        self._backend.stream_synchronize(self._stream)
        return {"drafts": count}

    @verb
    def rewind(self) -> Facts:
        """Let every request start from nothing again, so that a draft can be repeated."""
        self._last = None
        self._positions = [0] * self._requests_max
        return {}

    @verb
    def retried_draft(self, requests: int = 1, attempts: int = 2) -> Facts:
        """Draft, and again for as long as it is refused and attempts are left."""
        return retried(lambda: self.draft(requests), attempts)

    @verb
    def refuse(self, number: int = 1) -> Facts:
        """Let one of the coming calls be refused that the configured fault is about."""
        self._last = None
        refuse(self._faulty, number)
        return {}

    @verb
    def retile(self, cache: str) -> Facts:
        """Have a cache by shape asked for rounded-up rows in captures; `none` for no cache."""
        from capturegate_reference.shape_caches import RETILABLE

        self._last = None
        self._model.caches.retiled = choice("cache", {"cache": cache}, RETILABLE)
        return {"retiled": cache}

    @verb
    def seat_tenant(self, nbytes: int, blocks: int = 1) -> Facts:
        """Let somebody else take blocks and fill them."""
        self._last = None
        self._tenant.take(nbytes, blocks)
        return {"blocks": blocks}

    @verb
    def ask_tenant(self) -> Facts:
        """Ask the tenant whether all of it is as it was."""
        self._last = None
        intact, blocks = self._tenant.intact_blocks(), len(self._tenant)
        return {"intact_blocks": intact, "overwritten_blocks": blocks - intact}

    @verb
    def drain(self) -> Facts:
        """Give all free scratch to the driver."""
        self._last = None
        return {"freed_bytes": self._pool.drain()}

    def counters(self) -> Mapping[str, int]:
        """What the driver counts, from 0."""
        zeros = dict.fromkeys(("begins", "ends", "failed", "colds"), 0)
        return zeros | dict(self._driver.counts)

    def outputs(self) -> Sequence[Output]:
        """The logits of every pass of the last draft; nothing after other verbs."""
        if self._last is None:
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
        self._tenant.leave()
        self._driver.close()
        self._model.close()
        self._pool.drain()
        self._persistent.drain()
        self._backend.stream_destroy(self._stream)
        if isinstance(self._faulty, ForkingDevice):
            self._faulty.dismiss()

    def _batch(self, requests: int) -> Batch:
        from capturegate_reference.inputs import Batch, Entry

        columns = self._sizes.columns
        entries = tuple(
            Entry(
                tokens=((7 * position + 3 + line) % self._sizes.vocab,),
                position=position,
                pages=tuple(1 + line * columns + column for column in range(columns)),
            )
            for line, position in enumerate(self._positions[:requests])
        )
        return Batch(entries=entries, columns=columns)

    def _likeliest(self, drafted: Drafted, guesses: Sequence[Sequence[int]]) -> int:
        """How many guesses their own pass gave the highest score, by the logits that it kept."""
        import numpy as np

        backend, rows, found = self._backend, drafted.rows, 0
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
