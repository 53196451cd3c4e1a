"""What CUDA does not define about graphs: the fake raises instead of guessing an answer."""

from __future__ import annotations

import pytest

from capturegate.backend import Backend, CaptureMode, Graph, GraphExec, Stream, StreamKind
from capturegate.backend.raw import RawBackend
from capturegate.errors import CapturegateError
from capturegate.status import CudaError
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.fake.undefined import UndefinedCall

RELAXED = CaptureMode.RELAXED


class Rig:
    """A device with two streams and an empty graph."""

    def __init__(self) -> None:
        self.backend = Backend(FakeDevice())
        self.raw: RawBackend = self.backend.raw
        self.s1 = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.s2 = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.graph = self.backend.graph_create()

    def begin(self, stream: Stream, graph: Graph) -> str:
        return self.raw.stream_begin_capture_to_graph(stream, graph, (), RELAXED).error

    def with_memory(self) -> tuple[Graph, GraphExec]:
        self.backend.stream_begin_capture(self.s1, RELAXED)
        self.backend.free_async(self.backend.malloc_async(16, self.s1), self.s1)
        graph = self.backend.stream_end_capture(self.s1)
        return graph, self.backend.graph_instantiate(graph)

    def nodes(self, graph: Graph) -> int:
        return len(self.backend.graph_get_nodes(graph))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_an_undefined_call_is_no_answer_of_cuda() -> None:
    assert issubclass(UndefinedCall, CapturegateError)
    assert not issubclass(UndefinedCall, CudaError)


def test_a_graph_embedded_in_itself_raises_and_stays_as_it_was(rig: Rig) -> None:
    with pytest.raises(UndefinedCall) as caught:
        rig.raw.graph_add_child_graph_node(rig.graph, [], rig.graph)
    assert (
        f"graph {rig.graph.id} was embedded in itself: CUDA does not define what comes of it, and "
        "a driver may crash; capture the work again into a graph of its own and embed that one"
    ) == str(caught.value)
    assert rig.nodes(rig.graph) == 0


def test_an_empty_graph_may_be_embedded_in_another(rig: Rig) -> None:
    other = rig.backend.graph_create()
    assert rig.raw.graph_add_child_graph_node(other, [], rig.graph).error == "cudaSuccess"


def test_a_second_capture_into_a_graph_raises_and_the_first_goes_on(rig: Rig) -> None:
    rig.begin(rig.s1, rig.graph)
    with pytest.raises(UndefinedCall, match=r"a capture began into graph \d+ while capture 1 adds"):
        rig.begin(rig.s2, rig.graph)
    assert rig.backend.stream_is_capturing(rig.s2).value == "None"
    assert rig.backend.stream_is_capturing(rig.s1).value == "Active"


def test_captures_into_a_graph_one_after_the_other_are_fine(rig: Rig) -> None:
    rig.begin(rig.s1, rig.graph)
    rig.backend.stream_end_capture(rig.s1)
    assert rig.begin(rig.s2, rig.graph) == "cudaSuccess"


def test_a_second_begin_on_the_stream_that_captures_is_refused_as_recorded(rig: Rig) -> None:
    rig.begin(rig.s1, rig.graph)
    assert rig.begin(rig.s1, rig.graph) == "cudaErrorIllegalState"


def test_a_graph_that_a_capture_adds_to_cannot_be_destroyed(rig: Rig) -> None:
    rig.begin(rig.s1, rig.graph)
    with pytest.raises(UndefinedCall, match=r"destroyed graph \d+ while capture 1 adds to it"):
        rig.raw.graph_destroy(rig.graph)
    assert rig.graph is rig.backend.stream_end_capture(rig.s1)
    assert rig.raw.graph_destroy(rig.graph).error == "cudaSuccess"


def test_a_graph_whose_capture_went_with_its_stream_can_be_destroyed(rig: Rig) -> None:
    rig.begin(rig.s1, rig.graph)
    rig.backend.stream_destroy(rig.s1)
    assert rig.raw.graph_destroy(rig.graph).error == "cudaSuccess"


def test_a_graph_whose_memory_nodes_an_executable_holds_embeds_nothing(rig: Rig) -> None:
    graph, executable = rig.with_memory()
    with pytest.raises(UndefinedCall, match=r"a child graph was added to graph \d+, whose memory"):
        rig.raw.graph_add_child_graph_node(graph, [], rig.graph)
    assert rig.nodes(graph) == 2
    rig.backend.graph_exec_destroy(executable)
    assert rig.raw.graph_add_child_graph_node(graph, [], rig.graph).error == "cudaSuccess"


def test_no_capture_begins_into_a_graph_whose_memory_nodes_an_executable_holds(rig: Rig) -> None:
    graph, executable = rig.with_memory()
    with pytest.raises(UndefinedCall, match="destroy the executable first"):
        rig.begin(rig.s1, graph)
    assert rig.backend.stream_is_capturing(rig.s1).value == "None"
    rig.backend.graph_exec_destroy(executable)
    assert rig.begin(rig.s1, graph) == "cudaSuccess"


def test_a_graph_without_memory_nodes_grows_beside_its_executable(rig: Rig) -> None:
    rig.backend.graph_instantiate(rig.graph)
    other = rig.backend.graph_create()
    assert rig.raw.graph_add_child_graph_node(rig.graph, [], other).error == "cudaSuccess"
    assert rig.begin(rig.s1, rig.graph) == "cudaSuccess"
