"""Greedy sampling: the most likely token of each real row, read back by the host."""

from __future__ import annotations

import numpy as np

from capturegate.backend import Backend, Pointer, Stream
from capturegate_reference.kernels import ARGMAX
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.slots import Logits


class Sampler:
    """Reads tokens back. Its own memory grows with the largest step and is kept."""

    def __init__(self, backend: Backend, pool: DevicePool, vocab: int) -> None:
        self._backend = backend
        self._pool = pool
        self._vocab = vocab
        self._block: Block | None = None
        self._host: Pointer | None = None

    def sample(self, logits: Logits, stream: Stream) -> list[int]:
        """The tokens of the real rows; waits for the stream."""
        block, host = self._room(4 * logits.rows)
        picked = block.pointer.array((logits.rows,), "int32")
        scores = logits.pointer.array((logits.rows, self._vocab))
        backend = self._backend
        backend.launch(ARGMAX, (scores, picked, self._vocab, logits.rows), stream, logits.rows)
        backend.memcpy_async(host, block.pointer, picked.nbytes, stream)
        backend.stream_synchronize(stream)
        tokens: list[int] = np.frombuffer(backend.host_read(host, picked.nbytes), np.int32).tolist()
        return tokens

    def close(self) -> None:
        """Give the memory back."""
        if self._block is not None:
            self._pool.put(self._block)
        if self._host is not None:
            self._backend.free_host(self._host)
        self._block = self._host = None

    def _room(self, nbytes: int) -> tuple[Block, Pointer]:
        if self._block is None or self._host is None or self._host.nbytes < nbytes:
            self.close()
            self._block = self._pool.get(nbytes)
            self._host = self._backend.malloc_host(nbytes)
        return self._block, self._host
