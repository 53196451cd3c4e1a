"""Graphs of the fake: replay executes exactly what was baked, on what stands there now."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from capturegate.backend import (
    Pointer,
)
from graph_rig import ADD, DOUBLE, SCALE, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_replay_works_on_what_stands_there_now(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(0)
    _, executable = rig.captured(DOUBLE, x, y)
    results = []
    for value in (3, 4, 5):
        rig.put(x, value)
        rig.replay(executable)
        results.append(rig.get(y))
    assert results == [6, 8, 10]


def test_a_baked_block_that_moved_is_not_followed(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(0)
    _, executable = rig.captured(DOUBLE, x, y)
    rig.backend.free(x)
    tenant = rig.block(7)
    moved = rig.block(1)
    assert (tenant.address == x.address, moved.address == x.address) == (True, False)
    rig.replay(executable)
    assert rig.get(y) == 14


def test_a_replay_reports_the_generation_that_it_touches(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(0)
    graph, executable = rig.captured(DOUBLE, x, y)
    rig.backend.free(x)
    tenant = rig.block(7)
    rig.backend.graph_launch(executable, rig.stream)
    launch = rig.backend.trace().events[-1]
    baked = rig.backend.graph_get_nodes(graph)[0]
    assert baked.reads == ((x.allocation, 0, 4),)
    assert launch.reads == ((tenant.allocation, 0, 4),)
    assert launch.writes == ((y.allocation, 0, 4),) == baked.writes


def test_a_replay_through_freed_memory_is_an_illegal_address(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(0)
    _, executable = rig.captured(DOUBLE, x, y)
    rig.backend.free(x)
    rig.raw.graph_launch(executable, rig.stream)
    status = rig.raw.stream_synchronize(rig.stream)
    assert status.error == "cudaErrorIllegalAddress"


@pytest.mark.parametrize("kind", ["malloc_host", "pageable"])
def test_a_copy_node_reads_its_host_source_again_at_each_replay(rig: Rig, kind: str) -> None:
    source, target = getattr(rig.backend, kind)(4), rig.block(0)
    rig.backend.host_write(source, struct.pack("<f", 1))
    rig.begin()
    rig.backend.memcpy_async(target, source, 4, rig.stream)
    _, executable = rig.end()
    results = []
    for value in (2, 3):
        rig.backend.host_write(source, struct.pack("<f", value))
        rig.replay(executable)
        results.append(rig.get(target))
    assert results == [2, 3]


def test_a_host_function_runs_at_replay_and_may_not_call_the_runtime(rig: Rig) -> None:
    errors: list[str] = []
    rig.begin()
    rig.backend.launch_host_func(lambda: errors.append(rig.raw.malloc(4).error), rig.stream)
    _, executable = rig.end()
    assert errors == []
    rig.replay(executable)
    rig.replay(executable)
    assert errors == ["cudaErrorNotPermitted", "cudaErrorNotPermitted"]
    assert rig.raw.malloc(4).error == "cudaSuccess"


def test_nodes_say_what_they_are(rig: Rig) -> None:
    x, pinned = rig.block(1), rig.backend.malloc_host(4)
    rig.begin()
    rig.launch(ADD, x, 1.0)
    rig.backend.memcpy_async(pinned, x, 4, rig.stream)
    rig.backend.memset_async(x, 0, 4, rig.stream)
    graph, _ = rig.end()
    nodes = rig.backend.graph_get_nodes(graph)
    ids = [node.id for node in nodes]
    assert [(n.kind, n.name) for n in nodes] == [("kernel", "add"), ("memcpy", ""), ("memset", "")]
    assert [n.dependencies for n in nodes] == [(), (ids[0],), (ids[1],)]
    assert nodes[1].reads == ((x.allocation, 0, 4),)
    assert nodes[1].writes == ((pinned.allocation, 0, 4),)


def test_a_graph_without_its_handle_still_replays(rig: Rig) -> None:
    x = rig.block(1)
    graph, executable = rig.captured(ADD, x, 2.0)
    rig.backend.graph_destroy(graph)
    rig.backend.graph_launch(executable, rig.stream)
    rig.backend.graph_exec_destroy(executable)
    rig.backend.stream_synchronize(rig.stream)
    assert rig.get(x) == 3


def test_an_update_takes_the_other_graphs_parameters(rig: Rig) -> None:
    x = rig.block(1)
    _, executable = rig.captured(ADD, x, 2.0)
    other, _ = rig.captured(SCALE, x, 10.0)
    rig.backend.graph_launch(executable, rig.stream)
    assert rig.backend.graph_exec_update(executable, other) == "cudaGraphExecUpdateSuccess"
    rig.replay(executable)
    assert rig.get(x) == 30


def _two_kernels(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.launch(ADD, x, 1.0)
    rig.launch(ADD, x, 1.0)


def _copy_in(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.backend.memcpy_async(x, pinned, 4, rig.stream)


def _copy_within(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.backend.memcpy_async(x, x, 4, rig.stream)


def _kernel(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.launch(ADD, x, 1.0)


def _memory(rig: Rig, x: Pointer, pinned: Pointer) -> None:
    rig.backend.free_async(rig.backend.malloc_async(4, rig.stream), rig.stream)


@pytest.mark.parametrize(
    ("former", "latter", "expected"),
    [
        (_kernel, _two_kernels, "cudaGraphExecUpdateErrorTopologyChanged"),
        (_kernel, _copy_in, "cudaGraphExecUpdateErrorNodeTypeChanged"),
        (_copy_in, _copy_within, "cudaGraphExecUpdateErrorParametersChanged"),
        (_memory, _memory, "cudaGraphExecUpdateSuccess"),
        (_copy_in, _copy_in, "cudaGraphExecUpdateSuccess"),
    ],
)
def test_an_update_says_why_it_is_refused(
    rig: Rig, former: Any, latter: Any, expected: str
) -> None:
    x, pinned = rig.block(1), rig.backend.malloc_host(4)
    rig.begin()
    former(rig, x, pinned)
    _, executable = rig.end()
    rig.begin()
    latter(rig, x, pinned)
    status = rig.raw.graph_exec_update(executable, rig.backend.stream_end_capture(rig.stream))
    fine = expected == "cudaGraphExecUpdateSuccess"
    error = "cudaSuccess" if fine else "cudaErrorGraphExecUpdateFailure"
    assert (status.error, status.value) == (error, expected)


def test_a_kernel_node_takes_other_arguments(rig: Rig) -> None:
    x, y = rig.block(1), rig.block(10)
    graph, executable = rig.captured(ADD, x, 2.0)
    node = rig.backend.graph_get_nodes(graph)[0].id
    one = (1, 1, 1)
    rig.backend.graph_exec_kernel_node_set_params(
        executable, node, ADD, one, one, (y.array((1,)), 5.0)
    )
    rig.replay(executable)
    assert (rig.get(x), rig.get(y)) == (1, 15)
    wrong = rig.raw.graph_exec_kernel_node_set_params(
        executable, node + 1, ADD, one, one, (y.array((1,)), 5.0)
    )
    assert wrong.error == "cudaErrorInvalidValue"


def test_a_memory_node_makes_another_allocation_at_each_replay(rig: Rig) -> None:
    y = rig.block(0)
    rig.begin()
    scratch = rig.backend.malloc_async(4, rig.stream)
    rig.backend.memset_async(scratch, 0, 4, rig.stream)
    rig.launch(DOUBLE, scratch, y)
    rig.backend.free_async(scratch, rig.stream)
    graph, executable = rig.end()
    kinds = [node.kind for node in rig.backend.graph_get_nodes(graph)]
    assert kinds == ["mem_alloc", "memset", "kernel", "mem_free"]
    touched = []
    for _ in range(2):
        rig.replay(executable)
        launch = [e for e in rig.backend.trace().events if e.api == "cudaGraphLaunch"][-1]
        touched.append(launch.reads[0][0])
    assert touched[0] not in (0, touched[1])
    assert rig.get(y) == 0
    assert rig.raw.free(scratch).error == "cudaErrorInvalidValue"


def test_a_graph_whose_memory_is_still_out_cannot_be_launched_again(rig: Rig) -> None:
    rig.begin()
    scratch = rig.backend.malloc_async(4, rig.stream)
    _, executable = rig.end()
    rig.replay(executable)
    assert rig.raw.graph_launch(executable, rig.stream).error == "cudaErrorInvalidValue"
    rig.backend.free_async(scratch, rig.stream)
    assert rig.raw.graph_launch(executable, rig.stream).error == "cudaSuccess"


def test_a_graph_that_owns_memory_has_one_executable_at_a_time(rig: Rig) -> None:
    rig.begin()
    rig.backend.malloc_async(4, rig.stream)
    graph, executable = rig.end()
    assert rig.raw.graph_instantiate(graph).error == "cudaErrorNotSupported"
    rig.backend.graph_exec_destroy(executable)
    assert rig.raw.graph_instantiate(graph).error == "cudaSuccess"


def test_memory_of_a_capture_is_freed_once_in_it(rig: Rig) -> None:
    rig.begin()
    scratch = rig.backend.malloc_async(4, rig.stream)
    rig.backend.free_async(scratch, rig.stream)
    assert rig.raw.free_async(scratch, rig.stream).error == "cudaErrorInvalidValue"
    graph, _ = rig.end()
    assert len(rig.backend.graph_get_nodes(graph)) == 2
