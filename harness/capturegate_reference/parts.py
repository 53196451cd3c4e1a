"""What every engine is built around: a model on a stream of its own, and its pools."""

from __future__ import annotations

from capturegate.backend import Backend, StreamKind
from capturegate_reference.decode import DecodeConfig, DecodeDriver
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.sizes import ModelSizes


class Parts:
    """One model with its stream and its pools. Whoever drives it closes the drivers first.

    Attributes:
        stream: what everything is submitted to.
        pool: transient scratch.
        persistent: what lives longer than a step: weights, pages, retained outputs.
        model: the forward pass.
    """

    def __init__(self, backend: Backend, sizes: ModelSizes, *, pages: int, seed: int = 0) -> None:
        self._backend = backend
        self._pools: list[DevicePool] = []
        self.stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.pool = self.new_pool("main")
        self.persistent = self.new_pool("persistent")
        self.model = Model(
            backend, sizes, pool=self.pool, persistent=self.persistent, pages=pages, seed=seed
        )

    def new_pool(self, name: str) -> DevicePool:
        """A pool for users whose scratch is to stay apart."""
        self._pools.append(DevicePool(self._backend, name))
        return self._pools[-1]

    def decode_driver(self, config: DecodeConfig) -> DecodeDriver:
        """The driver of the model's decode steps, with a pool for its rings."""
        return DecodeDriver(
            self._backend,
            self.model,
            config,
            stream=self.stream,
            pool=self.pool,
            persistent=self.persistent,
            ring=self.new_pool("ring"),
        )

    def close(self) -> None:
        """Let go of the model, then of the blocks that are left, then of the stream."""
        self.model.close()
        for pool in self._pools:
            pool.drain()
        self._backend.stream_destroy(self.stream)
