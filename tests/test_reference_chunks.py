"""Chunks that are refused, declined, or not captured; the rest of them is told by scenarios."""

import numpy as np
import pytest

from capturegate.backend import Backend, StreamKind
from capturegate.gates.nothing_left import lives
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.breakable import GraphMode
from capturegate_reference.chunk import ChunkConfig, ChunkDriver
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Batch, Entry
from capturegate_reference.instruments import InertDevice
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.sizes import ModelSizes

COLUMNS = 4


class Chunks:
    """A chunk driver on a fresh device."""

    def __init__(self, device=None, **config):
        self.backend = backend = Backend(device or FakeDevice())
        self.stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.pool, self.persistent = DevicePool(backend, "main"), DevicePool(backend, "kept")
        self.model = Model(
            backend,
            ModelSizes(layers=2, columns=COLUMNS),
            pool=self.pool,
            persistent=self.persistent,
            pages=1 + COLUMNS,
            seed=0,
        )
        self.driver = ChunkDriver(
            backend,
            self.model,
            ChunkConfig(**config),
            stream=self.stream,
            pool=self.pool,
            persistent=self.persistent,
            columns=COLUMNS,
        )

    def __call__(self, position, rows=8, requests=1):
        entry = Entry(
            tokens=tuple((7 * place + 3) % 50 for place in range(position, position + rows)),
            position=position,
            pages=tuple(range(1, 1 + COLUMNS)),
        )
        return self.driver.step(Batch(entries=(entry,) * requests, columns=COLUMNS))

    def logits(self, rows=8):
        self.backend.stream_synchronize(self.stream)
        kept = self.driver.logits
        data = self.backend.harness_read(kept.pointer, 4 * rows * kept.shape[1])
        return np.frombuffer(data, np.float32)

    def close(self):
        self.driver.close()
        self.model.close()
        self.pool.drain()
        self.persistent.drain()
        self.backend.stream_destroy(self.stream)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"rows": 9}, "a chunk of 9 tokens is longer than the 8 of the driver"),
        ({"requests": 2, "rows": 2}, "one request's, and this one has 2 requests"),
        ({"requests": 0}, "one request's, and this one has 0 requests"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused_before_any_call(how, message):
    run = Chunks()
    before = run.backend.recorder.count
    with pytest.raises(EngineError, match=message):
        run(0, **how)
    assert before == run.backend.recorder.count
    assert "cold" == run(0).state
    run.close()


@pytest.mark.parametrize("mode", GraphMode)
def test_on_a_device_that_captures_nothing_chunks_just_run(mode):
    run, oracle = Chunks(InertDevice(FakeDevice()), mode=mode), Chunks(mode=mode, always_cold=True)
    states, seen = [], set()
    for position in range(0, 32, 8):
        states.append(str(run(position).state))
        oracle(position)
        assert oracle.logits().tobytes() == run.logits().tobytes()
        seen.add(run.logits().tobytes())
    assert ["cold", "inert", "cold", "inert"] == states
    assert 4 == len(seen)
    counts = run.driver.counts
    assert (2, 0, 2) == (counts["inert"], counts["failed"], counts["cold_steps"])
    assert ("new", 0) == (run.driver.graph.state, run.driver.graph.segments)
    run.close()
    assert [] == lives(run.backend.trace())[1]


def test_a_chunk_whose_later_segment_is_inert_has_failed():
    run = Chunks(InertDevice(FakeDevice(), captures=1))
    run(0)
    with pytest.raises(EngineError, match="inert behind segments"):
        run(8)
    assert (1, 0) == (run.driver.counts["failed"], run.driver.counts["inert"])
    assert "cold" == run(8).state
    run.close()
    assert [] == lives(run.backend.trace())[1]


def test_under_bypass_a_chunk_is_declined_and_counted(monkeypatch):
    monkeypatch.setattr("capturegate_reference.pool.pool_bypassed", lambda: True)
    run = Chunks()
    for position in (0, 8, 16):
        told = run(position)
        assert ("eager", "bypass") == (told.state, told.reason)
    counts = run.driver.counts
    assert (3, 3, 3, 0) == tuple(
        counts[name] for name in ("declined", "declined.bypass", "eager_steps", "cold_steps")
    )
    assert 0 == len(run.backend.trace().windows)
    run.close()
