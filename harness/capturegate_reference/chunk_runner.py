"""Prompt passes in chunks of one fixed length, each run through the chunk driver."""

from __future__ import annotations

from collections.abc import Mapping

from capturegate.backend import Array
from capturegate_reference.chunk import ChunkConfig, ChunkDriver
from capturegate_reference.inputs import Batch, Entry
from capturegate_reference.prompt_runner import PromptText
from capturegate_reference.slots import Logits


class ChunkRunner:
    """Runs prompts chunk by chunk, with one container for all of them.

    Attributes:
        driver: the chunk driver.
    """

    def __init__(self, driver: ChunkDriver, config: ChunkConfig, *, columns: int) -> None:
        self.driver = driver
        self._chunk_tokens = config.tokens
        self._columns = columns

    @property
    def counts(self) -> Mapping[str, int]:
        """What the driver and its container count."""
        counts = self.driver.graph.counts | self.driver.counts
        return {f"chunk.{name}": count for name, count in counts.items()}

    @property
    def kept(self) -> tuple[Array, ...]:
        """The logits that coming replays may write."""
        return (self.driver.logits,)

    def run(self, text: PromptText, pages: tuple[int, ...], start: int = 0) -> Logits:
        """Fill the pages from a position on; the logits of the last chunk, one row a token."""
        for part in text.parts(start, self._chunk_tokens):
            entry = Entry(tokens=part.tokens, position=part.position, pages=pages)
            result = self.driver.step(Batch(entries=(entry,), columns=self._columns))
        return result.logits

    def release(self) -> None:
        """Nothing to let go of: there is one container, and chunks go on beside decode."""

    def close(self) -> None:
        """Drop the container, then what it writes to."""
        self.driver.close()
