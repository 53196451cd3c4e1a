"""What is kept by shape, the chunk driver that breaks at attention, and faulty devices."""

import pytest

from capturegate.backend import Backend, CaptureMode, CudaError, Outcome, StreamKind
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.chunk_adapter import ChunkAdapter
from capturegate_reference.churn import churn
from capturegate_reference.errors import ScratchRefused
from capturegate_reference.instruments import RetiledCaches
from capturegate_reference.shape_caches import (
    AlignTables,
    ReductionBuffer,
    ShapeCaches,
    ShapeKeyedScratch,
)
from reference_runs import Run


@pytest.fixture
def backend():
    return Backend(FakeDevice())


@pytest.fixture
def stream(backend):
    return backend.stream_create(StreamKind.NON_BLOCKING)


def test_a_shape_that_was_visited_is_served_in_a_capture_and_a_new_one_refused(backend, stream):
    scratch = ShapeKeyedScratch(backend, "attention-scratch")
    made = scratch.buffer((1, 6), 64, stream)
    backend.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    assert scratch.buffer((1, 6), 64, stream) is made
    before = backend.trace().events
    message = r"attention-scratch: there is no buffer for the shape \(2, 6\)"
    with pytest.raises(ScratchRefused, match=message):
        scratch.buffer((2, 6), 64, stream)
    asked = backend.trace().events[len(before) :]
    assert [event.api for event in asked] == ["cudaStreamIsCapturing"]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("attention-scratch", "attention-scratch: there is no buffer for the shape (16, 3)"),
        ("attention-stats", "attention-stats: there is no buffer for the shape (16, 3)"),
        ("norm-squares", "norm-squares: there is no buffer for the shape (16, 3)"),
        ("router-scores", "router-scores: there is no buffer for the shape (16, 3)"),
        ("expert-order", "expert-order: there is no buffer for the shape (16, 3)"),
        ("expert-offsets", "expert-offsets: there is no buffer for the shape (16, 3)"),
    ],
)
def test_each_of_six_siblings_refuses_a_new_shape_under_its_own_name(
    backend, stream, name, refusal
):
    caches = RetiledCaches(backend, ShapeCaches(backend), name)
    kept = caches.scratch(name, (2, 3), stream)
    backend.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    other = "norm-squares" if name != "norm-squares" else "router-scores"
    with pytest.raises(ScratchRefused) as refused:
        caches.scratch(name, (2, 3), stream)
    assert str(refused.value).startswith(refusal + ", and none may be made while the stream")
    assert refused.value.scratch == name
    caches.rows = 1
    assert caches.scratch(name, (2, 3), stream) == kept
    caches.rows, caches.retiled = 16, ""
    assert caches.scratch(name, (2, 3), stream) == kept
    with pytest.raises(ScratchRefused, match=other):
        caches.scratch(other, (2, 3), stream)
    backend.raw.stream_end_capture(stream)
    apis = [event.api for event in backend.trace().events]
    assert apis.count("cudaMalloc") == 1
    caches.close()
    assert [e.api for e in backend.trace().events].count("cudaFree") == 1


def test_siblings_share_no_memory_and_a_key_is_more_than_a_shape(backend, stream):
    caches = ShapeCaches(backend)
    arrays = [
        caches.scratch("attention-scratch", (2, 3), stream),
        caches.scratch("attention-stats", (2, 3), stream),
        caches.scratch("attention-scratch", (2, 3), stream, also=(4,)),
        caches.scratch("attention-scratch", (3, 2), stream),
    ]
    assert len({array.pointer.allocation for array in arrays}) == 4
    assert caches.scratch("attention-scratch", (2, 3), stream, also=(4,)) == arrays[2]
    caches.close()


def test_a_pass_of_the_expert_model_asks_all_six_siblings_and_a_dense_one_three():
    keys = {}
    for model in ("dense", "moe"):
        run = Run(model=model, layers=1)
        run.step()
        siblings = run.adapter._engine.model.caches._caches._siblings
        keys[model] = [name for name, sibling in siblings.items() if sibling._buffers]
        run.close()
    assert keys == {
        "dense": ["attention-scratch", "attention-stats", "norm-squares"],
        "moe": [
            "attention-scratch",
            "attention-stats",
            "norm-squares",
            "router-scores",
            "expert-order",
            "expert-offsets",
        ],
    }


def test_an_align_table_waits_on_a_miss_and_says_nothing_on_a_hit(backend, stream):
    align = AlignTables(backend)
    table = align.table(3, stream)
    assert backend.harness_read(table.pointer, 12) == bytes(12)
    before = backend.recorder.count
    assert align.table(3, stream) is table
    assert before == backend.recorder.count
    assert [event.api for event in backend.trace().events][1:4] == [
        "cudaMalloc",
        "cudaMemsetAsync",
        "cudaStreamSynchronize",
    ]
    align.close()


def test_an_align_table_in_a_capture_is_lost_with_it(backend, stream):
    align = AlignTables(backend)
    backend.stream_begin_capture(stream, CaptureMode.RELAXED)
    with pytest.raises(CudaError, match="cudaStreamSynchronize"):
        align.table(3, stream)
    backend.raw.stream_end_capture(stream)
    assert backend.harness_read(align.table(3, stream).pointer, 12) == bytes(12)
    align.close()


