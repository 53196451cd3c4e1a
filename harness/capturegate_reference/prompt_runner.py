"""Prompt passes: a prompt in parts, each run through the graph cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from capturegate.backend import Array, Backend, Stream
from capturegate_reference.inputs import (
    Batch,
    Entry,
    HostVectors,
    StepInputs,
    StepShape,
    pack,
    take_inputs,
)
from capturegate_reference.model import Model
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.prompt_cache import PromptGraphCache
from capturegate_reference.prompt_graph import Observation, prompt_nodes
from capturegate_reference.scratch import scope
from capturegate_reference.sizes import ModelSizes
from capturegate_reference.slots import Logits


class Part(NamedTuple):
    """Some of a prompt's tokens in a row.

    `position` is where the first one stands, `source` where they lie in host memory, and `last`
    says whether the prompt ends with them.
    """

    tokens: tuple[int, ...]
    position: int
    source: int
    last: bool


class PromptText:
    """A request's tokens in host memory of its own, wherever that happens to be."""

    def __init__(self, backend: Backend, tokens: Sequence[int]) -> None:
        self.length = len(tokens)
        self._backend = backend
        self._pointer = backend.pageable(4 * self.length)
        backend.host_write(self._pointer, np.array(tokens, np.int32).tobytes())

    def parts(self, start: int, part_tokens: int) -> Iterator[Part]:
        """The tokens from a position on, at most so many at a time.

        Raises:
            ValueError: there are none.
        """
        if start >= self.length:
            raise ValueError(f"a prompt of {self.length} tokens has none from {start} on")
        for begin in range(start, self.length, part_tokens):
            end = min(begin + part_tokens, self.length)
            at = self._pointer.at(4 * begin)
            data = self._backend.host_read(at, 4 * (end - begin))
            tokens = tuple(int(token) for token in np.frombuffer(data, np.int32))
            yield Part(tokens, begin, at.address, end == self.length)


class PromptRoom:
    """The persistent memory of prompt passes, for up to so many rows.

    Every pass uses the beginning of it, so the addresses that passes of one shape bake stay the
    same until a longer part needs more room.

    Attributes:
        logits: one row of scores for each token.
        tap: the residual stream that a tapped pass leaves.
    """

    def __init__(self, backend: Backend, pool: DevicePool, sizes: ModelSizes, rows: int) -> None:
        self._blocks: list[Block] = []
        self._pool = pool
        self._sizes = sizes
        self.rows = rows
        shape = StepShape(requests=1, rows=rows, columns=sizes.columns)
        self.host = HostVectors(backend, shape.nbytes)
        with ExitStack() as undo:
            undo.callback(self.close)
            self._inputs = take_inputs(self._take, shape, sizes.half)
            self._hidden = self._take((rows, sizes.hidden), "float32")
            self.logits = self._take((rows, sizes.vocab), "float32")
            self.tap = self._take((rows, sizes.hidden), "float32")
            undo.pop_all()

    @property
    def addresses(self) -> tuple[int, ...]:
        """Everything that a pass bakes of this room."""
        return (self.host.address, *(block.pointer.address for block in self._blocks))

    def inputs(self, rows: int) -> StepInputs:
        """The inputs of a pass."""
        large = self._inputs
        return StepInputs(
            tokens=_first(large.tokens, rows),
            positions=_first(large.positions, rows),
            slots=_first(large.slots, rows),
            lengths=_first(large.lengths, rows),
            requests=_first(large.requests, rows),
            tables=large.tables,
            cos=_first(large.cos, rows),
            sin=_first(large.sin, rows),
        )

    def hidden(self, rows: int) -> Array:
        """The residual stream of a pass."""
        return _first(self._hidden, rows)

    def scores(self, rows: int) -> Array:
        """The logits of a pass."""
        return _first(self.logits, rows)

    def close(self) -> None:
        """Give everything back."""
        for block in self._blocks:
            self._pool.put(block)
        self._blocks.clear()
        self.host.close()

    def _take(self, extents: tuple[int, ...], dtype: str) -> Array:
        block = self._pool.get(4 * math.prod(extents))
        self._blocks.append(block)
        return block.pointer.array(extents, dtype)


class PromptRunner:
    """Runs prompts part by part.

    Attributes:
        cache: the graphs of parts that were run before.
        scratch: the pool that passes take from.
        room: persistent memory as large as the longest part so far; None before the first.
        parts: how many parts ran.
        tapped: whether the coming passes leave their residual stream.
    """

    def __init__(
        self,
        backend: Backend,
        model: Model,
        cache: PromptGraphCache,
        *,
        stream: Stream,
        scratch: DevicePool,
        persistent: DevicePool,
        part_tokens: int,
    ) -> None:
        self.cache = cache
        self.scratch = scratch
        self.room: PromptRoom | None = None
        self.parts = 0
        self.tapped = False
        self._backend = backend
        self._model = model
        self._stream = stream
        self._persistent = persistent
        self._part_tokens = part_tokens

    @property
    def counts(self) -> Mapping[str, int]:
        """How many parts ran, and what the cache counts."""
        cache = {f"prompt.{name}": count for name, count in self.cache.counts.items()}
        return cache | {"prompt.parts": self.parts}

    @property
    def kept(self) -> tuple[Array, ...]:
        """The logits that coming replays may write."""
        return (self.room.logits,) if self.room is not None else ()

    def run(self, text: PromptText, pages: tuple[int, ...], start: int = 0) -> Logits:
        """Fill the pages from a position on; the logits of the last part, one row a token."""
        for part in text.parts(start, self._part_tokens):
            logits = self._run_part(part, pages)
        return logits

    def release(self) -> None:
        """Let go of every graph."""
        self.cache.release()

    def close(self) -> None:
        """Drop the graphs, then what they write to."""
        self.cache.close()
        if self.room is not None:
            self.room.close()
            self.room = None

    def _run_part(self, part: Part, pages: tuple[int, ...]) -> Logits:
        sizes, rows, tapped = self._model.sizes, len(part.tokens), self.tapped
        room = self._room(rows)
        shape = StepShape(requests=1, rows=rows, columns=sizes.columns)
        entry = Entry(tokens=part.tokens, position=part.position, pages=pages)
        batch = Batch(entries=(entry,), columns=sizes.columns)
        room.host.refresh(pack(batch, shape, sizes.page_tokens))
        inputs, hidden = room.inputs(rows), room.hidden(rows)

        def work() -> None:
            with scope(self.scratch):
                self._model.upload(room.host, inputs, self._stream)
                scores = room.scores(rows) if part.last else None
                self._model.forward(inputs, hidden, scores, self._stream)
                if tapped:
                    self._backend.memcpy_async(
                        room.tap.pointer, hidden.pointer, hidden.nbytes, self._stream
                    )

        observation = Observation(
            nodes=prompt_nodes(sizes, rows, logits=part.last, tap=tapped),
            properties=room.addresses,
            source=part.source,
        )
        with room.host.read_by(self._stream):
            self.cache.run(observation, work)
        self.parts += 1
        return Logits(pointer=room.logits.pointer, rows=rows, rows_padded=rows)

    def _room(self, rows: int) -> PromptRoom:
        room = self.room
        if room is None or room.rows < rows:
            # A room that is refused leaves the old one whole.
            self.room = PromptRoom(self._backend, self._persistent, self._model.sizes, rows)
            if room is not None:
                room.close()
            room = self.room
        return room


def _first(array: Array, rows: int) -> Array:
    return Array(array.pointer, (rows, *array.shape[1:]), array.dtype)
