"""Child graphs of the fake: one graph embedded in another as one node."""

from __future__ import annotations

from typing import Any

import pytest

from capturegate.backend import (
    CaptureMode,
    Graph,
    GraphExec,
    Pointer,
    StreamKind,
)
from graph_rig import ADD, DOUBLE, SCALE, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _two_kernels(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.launch(ADD, x, 1.0)
    rig.launch(ADD, x, 1.0)


def _copy_in(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.backend.memcpy_async(x, pinned, 4, rig.stream)


def _child_of(rig: Rig, graph: Graph) -> tuple[Graph, GraphExec]:
    """A graph that embeds another, and an executable of it."""
    parent = rig.backend.graph_create()
    rig.backend.graph_add_child_graph_node(parent, [], graph)
    return parent, rig.backend.graph_instantiate(parent)


def test_a_child_graph_is_one_node_that_shows_what_it_embeds(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(0)
    child, _ = rig.captured(DOUBLE, x, y)
    parent, _ = rig.captured(ADD, x, 1.0)
    first = rig.backend.graph_get_nodes(parent)[0].id
    node = rig.backend.graph_add_child_graph_node(parent, [first], child)
    added = rig.backend.graph_get_nodes(parent)[1]
    assert (added.id, added.kind, added.dependencies) == (node, "graph", (first,))
    assert [(n.kind, n.name) for n in added.inner] == [("kernel", "double")]
    assert (added.reads, added.writes) == (((x.allocation, 0, 4),), ((y.allocation, 0, 4),))
    assert rig.backend.graph_get_nodes(child)[0].inner == ()
    event = rig.backend.trace().events[-3]
    assert (event.api, event.handle, event.node) == ("cudaGraphAddChildGraphNode", parent.id, node)
    assert event.detail == {"child": child.id}


def test_a_replay_executes_the_nodes_of_a_child_graph_in_its_place(rig: Rig) -> None:
    x = rig.block(1)
    child, _ = rig.captured(SCALE, x, 10.0)
    parent, _ = rig.captured(ADD, x, 1.0)
    leaf = rig.backend.graph_get_nodes(parent)[0].id
    rig.backend.graph_add_child_graph_node(parent, [leaf], child)
    rig.replay(rig.backend.graph_instantiate(parent))
    assert rig.get(x) == 20
    launch = [e for e in rig.backend.trace().events if e.api == "cudaGraphLaunch"][-1]
    assert launch.writes == ((x.allocation, 0, 4),) * 2


def test_a_child_graph_is_the_graph_as_it_was_when_it_was_added(rig: Rig) -> None:
    x = rig.block(1)
    child, _ = rig.captured(ADD, x, 1.0)
    parent, executable = _child_of(rig, child)
    mode = CaptureMode.THREAD_LOCAL
    rig.backend.stream_begin_capture_to_graph(rig.stream, child, [], mode)
    rig.launch(ADD, x, 100.0)
    rig.backend.stream_end_capture(rig.stream)
    rig.replay(executable)
    rig.replay(rig.backend.graph_instantiate(parent))
    rig.backend.graph_destroy(child)
    rig.replay(rig.backend.graph_instantiate(parent))
    assert rig.get(x) == 4
    assert len(rig.backend.graph_get_nodes(parent)[0].inner) == 1


def test_a_graph_with_memory_nodes_cannot_be_a_child(rig: Rig) -> None:
    rig.begin()
    rig.backend.malloc_async(4, rig.stream)
    child = rig.backend.stream_end_capture(rig.stream)
    parent = rig.backend.graph_create()
    refused = rig.raw.graph_add_child_graph_node(parent, [], child)
    assert refused.error == "cudaErrorNotSupported"
    assert rig.backend.graph_get_nodes(parent) == ()


def test_a_child_after_a_node_of_another_graph_is_refused(rig: Rig) -> None:
    child, _ = rig.captured(ADD, rig.block(1), 1.0)
    foreign = rig.backend.graph_get_nodes(child)[0].id
    parent = rig.backend.graph_create()
    refused = rig.raw.graph_add_child_graph_node(parent, [foreign], child)
    assert refused.error == "cudaErrorInvalidValue"


def test_an_update_reaches_into_child_graphs(rig: Rig) -> None:
    x = rig.block(1)
    children = [rig.captured(ADD, x, value)[0] for value in (2.0, 5.0)]
    _, executable = _child_of(rig, children[0])
    other, _ = _child_of(rig, children[1])
    assert rig.backend.graph_exec_update(executable, other) == "cudaGraphExecUpdateSuccess"
    rig.replay(executable)
    assert rig.get(x) == 6


@pytest.mark.parametrize(
    ("latter", "expected"),
    [
        (_two_kernels, "cudaGraphExecUpdateErrorTopologyChanged"),
        (_copy_in, "cudaGraphExecUpdateErrorNodeTypeChanged"),
    ],
)
def test_an_update_is_refused_for_what_differs_inside_a_child_graph(
    rig: Rig, latter: Any, expected: str
) -> None:
    x, pinned = rig.block(1), rig.backend.malloc_host(4)
    _, executable = _child_of(rig, rig.captured(ADD, x, 1.0)[0])
    rig.begin()
    latter(rig, x, pinned)
    other, _ = _child_of(rig, rig.backend.stream_end_capture(rig.stream))
    assert rig.raw.graph_exec_update(executable, other).value == expected


def test_an_event_that_a_child_graph_records_is_reached_by_a_launch(rig: Rig) -> None:
    event = rig.backend.event_create()
    rig.begin()
    rig.backend.event_record(event, rig.stream, external=True)
    _, executable = _child_of(rig, rig.backend.stream_end_capture(rig.stream))
    other = rig.backend.stream_create(StreamKind.NON_BLOCKING)
    rig.backend.graph_launch(executable, rig.stream)
    rig.begin()
    # Recorded outside of this capture, by the launch: to wait for it is an isolation error.
    refused = rig.raw.stream_wait_event(rig.stream, event)
    assert refused.error == "cudaErrorStreamCaptureIsolation"
    assert rig.raw.stream_wait_event(other, event).error == "cudaSuccess"