def test_a_reduction_buffer_grows_and_keeps_what_it_has_outgrown(backend, stream):
    buffer = ReductionBuffer(backend)
    small = buffer.room(64, stream)
    assert buffer.room(32, stream) is small
    large = buffer.room(128, stream)
    assert large.allocation != small.allocation
    backend.stream_synchronize(stream)
    backend.harness_write(small, b"\x01" * 64)
    assert backend.harness_read(small, 64) == b"\x01" * 64
    buffer.close()
    freed = [event.allocation for event in backend.trace().events if event.api == "cudaFree"]
    assert freed == [small.allocation, large.allocation]


def test_a_reduction_buffer_that_is_refused_its_growth_keeps_what_it_has(monkeypatch):
    device = FakeDevice()
    backend = Backend(device)
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    buffer = ReductionBuffer(backend)
    small = buffer.room(64, stream)
    with monkeypatch.context() as patch:
        patch.setattr(device, "malloc_async", lambda *_: Outcome("cudaErrorMemoryAllocation"))
        for _ in range(2):
            with pytest.raises(CudaError, match="cudaMallocAsync"):
                buffer.room(128, stream)
    assert buffer.room(64, stream) is small
    large = buffer.room(128, stream)
    buffer.close()
    freed = [event.allocation for event in backend.trace().events if event.api == "cudaFree"]
    assert [small.allocation, large.allocation] == freed


def test_a_reduction_buffer_in_a_capture_becomes_a_node_of_the_graph(backend, stream):
    backend.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    ReductionBuffer(backend).room(64, stream)
    graph = backend.stream_end_capture(stream)
    assert [node.kind for node in backend.graph_get_nodes(graph)] == ["mem_alloc"]


@pytest.mark.parametrize("model", ["dense", "moe"])
def test_a_tapped_layer_is_the_residual_stream_after_it(model):
    subject, oracle = Run(model=model), Run(model=model, oracle=True)
    for run in (subject, oracle):
        run.adapter.tap(layer=0)
        run.adapter.tap(layer=1)
    seen = set()
    for _ in range(4):
        found = []
        for run in (subject, oracle):
            run.step()
            outputs = {output.name: output for output in run.adapter.outputs()}
            assert list(outputs) == ["logits", "tap-0", "tap-1"]
            taps = [outputs[name] for name in ("tap-0", "tap-1")]
            found.append([run.backend.harness_read(t.pointer, t.row_bytes) for t in taps])
        assert found[0] == found[1]
        seen.update(found[0])
    assert len(seen) == 8
    subject.close()
    oracle.close()


def test_declined_steps_hand_out_taps_too():
    run = Run(decode_graph=False)
    run.adapter.tap(layer=0)
    assert run.step()["state"] == "eager"
    assert [output.name for output in run.adapter.outputs()] == ["logits", "tap-0"]
    run.adapter.untap()
    assert run.adapter.outputs() == ()
    run.close()
    assert run.adapter._engine._parts.persistent.figures.live == 0


class Chunks:
    def __init__(self, oracle=False, **config):
        self.backend = Backend(FakeDevice())
        defaults = {key: default for key, (_, default) in ChunkAdapter.config_keys.items()}
        self.adapter = ChunkAdapter(self.backend, defaults | config, oracle=oracle)

    def chunk(self, **how):
        told = self.adapter.chunk(**how)
        (output,) = self.adapter.outputs()
        return told, self.backend.harness_read(output.pointer, output.rows * output.row_bytes)


@pytest.mark.parametrize("mode", ["piecewise", "full"])
@pytest.mark.parametrize("model", ["dense", "moe"])
def test_chunks_compute_what_eager_chunks_compute(model, mode):
    subject, oracle = Chunks(model=model, mode=mode), Chunks(model=model, mode=mode, oracle=True)
    states = []
    for tokens in (8, 8, 8, 5, 8):
        (told, mine), (_, theirs) = (run.chunk(tokens=tokens) for run in (subject, oracle))
        assert theirs == mine
        states.append(told["state"])
    assert states == ["cold", "capture", "replay", "replay", "replay"]
    assert subject.adapter._driver.graph.segments == (3 if mode == "piecewise" else 1)
    subject.adapter.close()
    oracle.adapter.close()
    for run in (subject, oracle):
        events = run.backend.trace().events
        made = [e.allocation for e in events if e.allocates]
        freed = [e.allocation for e in events if e.api in ("cudaFree", "cudaFreeHost")]
        assert sorted(made) == sorted(freed)


def test_a_chunk_capture_that_fails_starts_anew(monkeypatch):
    run = Chunks()
    run.chunk()
    run.adapter.drain()
    pool = type(run.adapter.rig.pool)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "pre_grow_for_capture", lambda *_: 0)
        with pytest.raises(CudaError, match="cudaMalloc"):
            run.adapter.chunk()
    assert [run.chunk()[0]["state"] for _ in range(3)] == ["cold", "capture", "replay"]
    run.adapter.close()


def test_the_pool_stands_eight_threads_in_every_order_and_the_order_is_the_seeds():
    told = [churn(Backend(FakeDevice()), threads=8, rounds=4, seed=seed) for seed in (1, 1, 2)]
    assert [(t.gets, t.served, t.handed_out_twice, t.lost_bytes, t.failures) for t in told] == [
        (32, 32, 0, 0, 0)
    ] * 3
    assert told[0].order == told[1].order
    assert told[0].order != told[2].order
    assert set(told[0].order) == set(range(8))
