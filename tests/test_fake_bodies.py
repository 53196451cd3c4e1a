"""The bodies of the fake's kernels: what one does to its arrays reaches no other run."""

from __future__ import annotations

import struct
import threading
import tracemalloc
from contextvars import ContextVar
from typing import Any

import numpy as np
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
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.fake.kernels import KernelMisuse

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


def make(body: Any, access: str, dtype: str = "float32") -> Kernel:
    params = (Param("x", Access(access), dtype),)
    return Kernel(name="body", params=params, body=body, cuda="// not run here")


class Rig:
    """A device, a stream and two blocks of four floats that are zero."""

    def __init__(self) -> None:
        self.backend = Backend(FakeDevice())
        self.stream: Stream = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.block, self.other = self.backend.malloc(16), self.backend.malloc(16)
        for block in (self.block, self.other):
            self.backend.memset(block, 0, 16)

    def run(
        self,
        kernel: Kernel,
        *,
        shape: tuple[int, ...] = (2, 2),
        on: Pointer | None = None,
        dtype: str = "float32",
    ) -> None:
        self.backend.launch(kernel, ((on or self.block).array(shape, dtype),), self.stream)
        self.backend.stream_synchronize(self.stream)

    def floats(self) -> list[float]:
        return list(struct.unpack("<4f", self.backend.harness_read(self.block, 16)))


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _unlock(x: Any) -> None:
    x.flags.writeable = True


@pytest.mark.parametrize("unlock", [_unlock, lambda x: x.setflags(write=True)])
def test_what_is_declared_in_cannot_be_made_writeable(rig: Rig, unlock: Any) -> None:
    with pytest.raises(KernelMisuse, match="cannot set WRITEABLE flag to True"):
        rig.run(make(unlock, "in"))
    with pytest.raises(KernelMisuse, match="read-only"):
        rig.run(make(lambda x: x.fill(7), "in"))
    assert rig.floats() == [0, 0, 0, 0]


def test_what_is_declared_in_shows_what_was_written_since(rig: Rig) -> None:
    seen: list[Any] = []
    reads = make(lambda x: seen.append(x.tolist()), "in")
    rig.run(reads)
    rig.run(make(lambda x: x.fill(3), "inout"))
    rig.run(reads)
    assert seen == [[[0, 0], [0, 0]], [[3, 3], [3, 3]]]


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.parametrize("access", ["in", "inout", "out"])
def test_an_array_that_a_body_reshapes_has_its_shape_again_in_the_next(
    rig: Rig, access: str
) -> None:
    seen = []

    def reshape(x: Any) -> None:
        seen.append(x.shape)
        if access != "in":
            x[...] = 1
        x.shape = (4,)

    kernel = make(reshape, access)
    rig.run(kernel)
    rig.run(kernel)
    assert seen == [(2, 2), (2, 2)]


@pytest.mark.parametrize("access", ["inout", "out"])
def test_an_array_that_a_body_locks_can_be_written_by_the_next(rig: Rig, access: str) -> None:
    def lock(x: Any) -> None:
        x[...] = 1
        x.flags.writeable = False

    rig.run(make(lock, access))
    rig.run(make(lambda x: x.fill(2), access))
    assert rig.floats() == [2, 2, 2, 2]


def test_a_launch_that_is_replayed_gets_fresh_arrays_each_time(rig: Rig) -> None:
    kept: list[Any] = []

    def keep(x: Any) -> None:
        x[...] = len(kept)
        kept.append(x)
        x.flags.writeable = False

    rig.backend.stream_begin_capture(rig.stream, CaptureMode.RELAXED)
    rig.backend.launch(make(keep, "out"), (rig.block.array((4,)),), rig.stream)
    graph = rig.backend.stream_end_capture(rig.stream)
    executable = rig.backend.graph_instantiate(graph)
    for _ in range(3):
        rig.backend.graph_launch(executable, rig.stream)
    rig.backend.stream_synchronize(rig.stream)
    assert [x.tolist() for x in kept] == [[0] * 4, [1] * 4, [2] * 4]
    assert rig.floats() == [2, 2, 2, 2]


