"""The seam that every driver opens its captures through, by itself."""

from collections import Counter

import pytest

from capturegate.backend import (
    Backend,
    CaptureMode,
    CaptureStatus,
    CudaError,
    Outcome,
    StreamKind,
)
from capturegate.gates.nothing_left import lives
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.captures import StreamCapture, destroy, instantiate
from capturegate_reference.errors import EngineError
from capturegate_reference.instruments import InertDevice


class Bench:
    """A capture seam on a fresh device, with one block that the work writes to."""

    def __init__(self, device=None):
        self.device = device or FakeDevice()
        self.backend = Backend(self.device)
        self.stream = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.memory = self.backend.malloc(16)
        self.backend.memset(self.memory, 0, 16)
        self.counts = Counter()
        self.captures = StreamCapture(
            self.backend, self.stream, mode=CaptureMode.THREAD_LOCAL, counts=self.counts
        )

    def capture(self, *work, into=None):
        """Do things in one window."""
        with self.captures.window(into):
            for act in work:
                act()

    def write(self, byte=7):
        self.backend.memset_async(self.memory, byte, 16, self.stream)

    def read(self):
        self.backend.stream_synchronize(self.stream)
        return self.backend.harness_read(self.memory, 16)[0]

    def refuse(self, name, error="cudaErrorMemoryAllocation"):
        """Let the device refuse a call from now on."""
        setattr(self.device, name, lambda *_: Outcome(error))

    def graphs(self):
        return [event.handle for kind, event in lives(self.backend.trace())[1] if kind == "graph"]

    def ends(self):
        return sum(e.api == "cudaStreamEndCapture" for e in self.backend.trace().events)

    def is_idle(self):
        return CaptureStatus.NONE is self.backend.stream_is_capturing(self.stream)


def fail():
    raise ValueError("first")


@pytest.fixture
def bench():
    return Bench()


def test_a_window_comes_to_a_graph_and_runs_nothing(bench):
    with bench.captures.window():
        bench.write(7)
    assert 0 == bench.read()
    captured = instantiate(bench.backend, bench.captures.graph)
    bench.backend.graph_launch(captured.executable, bench.stream)
    assert 7 == bench.read()
    assert {"begins": 1, "ends": 1} == bench.counts
    destroy(bench.backend, captured)
    assert [] == bench.graphs()


def test_windows_into_a_graph_stand_one_behind_the_other(bench):
    graph = bench.backend.graph_create()
    for byte in (3, 5):
        with bench.captures.window(graph):
            bench.write(byte)
        assert graph.id == bench.captures.graph.id
    first, second = bench.backend.graph_get_nodes(graph)
    assert ((), (first.id,)) == (first.dependencies, second.dependencies)
    captured = instantiate(bench.backend, graph)
    bench.backend.graph_launch(captured.executable, bench.stream)
    assert 5 == bench.read()
    assert {"begins": 2, "ends": 2} == bench.counts


def test_a_window_that_is_inert_has_no_graph_and_its_work_ran():
    bench = Bench(InertDevice(FakeDevice()))
    with bench.captures.window():
        bench.write(7)
    assert (True, None, 7) == (bench.captures.inert, bench.captures.graph, bench.read())
    assert 0 == bench.ends()
    assert {} == +bench.counts


def test_the_graph_that_an_inert_window_was_to_fill_is_dropped():
    bench = Bench(InertDevice(FakeDevice()))
    with bench.captures.window(bench.backend.graph_create()):
        bench.write(7)
    assert (None, []) == (bench.captures.graph, bench.graphs())


def test_work_that_fails_in_an_inert_window_drops_the_graph_and_ends_nothing():
    bench = Bench(InertDevice(FakeDevice()))
    with pytest.raises(ValueError, match="first"):
        bench.capture(fail, into=bench.backend.graph_create())
    assert ([], 0) == (bench.graphs(), bench.ends())


def test_a_window_that_is_inert_behind_captured_pieces_is_an_error():
    bench = Bench(InertDevice(FakeDevice(), captures=1))
    graph = bench.backend.graph_create()
    with bench.captures.window(graph):
        bench.write(3)
    with pytest.raises(EngineError, match="inert behind"):
        bench.capture(bench.write, into=graph)
    assert (0, [], True) == (bench.read(), bench.graphs(), bench.is_idle())


@pytest.mark.parametrize("into", [False, True])
def test_what_went_wrong_in_a_window_is_raised_and_nothing_is_left(bench, into):
    graph = bench.backend.graph_create() if into else None
    with pytest.raises(CudaError) as raised:
        bench.capture(bench.write, lambda: bench.backend.malloc(16), into=graph)
    assert ("cudaMalloc", "cudaErrorStreamCaptureUnsupported") == (
        raised.value.api,
        raised.value.error,
    )
    assert ([], True, "cudaSuccess") == (
        bench.graphs(),
        bench.is_idle(),
        bench.backend.get_last_error(),
    )
    assert {"begins": 1, "ends": 1} == bench.counts


