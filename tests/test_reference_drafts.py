"""The draft driver: a graph that is built in pieces, and what is left of one that is not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from capturegate.backend import Backend, CaptureMode, CaptureStatus, CudaError, Stream, StreamKind
from capturegate.gates.base import Evidence
from capturegate.gates.capture_completes import CaptureCompletes
from capturegate.gates.driver_allocation import NoDriverAllocationInWindow
from capturegate.gates.nothing_left import lives
from capturegate.run.drive import trace_counters
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.adapters import DecodeAdapter
from capturegate_reference.captures import leaves
from capturegate_reference.chunk_adapter import ChunkAdapter
from capturegate_reference.draft_adapter import DraftAdapter
from capturegate_reference.draft_driver import DraftConfig, DraftDriver
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Batch, Entry
from capturegate_reference.instruments import FAULTS, InertDevice, refuse
from capturegate_reference.kernels import ADD
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.sizes import ModelSizes
from reference_runs import no_pre_grow

COLUMNS = 4


@dataclass(slots=True, kw_only=True)
class Rig:
    """A draft driver on a fresh fake device, with everything that it stands on."""

    backend: Backend
    stream: Stream
    pool: DevicePool
    persistent: DevicePool
    model: Model
    driver: DraftDriver

    def draft(self, *entries):
        """The guesses for (token, position) pairs, one a request."""
        batch = Batch(
            entries=tuple(
                Entry(
                    tokens=(token,),
                    position=position,
                    pages=tuple(range(1 + line * COLUMNS, 1 + (line + 1) * COLUMNS)),
                )
                for line, (token, position) in enumerate(entries)
            ),
            columns=COLUMNS,
        )
        self.last = self.driver.draft(batch)
        return self.driver.collect(self.last)

    def logits(self):
        """Those of the last draft, one array a pass."""
        rows = self.last.rows
        found = []
        for kept in self.last.slot.logits:
            data = self.backend.harness_read(kept.pointer, 4 * rows * kept.shape[1])
            found.append(np.frombuffer(data, np.float32).reshape(rows, -1))
        return found

    def close(self):
        self.driver.close()
        self.model.close()
        self.pool.drain()
        self.persistent.drain()
        self.backend.stream_destroy(self.stream)

    last: object = None


def rig_of(device=None, **config):
    backend = Backend(device or FakeDevice())
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    pool, persistent = DevicePool(backend, "draft"), DevicePool(backend, "persistent")
    model = Model(
        backend,
        ModelSizes(layers=1, columns=COLUMNS),
        pool=pool,
        persistent=persistent,
        pages=1 + 4 * COLUMNS,
        seed=1,
    )
    driver = DraftDriver(
        backend,
        model,
        DraftConfig(max_num_seqs=4, **config),
        stream=stream,
        pool=pool,
        persistent=persistent,
    )
    return Rig(
        backend=backend,
        stream=stream,
        pool=pool,
        persistent=persistent,
        model=model,
        driver=driver,
    )


def test_a_draft_is_what_passes_one_by_one_come_to():
    ahead, single = rig_of(tokens=3), rig_of(tokens=1)
    starts = [(5, 0), (9, 0), (40, 0), (77, 0)]
    drafts = []
    for token, position in starts:
        ((first, second, third),) = ahead.draft((token, position))
        alone = []
        for place, shown in enumerate((token, first, second)):
            ((guess,),) = single.draft((shown, position + place))
            alone.append(guess)
        assert alone == [first, second, third]
        drafts.append((first, second, third))
    assert "replay" == ahead.last.state
    assert len(set(drafts)) == 4


@pytest.mark.parametrize("requests", [1, 3])
def test_every_pass_of_a_replayed_draft_equals_the_eager_one(requests):
    subject, oracle = rig_of(tokens=3), rig_of(tokens=3, always_cold=True)
    seen = set()
    for position in range(6):
        entries = [(7 * position + 3 + line, position) for line in range(requests)]
        assert oracle.draft(*entries) == subject.draft(*entries)
        assert "cold" == oracle.last.state
        for expected, observed in zip(oracle.logits(), subject.logits(), strict=True):
            assert expected.tobytes() == observed.tobytes()
            assert np.isfinite(observed).all()
            seen.add(observed.tobytes())
    assert len(seen) == 18
    subject.close()
    oracle.close()


def test_a_draft_is_captured_in_pieces_and_launched_once():
    rig = rig_of(tokens=3)
    states = []
    for position in range(4):
        rig.draft((11 + position, position))
        states.append(str(rig.last.state))
    trace = rig.backend.trace()
    assert ["cold", "capture", "replay", "replay"] == states
    assert 3 == len(trace.windows)
    assert 1 == len({window.nodes for window in trace.windows})
    begins = [trace.events[window.begin].api for window in trace.windows]
    assert ["cudaStreamBeginCaptureToGraph"] * 3 == begins
    assert 3 == sum(event.api == "cudaGraphLaunch" for event in trace.events)
    assert 1 == sum(event.api == "cudaGraphInstantiate" for event in trace.events)
    graph = rig.last.slot.graph.graph
    assert 3 * trace.windows[0].nodes == len(rig.backend.graph_get_nodes(graph))
    assert 1 == len(leaves(rig.backend, graph))
    rig.close()


def test_batches_of_one_padded_size_share_a_graph():
    rig = rig_of(tokens=2)
    for position in range(2):
        rig.draft((5, position), (6, position), (7, position))
    rig.draft((5, 2), (6, 2), (7, 2), (8, 0))
    assert "replay" == rig.last.state
    assert [4] == list(rig.driver.slots)
    rig.draft((5, 3))
    assert "cold" == rig.last.state
    rig.close()


@pytest.mark.parametrize(
    ("fault", "number", "api"),
    [
        ("refused_begin", 1, "cudaStreamBeginCaptureToGraph"),
        ("refused_begin", 3, "cudaStreamBeginCaptureToGraph"),
        ("refused_close", 2, "cudaStreamEndCapture"),
        ("refused_executable", 1, "cudaGraphInstantiate"),
    ],
)
def test_a_capture_that_fails_leaves_nothing_and_the_next_drafts_recover(fault, number, api):
    faulty = FAULTS[fault](FakeDevice())
    rig = rig_of(device=faulty, tokens=3)
    rig.draft((5, 0))
    refuse(faulty, number)
    with pytest.raises(CudaError) as raised:
        rig.draft((6, 1))
    assert api == raised.value.api
    assert CaptureStatus.NONE is rig.backend.stream_is_capturing(rig.stream)
    states = []
    for position in range(1, 4):
        rig.draft((5 + position, position))
        states.append(str(rig.last.state))
    assert ["cold", "capture", "replay"] == states
    assert 1 == rig.driver.counts["failed"]
    rig.close()
    assert [] == lives(rig.backend.trace())[1]


def test_a_draft_on_a_device_that_captures_nothing_just_runs():
    rig, oracle = (
        rig_of(device=InertDevice(FakeDevice()), tokens=3),
        rig_of(tokens=3, always_cold=True),
    )
    states = []
    for position in range(4):
        entry = (7 * position + 5, position)
        assert oracle.draft(entry) == rig.draft(entry)
        states.append(str(rig.last.state))
        for expected, observed in zip(oracle.logits(), rig.logits(), strict=True):
            assert expected.tobytes() == observed.tobytes()
    assert ["cold", "inert", "cold", "inert"] == states
    counts = rig.driver.counts
    assert (2, 0, 0, 0) == tuple(counts[n] for n in ("inert", "failed", "begins", "ends"))
    assert 0 == len(rig.backend.trace().windows)
    rig.close()
    assert [] == lives(rig.backend.trace())[1]


def test_a_draft_whose_later_piece_is_inert_has_failed():
    rig = rig_of(device=InertDevice(FakeDevice(), captures=1), tokens=3)
    rig.draft((5, 0))
    with pytest.raises(EngineError, match="inert behind pieces"):
        rig.draft((6, 1))
    assert (1, 0) == (rig.driver.counts["failed"], rig.driver.counts["inert"])
    rig.draft((6, 1))
    assert "cold" == rig.last.state
    rig.close()
    assert [] == lives(rig.backend.trace())[1]


def test_a_draft_is_refused_that_is_too_wide_before_any_call():
    rig = rig_of(tokens=2)
    before = rig.backend.recorder.count
    with pytest.raises(EngineError, match="a draft of 5 requests is wider than the driver's 4"):
        rig.draft(*((token, 0) for token in range(5)))
    two_tokens = Batch(
        entries=(Entry(tokens=(1, 2), position=0, pages=(1, 2, 3, 4)),), columns=COLUMNS
    )
    with pytest.raises(EngineError, match="1 requests bring 2 tokens"):
        rig.driver.draft(two_tokens)
    assert (before, {}) == (rig.backend.recorder.count, rig.driver.slots)
    rig.close()


def test_under_bypass_a_draft_is_declined_and_counted(monkeypatch):
    monkeypatch.setattr("capturegate_reference.pool.pool_bypassed", lambda: True)
    rig = rig_of(tokens=2)
    for position in range(3):
        rig.draft((5, position))
        assert ("eager", "bypass") == (rig.last.state, rig.last.reason)
    counts = rig.driver.counts
    assert (3, 3, 3, 0) == tuple(
        counts[name] for name in ("declined", "declined.bypass", "eager_steps", "cold_steps")
    )
    assert 0 == len(rig.backend.trace().windows)
    rig.close()


@pytest.fixture
def backend():
    backend = Backend(FakeDevice())
    yield backend
    backend.close()


def add(backend, stream, block):
    array = block.array((4,))
    backend.launch(ADD, (array, array, 4), stream, 4)


@pytest.fixture
def block(backend):
    block = backend.malloc(16)
    backend.memset(block, 0, 16)
    return block


def test_the_leaves_of_a_graph_are_all_that_nothing_follows(backend, block):
    main = backend.stream_create(StreamKind.NON_BLOCKING)
    side = backend.stream_create(StreamKind.NON_BLOCKING)
    event, back = backend.event_create(), backend.event_create()
    backend.stream_begin_capture(main, CaptureMode.RELAXED)
    add(backend, main, block)
    backend.event_record(event, main)
    backend.stream_wait_event(side, event)
    add(backend, side, block)
    backend.event_record(back, side)
    backend.stream_wait_event(main, back)
    graph = backend.stream_end_capture(main)
    chained = leaves(backend, graph)
    assert 1 == len(chained)
    backend.stream_begin_capture_to_graph(main, graph, (), CaptureMode.RELAXED)
    add(backend, main, block)
    backend.stream_end_capture(main)
    both = leaves(backend, graph)
    assert 2 == len(both)
    assert set(chained) < set(both)
    assert () == leaves(backend, backend.graph_create())


def test_a_piece_that_records_nothing_is_seen_behind_full_ones(backend, block):
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    graph = backend.graph_create()
    backend.stream_begin_capture_to_graph(stream, graph, (), CaptureMode.RELAXED)
    add(backend, stream, block)
    backend.stream_end_capture(stream)
    behind = leaves(backend, graph)
    backend.stream_begin_capture_to_graph(stream, graph, behind, CaptureMode.RELAXED)
    backend.stream_end_capture(stream)
    trace = backend.trace()
    assert [1, 0] == [window.nodes for window in trace.windows]
    judged = CaptureCompletes().judge(Evidence(trace=trace, runs=()), {})
    assert "the capture recorded no node" == judged.reason


def test_a_lost_piece_takes_its_graph_along_and_a_finished_one_does_not(backend, block):
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    lost, kept = backend.graph_create(), backend.graph_create()
    backend.stream_begin_capture_to_graph(stream, kept, (), CaptureMode.THREAD_LOCAL)
    add(backend, stream, block)
    backend.stream_end_capture(stream)
    backend.stream_begin_capture_to_graph(stream, lost, (), CaptureMode.THREAD_LOCAL)
    assert "cudaErrorStreamCaptureUnsupported" == backend.raw.malloc(16).error
    assert not backend.raw.stream_end_capture(stream).ok
    graphs = [event.handle for kind, event in lives(backend.trace())[1] if kind == "graph"]
    assert kept.id in graphs
    assert lost.id not in graphs


@pytest.mark.parametrize(
    ("waits", "in_flight"), [("", 2), ("stream", 0), ("device", 0), ("other", 2)]
)
def test_work_that_nobody_waited_for_is_in_flight_when_a_capture_begins(
    backend, block, waits, in_flight
):
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    other = backend.stream_create(StreamKind.NON_BLOCKING)
    add(backend, stream, block)
    add(backend, stream, block)
    if waits == "device":
        backend.device_synchronize()
    elif waits:
        backend.stream_synchronize(stream if waits == "stream" else other)
    backend.stream_begin_capture(stream, CaptureMode.RELAXED)
    add(backend, stream, block)
    backend.stream_end_capture(stream)
    backend.stream_begin_capture(other, CaptureMode.RELAXED)
    add(backend, other, block)
    backend.stream_end_capture(other)
    assert in_flight == trace_counters(backend.trace().events)["in_flight_at_begin"]


@pytest.mark.parametrize(
    ("adapter", "verb", "config", "driver"),
    [
        (DecodeAdapter, "step", {"model": "dense"}, "decode:DecodeDriver._record"),
        (DecodeAdapter, "step", {"model": "moe"}, "decode:DecodeDriver._record"),
        (ChunkAdapter, "chunk", {}, "chunk:ChunkDriver._capture"),
        (DraftAdapter, "draft", {}, "draft_driver:DraftDriver._add_piece"),
    ],
)
def test_an_allocation_in_a_window_names_the_driver_that_opened_it(
    monkeypatch, adapter, verb, config, driver
):
    monkeypatch.setattr(DevicePool, "pre_grow_for_capture", no_pre_grow)
    backend = Backend(FakeDevice())
    defaults = {key: default for key, (_, default) in adapter.config_keys.items()}
    engine = adapter(backend, defaults | config | {"capture_mode": "relaxed"}, oracle=False)
    for label in (verb, "drain", verb):
        backend.recorder.phase = f"{len(backend.trace().events)}:{label}"
        getattr(engine, label)()
    trace = backend.trace(pool=True)
    judged = NoDriverAllocationInWindow().judge(Evidence(trace=trace, runs=()), {})
    assert "broken" == judged.verdict
    frames = [f"{frame.module}:{frame.function}" for frame in trace.stack(judged.witness[0])]
    assert f"capturegate_reference.{driver}" in frames
    engine.close()