def test_who_keeps_its_out_array_sees_no_other_kernels_bytes(rig: Rig) -> None:
    kept: list[Any] = []

    def keep(x: Any) -> None:
        x[...] = 1
        kept.append(x)

    rig.run(make(keep, "out"))
    rig.run(make(lambda x: x.fill(2), "out"), on=rig.other)
    assert kept[0].tolist() == [[1, 1], [1, 1]]


def test_who_keeps_its_out_array_writes_into_no_memory_with_it(rig: Rig) -> None:
    kept: list[Any] = []

    def keep(x: Any) -> None:
        x[...] = 1
        kept.append(x)

    rig.run(make(keep, "out"))
    kept[0][...] = 5
    assert rig.floats() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "items"), [("float32", 4), ("int32", 4), ("int64", 2), ("uint8", 16)]
)
def test_what_is_declared_out_arrives_in_every_type(rig: Rig, dtype: str, items: int) -> None:
    kernel = make(lambda x: x.fill(7), "out", dtype)
    rig.run(kernel, shape=(items,), dtype=dtype)
    found = np.frombuffer(rig.backend.harness_read(rig.block, 16), dtype)
    assert [7] * items == found.tolist()


def test_out_arrays_of_many_shapes_are_not_kept(rig: Rig) -> None:
    kernel = make(lambda x: x.fill(1), "out")
    block = rig.backend.malloc(64 * 4096)
    rig.run(kernel, shape=(64 * 1024,), on=block)
    tracemalloc.start()
    try:
        for rows in range(1, 65):
            rig.run(kernel, shape=(rows, 1024), on=block)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Kept, the arrays would hold eight megabytes.
    assert held < 1_000_000


def _overflow(x: Any) -> None:
    x[...] = np.float32(3e38)
    x *= 10


def _divide(x: Any) -> None:
    np.divide(1, x, out=x)


def _invalid(x: Any) -> None:
    np.divide(x, x, out=x)


BODIES = pytest.mark.parametrize("body", [_overflow, _divide, _invalid])


@BODIES
def test_arithmetic_without_a_number_warns_no_more_than_on_a_device(rig: Rig, body: Any) -> None:
    rig.run(make(body, "inout"))
    assert not np.isfinite(rig.floats()).any()


@BODIES
def test_another_threads_kernels_do_not_warn_either(rig: Rig, body: Any) -> None:
    ended: list[str] = []

    def serve() -> None:
        try:
            rig.run(make(body, "inout"))
            ended.append("done")
        except Warning as warning:
            ended.append(str(warning))

    thread = threading.Thread(target=serve)
    thread.start()
    thread.join()
    assert ended == ["done"]


def test_an_engine_that_guards_its_own_arithmetic_keeps_its_guard(rig: Rig) -> None:
    with np.errstate(all="raise"):
        rig.run(make(_divide, "inout"))
        assert np.geterr()["divide"] == "raise"
    assert not np.isfinite(rig.floats()).any()


def test_a_body_sees_what_its_caller_set_for_the_request(rig: Rig) -> None:
    seen = []
    token = REQUEST.set("second")
    try:
        rig.run(make(lambda _: seen.append(REQUEST.get()), "in"))
    finally:
        REQUEST.reset(token)
    assert seen == ["second"]


@pytest.mark.parametrize("call", ["stream_query", "stream_synchronize"])
def test_a_body_that_calls_the_runtime_is_a_misuse_and_the_next_kernel_runs(
    rig: Rig, call: str
) -> None:
    asks = make(lambda _: getattr(rig.backend.raw, call)(rig.stream), "in")
    with pytest.raises(KernelMisuse, match=f"kernel body: its body called {call}; a kernel cannot"):
        rig.run(asks)
    rig.run(make(lambda x: x.fill(2), "inout"))
    assert rig.floats() == [2, 2, 2, 2]
