"""Streams of the fake progress in a seeded legal order."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from capturegate.backend import (
    Access,
    Backend,
    CaptureMode,
    Kernel,
    Param,
    Pointer,
    Stream,
    StreamKind,
)
from capturegate.trace import Event
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.fake.memory import Memory
from capturegate_backends.fake.operations import Nothing, World
from capturegate_backends.fake.scheduler import Queue, Scheduler

SEEDS = range(10)


def _push(x: Any, digit: int) -> None:
    x[0] = 10 * x[0] + digit


PUSH = Kernel(
    name="push",
    params=(Param("x", Access.INOUT, "int32"), Param("digit", Access.SCALAR, "int32")),
    body=_push,
    cuda="// not run here",
)


class Rig:
    """A device, and a block whose number tells in which order kernels ran."""

    def __init__(self, seed: int, kind: StreamKind = StreamKind.NON_BLOCKING) -> None:
        self.backend = Backend(FakeDevice(seed))
        self.s1 = self.backend.stream_create(kind)
        self.s2 = self.backend.stream_create(kind)
        self.block = self.backend.malloc(4)
        self.backend.memset(self.block, 0, 4)

    def push(self, digit: int, stream: Stream) -> None:
        self.backend.launch(PUSH, (self.block.array((1,), "int32"), digit), stream)

    @property
    def order(self) -> int:
        return self.number(self.block)

    def number(self, pointer: Pointer) -> int:
        return int(struct.unpack("<i", self.backend.harness_read(pointer, 4))[0])


def racing(seed: int) -> int:
    rig = Rig(seed)
    for digit in (1, 2, 3):
        rig.push(digit, rig.s1)
    for digit in (4, 5, 6):
        rig.push(digit, rig.s2)
    return rig.order


def test_the_same_seed_gives_the_same_order_and_others_give_others() -> None:
    orders = [racing(seed) for seed in SEEDS]
    assert orders == [racing(seed) for seed in SEEDS]
    assert len(set(orders)) >= 2


def test_a_result_that_depends_on_the_order_has_other_bytes_on_some_seed() -> None:
    def result(seed: int) -> bytes:
        rig = Rig(seed)
        source = rig.backend.malloc(4)
        rig.backend.memset(source, 7, 4)
        rig.push(5, rig.s1)
        rig.backend.memcpy_async(rig.block, source, 4, rig.s2)
        return rig.backend.harness_read(rig.block, 4)

    results = {seed: result(seed) for seed in SEEDS}
    copied = 0x07070707
    assert set(results.values()) == {struct.pack("<i", n) for n in (copied, 10 * copied + 5)}
    assert results == {seed: result(seed) for seed in SEEDS}


def test_every_order_keeps_the_streams_own() -> None:
    for seed in SEEDS:
        digits = str(racing(seed))
        assert [d for d in digits if d in "123"] == ["1", "2", "3"]
        assert [d for d in digits if d in "456"] == ["4", "5", "6"]


def test_the_same_seed_gives_the_same_trace() -> None:
    def trace(seed: int) -> list[Event]:
        rig = Rig(seed)
        for digit in range(4):
            rig.push(digit, rig.s1)
            rig.push(digit, rig.s1)
            rig.backend.raw.stream_query(rig.s1)
        return rig.backend.trace().events

    traces = [trace(seed) for seed in SEEDS]
    assert traces == [trace(seed) for seed in SEEDS]
    assert len({repr(t) for t in traces}) >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_orders_two_streams(seed: int) -> None:
    rig = Rig(seed)
    event = rig.backend.event_create()
    rig.push(1, rig.s1)
    rig.backend.event_record(event, rig.s1)
    rig.backend.stream_wait_event(rig.s2, event)
    rig.push(2, rig.s2)
    assert rig.order == 12


@pytest.mark.parametrize("seed", SEEDS)
def test_the_legacy_stream_orders_itself_against_blocking_streams(seed: int) -> None:
    rig = Rig(seed, StreamKind.BLOCKING)
    rig.push(1, rig.s1)
    rig.push(2, rig.backend.legacy_stream)
    rig.push(3, rig.s2)
    assert rig.order == 123


def test_the_legacy_stream_does_not_order_itself_against_non_blocking_ones() -> None:
    orders = set()
    for seed in SEEDS:
        rig = Rig(seed)
        rig.push(1, rig.s1)
        rig.push(2, rig.backend.legacy_stream)
        orders.add(rig.order)
    assert orders == {12, 21}


@pytest.mark.parametrize("seed", SEEDS)
def test_launches_of_one_executable_are_ordered_across_streams(seed: int) -> None:
    rig = Rig(seed)
    rig.backend.stream_begin_capture(rig.s1, CaptureMode.RELAXED)
    rig.push(1, rig.s1)
    rig.push(2, rig.s1)
    executable = rig.backend.graph_instantiate(rig.backend.stream_end_capture(rig.s1))
    rig.backend.graph_launch(executable, rig.s1)
    rig.backend.graph_launch(executable, rig.s2)
    assert rig.order == 1212


def test_branches_of_a_graph_run_in_either_order_between_fork_and_join() -> None:
    orders = set()
    for seed in SEEDS:
        rig = Rig(seed)
        fork, join = rig.backend.event_create(), rig.backend.event_create()
        rig.backend.stream_begin_capture(rig.s1, CaptureMode.GLOBAL)
        rig.push(1, rig.s1)
        rig.backend.event_record(fork, rig.s1)
        rig.backend.stream_wait_event(rig.s2, fork)
        rig.push(2, rig.s1)
        rig.push(3, rig.s2)
        rig.backend.event_record(join, rig.s2)
        rig.backend.stream_wait_event(rig.s1, join)
        rig.push(4, rig.s1)
        graph = rig.backend.stream_end_capture(rig.s1)
        rig.backend.graph_launch(rig.backend.graph_instantiate(graph), rig.s1)
        orders.add(rig.order)
    assert orders == {1234, 1324}


def test_external_events_order_a_replay_against_another_stream() -> None:
    for seed in SEEDS:
        rig = Rig(seed)
        start, done = rig.backend.event_create(), rig.backend.event_create()
        rig.backend.stream_begin_capture(rig.s1, CaptureMode.GLOBAL)
        rig.backend.stream_wait_event(rig.s1, start, external=True)
        rig.push(2, rig.s1)
        rig.backend.event_record(done, rig.s1, external=True)
        executable = rig.backend.graph_instantiate(rig.backend.stream_end_capture(rig.s1))
        rig.push(1, rig.s2)
        rig.backend.event_record(start, rig.s2)
        rig.backend.graph_launch(executable, rig.s1)
        rig.backend.stream_wait_event(rig.s2, done)
        rig.push(3, rig.s2)
        assert rig.order == 123


def test_a_query_says_not_ready_for_a_while_and_never_for_ever() -> None:
    answers = set()
    for seed in SEEDS:
        rig = Rig(seed)
        for digit in range(3):
            rig.push(digit, rig.s1)
        first = rig.backend.raw.stream_query(rig.s1).error
        asked = [rig.backend.raw.stream_query(rig.s1).error for _ in range(3)]
        answers.add(first)
        assert asked[-1] == "cudaSuccess"
    assert answers == {"cudaSuccess", "cudaErrorNotReady"}


def test_the_host_races_with_a_copy_that_it_did_not_wait_for() -> None:
    seen = set()
    for seed in SEEDS:
        rig = Rig(seed)
        pinned = rig.backend.malloc_host(4)
        rig.backend.host_write(pinned, struct.pack("<i", 1))
        rig.backend.memcpy_async(rig.block, pinned, 4, rig.s1)
        rig.backend.host_write(pinned, struct.pack("<i", 2))
        seen.add(rig.order)
    assert seen == {1, 2}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pageable_source_is_read_before_the_call_returns(seed: int) -> None:
    rig = Rig(seed)
    page = rig.backend.pageable(4)
    rig.backend.host_write(page, struct.pack("<i", 1))
    rig.backend.memcpy_async(rig.block, page, 4, rig.s1)
    rig.backend.host_write(page, struct.pack("<i", 2))
    assert rig.order == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pageable_target_is_written_before_the_call_returns(seed: int) -> None:
    rig = Rig(seed)
    page = rig.backend.pageable(4)
    rig.push(7, rig.s1)
    rig.backend.memcpy_async(page, rig.block, 4, rig.s1)
    assert rig.backend.host_read(page, 4) == struct.pack("<i", 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_free_does_not_tear_a_block_away_under_work_in_flight(seed: int) -> None:
    rig = Rig(seed)
    source, target = rig.backend.malloc(4), rig.backend.malloc(4)
    rig.backend.memset(source, 1, 4)
    rig.backend.memcpy_async(target, source, 4, rig.s1)
    rig.backend.free(source)
    assert rig.number(target) == 0x01010101


def test_an_allocation_orders_nothing() -> None:
    orders = set()
    for seed in SEEDS:
        rig = Rig(seed)
        rig.push(1, rig.s1)
        rig.backend.malloc(64)
        rig.push(2, rig.s2)
        orders.add(rig.order)
    assert orders == {12, 21}


def test_what_waits_is_bounded() -> None:
    # Half of it would be left without a bound.
    scheduler, queue = Scheduler(World(Memory()), 0), Queue(blocking=False)
    for _ in range(5000):
        scheduler.submit(queue, Nothing())
    assert 500 < len(queue.works) <= 1024
