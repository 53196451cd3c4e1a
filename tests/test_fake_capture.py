"""The fake's capture machine: what the handed table does not show."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from capturegate.backend import (
    Access,
    Backend,
    CaptureMode,
    CaptureStatus,
    CudaError,
    Graph,
    Kernel,
    Param,
    Pointer,
    Stream,
    StreamKind,
)
from capturegate.errors import InputError
from capturegate_backends.fake.device import FakeDevice

GLOBAL, THREAD_LOCAL, RELAXED = CaptureMode.GLOBAL, CaptureMode.THREAD_LOCAL, CaptureMode.RELAXED

UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"
INVALIDATED = "cudaErrorStreamCaptureInvalidated"


def _add_one(x: Any) -> None:
    x += 1


ADD_ONE = Kernel(
    name="add_one", params=(Param("x", Access.INOUT),), body=_add_one, cuda="// not run here"
)


class Rig:
    """A device with two streams of each kind and one block."""

    def __init__(self) -> None:
        self.backend = Backend(FakeDevice())
        self.raw = self.backend.raw
        self.s1 = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.s2 = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.b1 = self.backend.stream_create(StreamKind.BLOCKING)
        self.block = self.backend.malloc(16)
        self.backend.memset(self.block, 0, 16)

    def launch(self, stream: Stream) -> str:
        args = (self.block.array((4,)),)
        return self.raw.launch_kernel(ADD_ONE, (1, 1, 1), (4, 1, 1), args, stream).error

    def status(self, stream: Stream) -> str:
        return self.backend.stream_is_capturing(stream).value

    def fork(self, origin: Stream, other: Stream) -> None:
        event = self.backend.event_create()
        self.backend.event_record(event, origin)
        self.backend.stream_wait_event(other, event)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def elsewhere(call: Callable[[], str]) -> str:
    """What a call answers on another thread."""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join()
    return answers[0]


def edges(backend: Backend, graph: Graph) -> Sequence[tuple[int, int]]:
    """The edges with nodes counted from 0."""
    at = {node.id: i for i, node in enumerate(backend.graph_get_nodes(graph))}
    return [(at[a], at[b]) for a, b in backend.graph_get_edges(graph)]


def test_an_unknown_driver_is_refused_not_guessed() -> None:
    with pytest.raises(InputError, match="no recorded rules for driver '470'"):
        FakeDevice(driver="470")


def test_captured_work_does_not_execute(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, THREAD_LOCAL)
    assert rig.launch(rig.s1) == "cudaSuccess"
    graph = rig.backend.stream_end_capture(rig.s1)
    assert len(rig.backend.graph_get_nodes(graph)) == 1
    assert bytes(16) == rig.backend.harness_read(rig.block, 16)


def test_a_forked_and_joined_stream_gives_a_diamond(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.launch(rig.s1)
    rig.fork(rig.s1, rig.b1)
    rig.launch(rig.s1)
    rig.launch(rig.b1)
    rig.fork(rig.b1, rig.s1)
    rig.launch(rig.s1)
    graph = rig.backend.stream_end_capture(rig.s1)
    assert edges(rig.backend, graph) == [(0, 1), (0, 2), (1, 3), (2, 3)]
    assert rig.status(rig.b1) == "None"


def test_a_fork_enters_the_same_capture(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.launch(rig.s1)
    rig.fork(rig.s1, rig.s2)
    origin = rig.backend.stream_get_capture_info(rig.s1)
    forked = rig.backend.stream_get_capture_info(rig.s2)
    assert CaptureStatus.ACTIVE is forked.status
    assert origin.capture == forked.capture
    assert forked.capture > 0


def test_a_blocking_stream_that_is_forked_in_makes_the_legacy_stream_implicit(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    assert rig.launch(rig.backend.legacy_stream) == "cudaSuccess"
    rig.fork(rig.s1, rig.b1)
    assert rig.launch(rig.backend.legacy_stream) == "cudaErrorStreamCaptureImplicit"
    assert rig.status(rig.s1) == "Invalidated"


def test_an_end_with_unjoined_work_is_unjoined_and_ends_the_capture(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.launch(rig.s1)
    rig.fork(rig.s1, rig.s2)
    rig.launch(rig.s2)
    assert rig.raw.stream_end_capture(rig.s1).error == "cudaErrorStreamCaptureUnjoined"
    assert (rig.status(rig.s1), rig.status(rig.s2)) == ("None", "None")


def test_a_fork_without_work_needs_no_join(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.launch(rig.s1)
    rig.fork(rig.s1, rig.s2)
    assert rig.raw.stream_end_capture(rig.s1).error == "cudaSuccess"


def test_an_end_on_the_wrong_stream_is_unmatched(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.fork(rig.s1, rig.s2)
    assert rig.raw.stream_end_capture(rig.s2).error == "cudaErrorStreamCaptureUnmatched"


def test_an_end_without_a_capture_is_an_illegal_state(rig: Rig) -> None:
    assert rig.raw.stream_end_capture(rig.s1).error == "cudaErrorIllegalState"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (GLOBAL, "cudaErrorStreamCaptureWrongThread"),
        (THREAD_LOCAL, "cudaErrorStreamCaptureWrongThread"),
        (RELAXED, "cudaSuccess"),
    ],
)
def test_only_a_relaxed_capture_may_end_on_another_thread(
    rig: Rig, mode: CaptureMode, expected: str
) -> None:
    rig.backend.stream_begin_capture(rig.s1, mode)
    assert expected == elsewhere(lambda: rig.raw.stream_end_capture(rig.s1).error)


def test_a_refused_end_is_not_the_end_of_the_window(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.event_record(event, rig.s1)
    rig.backend.stream_wait_event(rig.s2, event)
    assert rig.raw.stream_end_capture(rig.s2).error == "cudaErrorStreamCaptureUnmatched"
    rig.raw.stream_end_capture(rig.s1).error  # noqa: B018
    window = rig.backend.trace().windows[0]
    assert window.end_error == INVALIDATED


def test_waiting_for_another_captures_event_merges_and_loses_both(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.stream_begin_capture(rig.s2, GLOBAL)
    rig.backend.event_record(event, rig.s1)
    assert rig.raw.stream_wait_event(rig.s2, event).error == "cudaErrorStreamCaptureMerge"
    assert (rig.status(rig.s1), rig.status(rig.s2)) == ("Invalidated", "Invalidated")


def test_what_follows_on_an_invalidated_stream_is_refused_as_such(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    assert rig.raw.malloc(16).error == UNSUPPORTED
    assert rig.launch(rig.s1) == INVALIDATED
    ended = rig.raw.stream_end_capture(rig.s1)
    assert (ended.error, ended.value) == (INVALIDATED, None)
    assert rig.launch(rig.s1) == "cudaSuccess"


@pytest.mark.parametrize("call", ["event_query", "event_synchronize"])
def test_a_captured_event_can_be_neither_asked_nor_waited_for(rig: Rig, call: str) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    rig.backend.event_record(event, rig.s1)
    assert getattr(rig.raw, call)(event).error == "cudaErrorCapturedEvent"
    assert rig.status(rig.s1) == "Invalidated"


def test_an_event_recorded_again_outside_is_ordinary_again(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.event_record(event, rig.s1)
    rig.backend.stream_end_capture(rig.s1)
    assert rig.raw.event_synchronize(event).error == "cudaErrorInvalidValue"
    rig.backend.event_record(event, rig.s1)
    assert rig.raw.event_synchronize(event).error == "cudaSuccess"


def test_a_refusal_that_does_not_poison_leaves_the_capture_active(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    copies = [(rig.block, rig.block, 16)]
    assert rig.raw.memcpy_batch_async(copies, rig.s1).error == UNSUPPORTED
    assert rig.raw.stream_begin_capture(rig.s1, GLOBAL).error == "cudaErrorIllegalState"
    graph = rig.backend.stream_end_capture(rig.s1)
    assert rig.backend.graph_get_nodes(graph) == ()


@pytest.mark.parametrize(
    ("own", "capture", "expected"),
    [
        (GLOBAL, GLOBAL, UNSUPPORTED),
        (GLOBAL, THREAD_LOCAL, "cudaSuccess"),
        (THREAD_LOCAL, GLOBAL, "cudaSuccess"),
        (RELAXED, GLOBAL, "cudaSuccess"),
    ],
)
def test_another_threads_own_mode_decides_what_it_may_do_beside_a_capture(
    rig: Rig, own: CaptureMode, capture: CaptureMode, expected: str
) -> None:
    def ask() -> str:
        rig.backend.thread_exchange_stream_capture_mode(own)
        return rig.raw.malloc(16).error

    rig.backend.stream_begin_capture(rig.s1, capture)
    assert expected == elsewhere(ask)
    assert ("Active" if expected == "cudaSuccess" else "Invalidated") == rig.status(rig.s1)


@pytest.mark.parametrize(
    ("own", "expected"), [(GLOBAL, UNSUPPORTED), (THREAD_LOCAL, UNSUPPORTED), (RELAXED, None)]
)
def test_the_capturing_threads_own_mode_decides_too(
    rig: Rig, own: CaptureMode, expected: str | None
) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    assert GLOBAL is rig.backend.thread_exchange_stream_capture_mode(own)
    assert (expected or "cudaSuccess") == rig.raw.malloc(16).error


def test_an_ended_graph_is_usable_while_another_capture_runs(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    rig.launch(rig.s1)
    graph = rig.backend.stream_end_capture(rig.s1)
    rig.backend.stream_begin_capture(rig.s2, RELAXED)
    executable = rig.backend.graph_instantiate(graph)
    rig.backend.graph_launch(executable, rig.s1)
    rig.launch(rig.s2)
    assert len(rig.backend.graph_get_nodes(rig.backend.stream_end_capture(rig.s2))) == 1


def test_a_capture_into_a_graph_adds_to_it(rig: Rig) -> None:
    graph = rig.backend.graph_create()
    rig.backend.stream_begin_capture_to_graph(rig.s1, graph, (), GLOBAL)
    rig.launch(rig.s1)
    assert graph is rig.backend.stream_end_capture(rig.s1)
    first = rig.backend.graph_get_nodes(graph)[0]
    rig.backend.stream_begin_capture_to_graph(rig.s1, graph, (first.id,), GLOBAL)
    rig.launch(rig.s1)
    rig.backend.stream_end_capture(rig.s1)
    assert edges(rig.backend, graph) == [(0, 1)]


def test_an_event_of_an_invalidated_capture_is_refused_as_such(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.event_record(event, rig.s1)
    assert rig.raw.malloc(16).error == UNSUPPORTED
    assert rig.raw.stream_wait_event(rig.s2, event).error == "cudaErrorInvalidValue"
    assert rig.status(rig.s2) == "None"


def test_the_legacy_stream_cannot_be_forked_into_a_capture(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    rig.backend.event_record(event, rig.s1)
    status = rig.raw.stream_wait_event(rig.backend.legacy_stream, event)
    assert status.error == "cudaErrorStreamCaptureImplicit"
    assert rig.status(rig.s1) == "Invalidated"


def test_an_event_of_a_capture_that_is_over_orders_nothing(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.event_record(event, rig.s1)
    rig.backend.stream_end_capture(rig.s1)
    assert rig.raw.stream_wait_event(rig.s2, event).error == "cudaErrorInvalidValue"


def test_a_batch_copy_does_not_take_the_legacy_stream(rig: Rig) -> None:
    copies = [(rig.block, rig.block, 16)]
    status = rig.raw.memcpy_batch_async(copies, rig.backend.legacy_stream)
    assert status.error == "cudaErrorInvalidValue"
    assert rig.raw.memcpy_batch_async(copies, rig.s1).error == "cudaSuccess"


def test_external_events_are_nodes_and_belong_into_a_capture(rig: Rig) -> None:
    event = rig.backend.event_create()
    outside = rig.raw.event_record(event, rig.s1, external=True)
    assert outside.error == "cudaErrorIllegalState"
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.backend.stream_wait_event(rig.s1, event, external=True)
    rig.backend.event_record(event, rig.s1, external=True)
    nodes = rig.backend.graph_get_nodes(rig.backend.stream_end_capture(rig.s1))
    assert [node.kind for node in nodes] == ["wait_event", "event_record"]


def test_each_thread_has_its_own_per_thread_stream(rig: Rig) -> None:
    stream = rig.backend.per_thread_stream
    rig.backend.stream_begin_capture(stream, THREAD_LOCAL)
    assert elsewhere(lambda: rig.status(stream)) == "None"
    assert rig.status(stream) == "Active"


def test_an_ordinary_error_is_forgotten_once_it_was_got_and_is_each_threads_own(rig: Rig) -> None:
    assert rig.raw.free(Pointer(64, 1, 0)).error == "cudaErrorInvalidValue"
    assert elsewhere(rig.backend.get_last_error) == "cudaSuccess"
    assert rig.backend.peek_at_last_error() == "cudaErrorInvalidValue"
    assert rig.backend.get_last_error() == "cudaErrorInvalidValue"
    assert rig.backend.get_last_error() == "cudaSuccess"


def test_handles_that_are_gone_are_refused(rig: Rig) -> None:
    event, graph = rig.backend.event_create(), rig.backend.graph_create()
    executable = rig.backend.graph_instantiate(graph)
    rig.backend.stream_destroy(rig.s2)
    rig.backend.event_destroy(event)
    rig.backend.graph_destroy(graph)
    rig.backend.graph_exec_destroy(executable)
    assert rig.launch(rig.s2) == "cudaErrorInvalidResourceHandle"
    assert rig.raw.event_query(event).error == "cudaErrorInvalidResourceHandle"
    assert rig.raw.graph_instantiate(graph).error == "cudaErrorInvalidValue"
    assert rig.raw.graph_launch(executable, rig.s1).error == "cudaErrorInvalidValue"


def test_another_devices_stream_is_refused(rig: Rig) -> None:
    assert rig.launch(Rig().s1) == "cudaErrorInvalidResourceHandle"


def test_the_ordinary_layer_raises_cudas_name(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, THREAD_LOCAL)
    with pytest.raises(CudaError, match="cudaMalloc returned cudaErrorStreamCaptureUnsupported"):
        rig.backend.malloc(16)


def test_a_capture_is_gone_with_the_stream_that_it_began_on(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.b1, GLOBAL)
    scratch = rig.backend.malloc_async(16, rig.b1)
    rig.fork(rig.b1, rig.s1)
    assert rig.raw.stream_destroy(rig.b1).error == "cudaSuccess"
    assert (rig.status(rig.s1), rig.backend.trace().windows[0].destroyed) == ("None", True)
    assert rig.raw.stream_end_capture(rig.s1).error == "cudaErrorIllegalState"
    assert rig.raw.malloc(16).error == "cudaSuccess"
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    assert rig.raw.free_async(scratch, rig.s1).error == "cudaErrorInvalidValue"


def test_a_fork_that_is_destroyed_leaves_its_work_in_the_capture(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    rig.fork(rig.s1, rig.b1)
    assert rig.launch(rig.backend.legacy_stream) == "cudaErrorStreamCaptureImplicit"
    rig.raw.stream_end_capture(rig.s1)
    rig.backend.stream_begin_capture(rig.s1, RELAXED)
    rig.fork(rig.s1, rig.b1)
    assert rig.launch(rig.b1) == "cudaSuccess"
    rig.backend.stream_destroy(rig.b1)
    assert rig.launch(rig.backend.legacy_stream) == "cudaSuccess"
    assert rig.raw.stream_end_capture(rig.s1).error == "cudaErrorStreamCaptureUnjoined"


def test_an_end_that_leaves_the_capture_open_names_no_capture(rig: Rig) -> None:
    rig.backend.stream_begin_capture(rig.s1, GLOBAL)
    rig.fork(rig.s1, rig.s2)
    assert rig.raw.stream_end_capture(rig.s2).error == "cudaErrorStreamCaptureUnmatched"
    assert rig.backend.trace().events[-1].capture == 0
    (window,) = rig.backend.trace().windows
    assert window.end is None
    assert rig.raw.stream_end_capture(rig.s1).error == INVALIDATED
    assert rig.backend.trace().events[-1].capture == window.capture
