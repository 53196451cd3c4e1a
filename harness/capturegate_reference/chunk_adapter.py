"""What chunked prefill shows to scenarios. The engine is imported when an adapter is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, CaptureMode, Pointer, StreamKind
from capturegate_reference.configuration import choice
from capturegate_reference.instruments import FAULTS, ForkingDevice, refuse, retried
from capturegate_reference.pool_adapter import pool_bypassed
from capturegate_reference.tenant import Tenant

if TYPE_CHECKING:
    from capturegate_reference.slots import StepResult

PAGES = 4


class ChunkAdapter:
    """One request whose prompt comes in chunks; every chunk continues where the last one ended."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "mode": (str, "piecewise"),
        "capture_mode": (str, "thread_local"),
        "chunk_tokens": (int, 8),
        "fault": (str, "none"),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = {
        "pool.bypassed": lambda: pool_bypassed()
    }
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.breakable import GraphMode
        from capturegate_reference.chunk import ChunkConfig, ChunkDriver
        from capturegate_reference.model import Model
        from capturegate_reference.pool import DevicePool
        from capturegate_reference.sizes import ModelSizes

        fault = choice("fault", config, FAULTS)
        self._faulty = fault(backend.device) if fault is not None else None
        if self._faulty is not None:
            backend = Backend(self._faulty, backend.recorder)
        sizes = ModelSizes(kind=config["model"], columns=PAGES)
        self._vocab = sizes.vocab
        self._backend = backend
        self._stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self._pool = DevicePool(backend, "main")
        self._persistent = DevicePool(backend, "persistent")
        self._model = Model(
            backend,
            sizes,
            pool=self._pool,
            persistent=self._persistent,
            pages=1 + PAGES,
            seed=0,
        )
        modes = {mode.value: mode for mode in GraphMode}
        captures = {mode.value: mode for mode in CaptureMode}
        self._config = ChunkConfig(
            tokens=config["chunk_tokens"],
            mode=choice("mode", config, modes),
            capture_mode=choice("capture_mode", config, captures),
            always_cold=oracle,
        )
        self._driver = ChunkDriver(
            backend,
            self._model,
            self._config,
            stream=self._stream,
            pool=self._pool,
            persistent=self._persistent,
            columns=PAGES,
        )
        self._tenant = Tenant(backend, self._pool)
        self._position = 0
        self._last: StepResult | None = None

    @verb
    def chunk(self, tokens: int = 0) -> Facts:
        """Run the next chunk, as long as it goes unless a scenario says how long."""
        from capturegate_reference.inputs import Batch, Entry

        count = tokens or self._config.tokens
        start = self._position
        prompt = tuple((7 * place + 3) % self._vocab for place in range(start, start + count))
        entry = Entry(tokens=prompt, position=start, pages=tuple(range(1, 1 + PAGES)))
        before = dict(self._driver.graph.counts)
        self._last = self._driver.step(Batch(entries=(entry,), columns=PAGES))
        self._backend.stream_synchronize(self._stream)
        self._position += count
        graph = self._driver.graph
        return {
            "state": str(self._last.state),
            "rows": self._last.logits.rows,
            "segments": graph.segments,
            "breaks": graph.counts["breaks"] - before.get("breaks", 0),
        }

    @verb
    def retried_chunk(self, attempts: int = 2) -> Facts:
        """Run the next chunk, and again for as long as it is refused and attempts are left."""
        return retried(self.chunk, attempts)

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
    def drain(self) -> Facts:
        """Give all free scratch to the driver."""
        self._last = None
        return {"freed_bytes": self._pool.drain()}

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

    def counters(self) -> Mapping[str, int]:
        """What the driver, its container and its input cell count."""
        zeros = dict.fromkeys(("begins", "ends", "failed", "host_refreshes"), 0)
        driver = self._driver
        return zeros | driver.counts | driver.graph.counts | driver.cell.counts

    def outputs(self) -> Sequence[Output]:
        """The logits of the last chunk; nothing after other verbs."""
        if self._last is None:
            return ()
        logits = self._last.logits
        return (
            Output(
                name="logits",
                pointer=logits.pointer,
                row_bytes=4 * self._vocab,
                rows=logits.rows,
                rows_padded=logits.rows_padded,
            ),
        )

    def buffers(self) -> Sequence[Pointer]:
        """The kept logits."""
        logits = self._driver.logits
        return (logits.pointer.at(0, logits.nbytes),)

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
