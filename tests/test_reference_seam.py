"""The graph container, the input cell and the arena, each by itself."""

import pytest

from capturegate.backend import Backend, CaptureMode, CudaError, StreamKind
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.arena import Arena
from capturegate_reference.breakable import BreakableGraph, GraphMode
from capturegate_reference.cells import InputCell
from capturegate_reference.errors import EngineError, SeamError
from capturegate_reference.instruments import InertDevice
from capturegate_reference.pool import DevicePool


class Bench:
    """A device with one stream and sixteen bytes that segments and breaks write to."""

    def __init__(self, device=None):
        self.backend = Backend(device or FakeDevice())
        self.stream = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.memory = self.backend.malloc(16)
        self.backend.memset(self.memory, 0, 16)

    def graph(self, mode=GraphMode.PIECEWISE):
        return BreakableGraph(
            self.backend, self.stream, mode=mode, capture_mode=CaptureMode.THREAD_LOCAL
        )

    def write(self, byte, stream=None):
        self.backend.memset_async(self.memory, byte, 16, stream or self.stream)

    def read(self):
        self.backend.stream_synchronize(self.stream)
        return self.backend.harness_read(self.memory, 16)[0]

    def calls(self):
        return self.backend.recorder.count


@pytest.fixture
def bench():
    return Bench()


@pytest.mark.parametrize("breaks", [0, 1, 3])
def test_there_is_one_segment_more_than_breaks(bench, breaks):
    graph = bench.graph()
    with graph.capture():
        for _ in range(breaks):
            bench.write(1)
            graph.break_here(lambda: None)
        bench.write(2)
    assert (graph.segments, graph.counts["breaks"]) == (breaks + 1, breaks)
    assert (graph.counts["begins"], graph.counts["ends"]) == (breaks + 1, breaks + 1)


def test_a_replay_interleaves_segments_and_breaks_and_a_capture_runs_neither(bench):
    graph, seen = bench.graph(), []
    with graph.capture():
        bench.write(1)
        graph.break_here(lambda: seen.append(bench.read()))
        bench.write(2)
        graph.break_here(lambda: seen.append(bench.read()))
        bench.write(3)
    assert ([], 0) == (seen, bench.read())
    for replays in (1, 2):
        graph.replay()
        assert ([1, 2] * replays, 3) == (seen, bench.read())
    assert graph.counts["replays"] == 2


def test_outside_a_capture_a_break_just_runs(bench):
    seen = []
    bench.graph(GraphMode.FULL).break_here(lambda: seen.append(1))
    assert seen == [1]


def test_a_whole_graph_refuses_a_break_before_any_call(bench):
    graph = bench.graph(GraphMode.FULL)
    with graph.capture():
        bench.write(1)
        before = bench.calls()
        with pytest.raises(SeamError, match="whole"):
            graph.break_here(lambda: None)
        assert before == bench.calls()
    assert graph.segments == 1


def test_nesting_and_reentry_are_refused_before_any_call(bench):
    outer, inner = bench.graph(), bench.graph()
    with outer.capture():
        bench.write(1)
        before = bench.calls()
        with pytest.raises(SeamError, match="inside another one"), inner.capture():
            pass
        with pytest.raises(SeamError, match="open cannot be captured again"), outer.capture():
            pass
        assert before == bench.calls()
    with pytest.raises(SeamError, match="closed cannot be captured again"), outer.capture():
        pass
    with inner.capture():
        bench.write(2)
    inner.replay()
    assert bench.read() == 2


def test_forks_that_are_open_at_the_close_are_joined_and_counted(bench):
    graph = bench.graph()
    with graph.capture():
        bench.write(1)
        joined = graph.fork()
        graph.join(joined)
        open_ = graph.fork()
        bench.write(7, open_)
    assert graph.counts["joined"] == 1
    graph.replay()
    assert bench.read() == 7
    graph.close()


def test_only_an_open_capture_can_be_forked_or_joined(bench):
    graph = bench.graph()
    with pytest.raises(SeamError, match="new cannot be forked"):
        graph.fork()
    with graph.capture():
        bench.write(1)
        with pytest.raises(SeamError, match="did not fork"):
            graph.join(bench.stream)


def test_a_capture_that_fails_leaves_a_new_container_and_an_idle_stream(bench):
    graph = bench.graph()

    def lost():
        with graph.capture():
            bench.write(1)
            graph.break_here(lambda: None)
            bench.backend.malloc(16)

    with pytest.raises(CudaError, match="cudaMalloc"):
        lost()
    with pytest.raises(SeamError, match="new cannot be replayed"):
        graph.replay()
    assert (graph.segments, bench.backend.get_last_error()) == (0, "cudaSuccess")
    bench.write(5)
    assert bench.read() == 5
    with graph.capture():
        bench.write(6)
    graph.replay()
    assert (graph.segments, bench.read()) == (1, 6)


