"""Step inputs: what the host tells the device about a step, on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from capturegate.backend import Array, Backend, CudaError, Event, Pointer, Stream

ITEM_BYTES = 4
NULL_PAGE = 0
"""The page that padding rows read and write; no request ever owns it."""

Take = Callable[[tuple[int, ...], str], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request's part of a step: its next tokens, where they stand, its pages."""

    tokens: tuple[int, ...]
    position: int
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One step's requests.

    Attributes:
        columns: how wide the block tables are.
        spec: whether tokens after the first are guesses.
        taps: layers whose output somebody wants to see.
    """

    entries: tuple[Entry, ...]
    columns: int
    spec: bool = False
    taps: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Tokens in all."""
        return sum(len(entry.tokens) for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """How large a step's inputs are, padding included."""

    requests: int
    rows: int
    columns: int

    @property
    def nbytes(self) -> int:
        """Size of the packed host vectors in bytes."""
        return ITEM_BYTES * (5 * self.rows + self.requests * self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """The inputs on the device.

    Attributes:
        tokens: ids, one a row.
        positions: where each row stands in its request.
        slots: where each row's keys and values are stored.
        lengths: how many keys each row attends to.
        requests: each row's line in `tables`.
        tables: pages of each request.
        cos: rotary factors of each row; `sin` likewise.
    """

    tokens: Array
    positions: Array
    slots: Array
    lengths: Array
    requests: Array
    tables: Array
    cos: Array
    sin: Array


def take_inputs(take: Take, shape: StepShape, half: int) -> StepInputs:
    """Room for a step's inputs, from wherever `take` gets it."""
    rows = (shape.rows,)
    return StepInputs(
        tokens=take(rows, "int32"),
        positions=take(rows, "int32"),
        slots=take(rows, "int32"),
        lengths=take(rows, "int32"),
        requests=take(rows, "int32"),
        tables=take((shape.requests, shape.columns), "int32"),
        cos=take((shape.rows, half), "float32"),
        sin=take((shape.rows, half), "float32"),
    )


def laid_out(at: Pointer, shape: StepShape, cos: Array, sin: Array) -> StepInputs:
    """A step's inputs where `pack`'s bytes were brought to."""
    rows = shape.rows
    tokens, positions, slots, lengths, requests = (
        at.at(ITEM_BYTES * rows * number).array((rows,), "int32") for number in range(5)
    )
    tables = at.at(ITEM_BYTES * 5 * rows).array((shape.requests, shape.columns), "int32")
    return StepInputs(
        tokens=tokens,
        positions=positions,
        slots=slots,
        lengths=lengths,
        requests=requests,
        tables=tables,
        cos=cos,
        sin=sin,
    )


def pack(batch: Batch, shape: StepShape, page_tokens: int) -> bytes:
    """The host vectors of a step, padded to a shape.

    A padding row is a first token of nobody: it lives in the null page and sees itself alone.
    """
    vectors = np.zeros((5, shape.rows), np.int32)
    tables = np.full((shape.requests, shape.columns), NULL_PAGE, np.int32)
    tokens, positions, slots, lengths, requests = vectors
    slots[:] = np.arange(shape.rows) % page_tokens
    lengths[:] = 1
    # Where there is a padding row, the last line belongs to a request that is padding.
    requests[:] = shape.requests - 1
    row = 0
    for line, entry in enumerate(batch.entries):
        own = slice(row, row + len(entry.tokens))
        standing = np.arange(entry.position, entry.position + len(entry.tokens))
        pages = np.array(entry.pages, np.int32)
        tables[line, : len(pages)] = pages[: shape.columns]
        tokens[own] = entry.tokens
        positions[own] = standing
        slots[own] = pages[standing // page_tokens] * page_tokens + standing % page_tokens
        lengths[own] = standing + 1
        requests[own] = line
        row = own.stop
    return vectors.tobytes() + tables.tobytes()


class HostVectors:
    """Pinned memory that a step's inputs are uploaded from, rewritten in place.

    A captured upload bakes this address, so it stays for as long as its graph does.
    """

    def __init__(self, backend: Backend, nbytes: int) -> None:
        self._backend = backend
        self._pointer = backend.malloc_host(nbytes)
        with ExitStack() as undo:
            undo.callback(backend.free_host, self._pointer)
            self._uploaded: Event = backend.event_create()
            undo.pop_all()

    @property
    def address(self) -> int:
        """Where they lie; captured uploads bake it."""
        return self._pointer.address

    @property
    def nbytes(self) -> int:
        """How many bytes fit."""
        return self._pointer.nbytes

    def refresh(self, data: bytes) -> None:
        """Write the next step's vectors, once the last upload has read the former ones."""
        self._backend.event_synchronize(self._uploaded)
        self._backend.host_write(self._pointer, data)

    def upload(self, inputs: StepInputs, stream: Stream) -> None:
        """Copy the vectors to the device, in the order in which `pack` laid them out."""
        at: Pointer = self._pointer
        for target in (
            inputs.tokens,
            inputs.positions,
            inputs.slots,
            inputs.lengths,
            inputs.requests,
            inputs.tables,
        ):
            self._backend.memcpy_async(target.pointer, at, target.nbytes, stream)
            at = at.at(target.nbytes)

    @contextmanager
    def read_by(self, stream: Stream) -> Iterator[None]:
        """Have what is submitted to a stream meanwhile read them, whatever becomes of it.

        Raises:
            CudaError: they could not be marked; what goes wrong within is raised first.
        """
        try:
            yield
        except BaseException:
            # What was submitted before it went wrong reads them all the same.
            with suppress(CudaError):
                self._mark(stream)
            raise
        self._mark(stream)

    def close(self) -> None:
        """Give the memory back."""
        self._backend.event_synchronize(self._uploaded)
        self._backend.event_destroy(self._uploaded)
        self._backend.free_host(self._pointer)

    def _mark(self, stream: Stream) -> None:
        self._backend.event_record(self._uploaded, stream)
