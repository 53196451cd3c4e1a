"""What chunked prefill shows to scenarios. The engine is imported when an adapter is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference import rig
from capturegate_reference.configuration import at_least, capture_mode, choice
from capturegate_reference.instruments import retried
from capturegate_reference.pool_adapter import PREDICATES

if TYPE_CHECKING:
    from capturegate_reference.slots import StepResult

PAGES = 4
_COUNTERS = ("begins", "ends", "failed", "inert", "declined", "declined.bypass", "host_refreshes")


class ChunkAdapter:
    """One request whose prompt comes in chunks; every chunk continues where the last one ended."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        **rig.RIG_KEYS,
        "model": (str, "dense"),
        "mode": (str, "piecewise"),
        "chunk_tokens": (int, 8),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    ask_tenant = rig.ask_tenant
    drain = rig.drain
    refuse = rig.refuse
    retile = rig.retile
    seat_tenant = rig.seat_tenant

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.breakable import GraphMode
        from capturegate_reference.chunk import ChunkConfig, ChunkDriver
        from capturegate_reference.parts import Parts
        from capturegate_reference.sizes import ModelSizes

        sizes = ModelSizes(kind=config["model"], columns=PAGES)
        self._context = sizes.context_tokens
        self._pages = sizes.pages_of(0)
        at_least("chunk_tokens", config, 1, self._context)
        self.rig = rig.Rig(backend, config)
        self._vocab = sizes.vocab
        self._parts = parts = Parts(self.rig.backend, sizes, pages=1 + PAGES)
        self._config = ChunkConfig(
            tokens=config["chunk_tokens"],
            mode=choice("mode", config, {mode.value: mode for mode in GraphMode}),
            capture_mode=capture_mode(config),
            always_cold=oracle,
        )
        self._driver = ChunkDriver(
            self.rig.backend,
            parts.model,
            self._config,
            stream=parts.stream,
            pool=parts.pool,
            persistent=parts.persistent,
            columns=PAGES,
        )
        self.rig.watch(parts.pool, parts.model)
        self._position = 0
        self._last: StepResult | None = None

    @verb
    def chunk(self, tokens: int = 0) -> Facts:
        """Run the next chunk, as long as it goes unless a scenario says how long."""
        from capturegate_reference.inputs import Batch, Entry

        at_least("tokens", {"tokens": tokens}, 0)
        count = tokens or self._config.tokens
        start = self._position
        if start + count > self._context:
            raise InputError(
                f"a chunk of {count} tokens from position {start} on does not fit {self._context}",
                expected=f"at most {self._context - start} tokens, the rest of the context",
            )
        prompt = tuple((7 * place + 3) % self._vocab for place in range(start, start + count))
        entry = Entry(tokens=prompt, position=start, pages=self._pages)
        before = dict(self._driver.graph.counts)
        self._last = self._driver.step(Batch(entries=(entry,), columns=PAGES))
        self.rig.backend.stream_synchronize(self._parts.stream)
        self._position += count
        self.rig.shows = True
        graph = self._driver.graph
        return {
            "state": str(self._last.state),
            "reason": self._last.reason,
            "rows": self._last.logits.rows,
            "segments": graph.segments,
            "breaks": graph.counts["breaks"] - before.get("breaks", 0),
        }

    @verb
    def retried_chunk(self, attempts: int = 2) -> Facts:
        """Run the next chunk, and again for as long as it is refused and attempts are left."""
        return retried(self.chunk, attempts)

    def counters(self) -> Mapping[str, int]:
        """What the driver, its container and its input cell count."""
        zeros = dict.fromkeys(_COUNTERS, 0)
        driver = self._driver
        return zeros | driver.counts | driver.graph.counts | driver.cell.counts

    def outputs(self) -> Sequence[Output]:
        """The logits of the last chunk; nothing after other verbs."""
        if self._last is None or not self.rig.shows:
            return ()
        return (rig.output("logits", self._last.logits, self._vocab),)

    def buffers(self) -> Sequence[Pointer]:
        """The kept logits."""
        logits = self._driver.logits
        return (logits.pointer.at(0, logits.nbytes),)

    def close(self) -> None:
        """Let go of everything."""
        self.rig.close(self._driver.close, self._parts.close)