@pytest.mark.parametrize("mode", GraphMode)
def test_on_a_device_that_captures_nothing_work_and_breaks_run_in_order(mode):
    bench, seen = Bench(InertDevice(FakeDevice())), []
    graph = bench.graph(mode)
    for attempt in (1, 2):
        with graph.capture():
            bench.write(1)
            if mode is GraphMode.PIECEWISE:
                graph.break_here(lambda: seen.append(bench.read()))
            bench.write(2, graph.fork())
        assert ([1] * attempt if mode is GraphMode.PIECEWISE else [], 2) == (seen, bench.read())
    with pytest.raises(SeamError, match="new cannot be replayed"):
        graph.replay()
    assert (0, 2, 0, 0) == (
        graph.segments,
        graph.counts["joined"],
        graph.counts["begins"],
        graph.counts["breaks"],
    )
    graph.close()


def test_a_whole_graph_refuses_a_break_on_a_device_that_captures_nothing_too():
    graph = Bench(InertDevice(FakeDevice())).graph(GraphMode.FULL)
    with graph.capture(), pytest.raises(SeamError, match="whole"):
        graph.break_here(lambda: None)


def test_a_container_whose_later_segment_is_inert_has_failed():
    bench = Bench(InertDevice(FakeDevice(), captures=1))
    graph = bench.graph()

    def lost():
        with graph.capture():
            bench.write(1)
            graph.break_here(lambda: None)

    with pytest.raises(EngineError, match="inert behind segments"):
        lost()
    assert (graph.segments, str(graph.state), bench.read()) == (0, "new", 0)
    assert (graph.counts["begins"], graph.counts["ends"]) == (1, 1)


def cell_of(bench, nbytes=16):
    cell = InputCell(bench.backend, "tokens")
    cell.bind(DevicePool(bench.backend, "persistent"), nbytes)
    return cell


def held(bench, cell, nbytes=16):
    bench.backend.stream_synchronize(bench.stream)
    return bench.backend.harness_read(cell.pointer, nbytes)


def test_a_shorter_refresh_leaves_the_tail_and_the_address(bench):
    cell = cell_of(bench)
    at = cell.pointer.address
    cell.refresh_host(b"a" * 16, bench.stream)
    cell.refresh_host(b"b" * 4, bench.stream)
    assert held(bench, cell) == b"bbbb" + b"a" * 12
    cell.refresh_host(b"", bench.stream)
    assert held(bench, cell) == b"bbbb" + b"a" * 12
    assert (cell.pointer.address, cell.counts["host_refreshes"]) == (at, 3)
    cell.close()


def test_what_is_too_long_is_refused_before_a_byte_moves(bench):
    cell = cell_of(bench)
    cell.refresh_host(b"a" * 16, bench.stream)
    before = bench.calls()
    with pytest.raises(SeamError, match="17 bytes do not fit the input cell 'tokens' of 16"):
        cell.refresh_host(b"b" * 17, bench.stream)
    with pytest.raises(SeamError, match="20 bytes"):
        cell.refresh_device(bench.memory, 20, bench.stream)
    assert before == bench.calls()
    assert held(bench, cell) == b"a" * 16
    assert dict(cell.counts) == {"binds": 1, "host_refreshes": 1}


def test_a_device_refresh_is_counted_by_itself(bench):
    cell = cell_of(bench)
    bench.write(3)
    cell.refresh_device(bench.memory, 8, bench.stream)
    cell.refresh_device(bench.memory, 0, bench.stream)
    assert held(bench, cell, 8) == b"\x03" * 8
    assert (cell.counts["device_refreshes"], cell.counts["host_refreshes"]) == (2, 0)


def test_an_unbound_cell_is_refused_and_a_bound_one_is_not_bound_again(bench):
    cell = InputCell(bench.backend, "tokens")
    for use in (
        lambda: cell.pointer,
        lambda: cell.refresh_host(b"a", bench.stream),
        lambda: cell.refresh_device(bench.memory, 1, bench.stream),
    ):
        with pytest.raises(SeamError, match="'tokens' is not bound"):
            use()
    pool = DevicePool(bench.backend, "persistent")
    cell.bind(pool, 16)
    with pytest.raises(SeamError, match="bound already"):
        cell.bind(pool, 16)
    cell.close()
    cell.close()
    assert pool.figures.live == 0


def test_an_arena_shares_out_among_its_parts_and_keeps_it_all_from_the_pool(bench):
    pool = DevicePool(bench.backend, "main")
    arena = Arena(pool)
    first = arena.get(1000)
    arena.put(first)
    assert arena.get(1024) is first
    second = arena.get(1000)
    arena.put(second)
    assert pool.figures.live == 2
    assert pool.get(1000).pointer.allocation not in (
        first.pointer.allocation,
        second.pointer.allocation,
    )
    arena.release()
    assert (pool.figures.live, pool.figures.retained_bytes) == (1, 2048)