@pytest.mark.parametrize("into", [False, True])
def test_a_capture_that_was_not_lost_gives_its_graph_back_when_it_is_abandoned(bench, into):
    graph = bench.backend.graph_create() if into else None
    with pytest.raises(ValueError, match="first"):
        bench.capture(bench.write, fail, into=graph)
    assert ([], True, 1) == (bench.graphs(), bench.is_idle(), bench.ends())


@pytest.mark.parametrize(
    ("begin", "into"),
    [("stream_begin_capture", False), ("stream_begin_capture_to_graph", True)],
)
def test_a_begin_that_is_refused_is_not_ended_and_its_graph_goes(bench, begin, into):
    graph = bench.backend.graph_create() if into else None
    bench.refuse(begin)
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        bench.capture(bench.write, into=graph)
    assert (0, [], 0) == (bench.ends(), bench.graphs(), bench.read())
    assert {} == +bench.counts


def test_an_end_that_is_refused_counts_as_one_and_is_not_tried_again(bench):
    side, fork = bench.backend.stream_create(StreamKind.NON_BLOCKING), bench.backend.event_create()

    def leave_a_fork_open():
        bench.backend.event_record(fork, bench.stream)
        bench.backend.stream_wait_event(side, fork)
        bench.backend.memset_async(bench.memory, 0, 16, side)

    with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnjoined"):
        bench.capture(leave_a_fork_open)
    bench.captures.abandon()
    assert (1, {"begins": 1, "ends": 1}) == (bench.ends(), bench.counts)


@pytest.mark.parametrize("into", [False, True])
def test_an_end_that_is_refused_while_its_capture_stays_open_is_tried_again(bench, into):
    graph = bench.backend.graph_create() if into else None
    ends = bench.device.stream_end_capture
    answers = [lambda _: Outcome("cudaErrorMemoryAllocation"), ends]
    bench.device.stream_end_capture = lambda stream: answers.pop(0)(stream)
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        bench.capture(bench.write, into=graph)
    assert (2, True, [], []) == (bench.ends(), bench.is_idle(), bench.graphs(), answers)
    assert {"begins": 1, "ends": 1} == bench.counts
    bench.device.stream_end_capture = ends
    with bench.captures.window():
        bench.write(7)
    assert (0, 1) == (bench.read(), len(bench.graphs()))


def test_an_end_whose_capture_nobody_can_look_at_is_tried_again(bench):
    ends, looks = bench.device.stream_end_capture, bench.device.stream_is_capturing
    answers = [lambda _: Outcome("cudaErrorMemoryAllocation"), ends]
    bench.device.stream_end_capture = lambda stream: answers.pop(0)(stream)

    def blind():
        bench.device.stream_is_capturing = lambda _: Outcome("cudaErrorUnknown")

    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        bench.capture(bench.write, blind)
    bench.device.stream_is_capturing = looks
    assert (True, [], []) == (bench.is_idle(), bench.graphs(), answers)


def test_a_begin_that_nobody_can_look_at_is_ended(bench):
    bench.device.stream_is_capturing, looked = (
        lambda _: Outcome("cudaErrorUnknown"),
        bench.device.stream_is_capturing,
    )
    with pytest.raises(CudaError, match="cudaErrorUnknown"):
        bench.capture(bench.write)
    bench.device.stream_is_capturing = looked
    assert (1, True, 0) == (bench.ends(), bench.is_idle(), bench.read())
    assert {"begins": 1, "ends": 1} == bench.counts


def test_nothing_is_ended_where_nothing_is_captured(bench):
    bench.captures.abandon()
    assert 0 == bench.ends()


def test_a_window_inside_another_ones_is_refused_and_the_outer_one_goes_on(bench):
    other = StreamCapture(
        bench.backend, bench.stream, mode=CaptureMode.THREAD_LOCAL, counts=bench.counts
    )
    with bench.captures.window():
        bench.write(7)
        with pytest.raises(CudaError, match="cudaErrorIllegalState"), other.window():
            bench.write(5)
        assert not bench.is_idle()
    assert {"begins": 1, "ends": 1} == bench.counts
    assert 1 == len(bench.graphs())


def test_a_graph_that_cannot_be_dropped_hides_nothing_of_what_went_wrong_first(bench):
    bench.refuse("graph_destroy", "cudaErrorInvalidValue")
    with pytest.raises(ValueError, match="first"):
        bench.capture(bench.write, fail)
    assert bench.is_idle()


def test_what_was_refused_in_a_window_is_nobodys_last_error(bench):
    with pytest.raises(CudaError):
        bench.capture(bench.write, lambda: bench.backend.set_device(7))
    assert "cudaSuccess" == bench.backend.peek_at_last_error()


def test_an_error_of_somebody_elses_stays_his(bench):
    assert not bench.backend.raw.set_device(7).ok
    with pytest.raises(ValueError, match="first"):
        bench.capture(bench.write, fail)
    assert "cudaErrorInvalidDevice" == bench.backend.peek_at_last_error()


def test_an_executable_that_is_refused_leaves_no_last_error(bench):
    def refused(_graph):
        bench.device.set_device(7)
        return Outcome("cudaErrorMemoryAllocation")

    bench.capture(bench.write)
    bench.device.graph_instantiate = refused
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        instantiate(bench.backend, bench.captures.graph)
    assert "cudaSuccess" == bench.backend.peek_at_last_error()
