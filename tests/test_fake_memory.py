"""The fake's memory: addresses, generations, poison, faults; accesses of kernels enforced."""

from __future__ import annotations

import struct
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
    Space,
    Stream,
    StreamKind,
)
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.fake.kernels import KernelMisuse


def make(name: str, body: Any, *accesses: str, dtype: str = "float32") -> Kernel:
    params = tuple(Param(f"p{i}", Access(access), dtype) for i, access in enumerate(accesses))
    return Kernel(name=name, params=params, body=body, cuda="// not run here")


def _copy(x: Any, y: Any) -> None:
    y[...] = x


COPY = make("copy", _copy, "in", "out")


@pytest.fixture
def backend() -> Backend:
    return Backend(FakeDevice())


@pytest.fixture
def stream(backend: Backend) -> Stream:
    return backend.stream_create(StreamKind.NON_BLOCKING)


def floats(backend: Backend, pointer: Pointer, count: int) -> list[float]:
    return list(struct.unpack(f"<{count}f", backend.harness_read(pointer, 4 * count)))


def test_new_memory_holds_nans_at_an_aligned_address(backend: Backend) -> None:
    block = backend.malloc(10)
    assert block.address % 512 == 0
    assert all(value != value for value in floats(backend, block, 2))
    assert bytes.fromhex("10a1c07f10a1c07f10a1") == backend.harness_read(block, 10)


@pytest.mark.parametrize("call", ["malloc", "malloc_host", "malloc_managed"])
def test_to_ask_for_no_memory_is_refused_by_no_capture(
    backend: Backend, stream: Stream, call: str
) -> None:
    backend.stream_begin_capture(stream, CaptureMode.GLOBAL)
    made = getattr(backend.raw, call)(0)
    assert (made.error, made.value.address) == ("cudaSuccess", 0)
    assert backend.stream_is_capturing(stream).value == "Active"


def test_a_freed_address_comes_back_newest_first_as_another_allocation(backend: Backend) -> None:
    first, second = backend.malloc(100), backend.malloc(100)
    backend.harness_write(second, bytes(100))
    backend.free(first)
    backend.free(second)
    again = backend.malloc(100)
    assert second.address == again.address
    assert second.allocation < again.allocation
    assert bytes(100) != backend.harness_read(again, 100)
    assert first.address == backend.malloc(100).address


def test_another_size_gets_another_address(backend: Backend) -> None:
    freed = backend.malloc(100)
    backend.free(freed)
    assert freed.address != backend.malloc(1000).address


def test_a_free_of_what_is_not_allocated_is_an_invalid_value(backend: Backend) -> None:
    block, pinned = backend.malloc(100), backend.malloc_host(100)
    assert backend.raw.free(block.at(4)).error == "cudaErrorInvalidValue"
    assert backend.raw.free(pinned).error == "cudaErrorInvalidValue"
    assert backend.raw.free_host(block).error == "cudaErrorInvalidValue"
    backend.free(block)
    assert backend.raw.free(block).error == "cudaErrorInvalidValue"


def test_memory_runs_out_at_the_capacity_and_the_error_is_not_sticky() -> None:
    device = FakeDevice()
    device.capacity_bytes = 4096
    backend = Backend(device)
    block = backend.malloc(4096)
    assert backend.raw.malloc(1).error == "cudaErrorMemoryAllocation"
    backend.free(block)
    assert backend.mem_get_info() == (4096, 4096)
    assert backend.raw.malloc(1).error == "cudaSuccess"


def test_what_a_stream_will_free_makes_room() -> None:
    device = FakeDevice()
    device.capacity_bytes = 4096
    backend = Backend(device)
    stream = backend.stream_create()
    backend.free_async(backend.malloc_async(4096, stream), stream)
    assert backend.raw.malloc_async(4096, stream).error == "cudaSuccess"


def test_pageable_memory_is_pinned_in_place_once(backend: Backend) -> None:
    page = backend.pageable(64)
    assert backend.pointer_get_attributes(page) == "cudaMemoryTypeUnregistered"
    backend.host_register(page)
    assert backend.pointer_get_attributes(page) == "cudaMemoryTypeHost"
    again = backend.raw.host_register(page)
    assert again.error == "cudaErrorHostMemoryAlreadyRegistered"
    backend.host_unregister(page)
    assert backend.raw.host_unregister(page).error == "cudaErrorHostMemoryNotRegistered"


def test_the_host_reaches_host_memory_only(backend: Backend) -> None:
    for block in (backend.malloc_host(8), backend.pageable(8), backend.malloc_managed(8)):
        backend.host_write(block, b"abcdefgh")
        assert backend.host_read(block.at(2), 4) == b"cdef"
    assert backend.raw.host_read(backend.malloc(8), 8).error == "cudaErrorInvalidValue"
    assert Space.MANAGED is block.space


def test_a_kernel_reports_the_live_allocations_that_it_touches(
    backend: Backend, stream: Stream
) -> None:
    source, target = backend.malloc(64), backend.malloc(64)
    backend.launch(COPY, (source.at(16).array((4,)), target.array((4,))), stream)
    event = backend.trace().events[-1]
    assert ((source.allocation, 16, 16),) == event.reads
    assert ((target.allocation, 0, 16),) == event.writes


@pytest.mark.parametrize("call", ["stream_synchronize", "device_synchronize"])
def test_touching_freed_memory_is_sticky_and_surfaces_at_the_latest_in_the_next_wait(
    backend: Backend, stream: Stream, call: str
) -> None:
    source, target = backend.malloc(16), backend.malloc(16)
    backend.free(source)
    backend.raw.launch_kernel(
        COPY, (1, 1, 1), (4, 1, 1), (source.array((4,)), target.array((4,))), stream
    )
    args = (stream,) if call == "stream_synchronize" else ()
    assert getattr(backend.raw, call)(*args).error == "cudaErrorIllegalAddress"
    assert backend.raw.malloc(16).error == "cudaErrorIllegalAddress"
    assert backend.get_last_error() == "cudaErrorIllegalAddress"
    assert backend.get_last_error() == "cudaErrorIllegalAddress"


def test_touching_bytes_behind_an_allocation_is_a_fault_too(
    backend: Backend, stream: Stream
) -> None:
    source, target = backend.malloc(16), backend.malloc(64)
    backend.raw.memcpy_async(target, source, 32, stream)
    assert backend.raw.stream_synchronize(stream).error == "cudaErrorIllegalAddress"


def test_a_misaligned_array_is_a_fault(backend: Backend, stream: Stream) -> None:
    source, target = backend.malloc(64), backend.malloc(64)
    backend.launch(COPY, (source.at(2).array((4,)), target.array((4,))), stream)
    assert backend.raw.stream_synchronize(stream).error == "cudaErrorMisalignedAddress"


def run(backend: Backend, stream: Stream, kernel: Kernel, count: int = 1) -> None:
    blocks = [backend.malloc(16) for _ in range(count)]
    dtype = kernel.params[0].dtype
    items = {"float32": 4, "uint8": 16}[dtype]
    backend.launch(kernel, [block.array((items,), dtype) for block in blocks], stream)
    backend.stream_synchronize(stream)


def test_what_is_declared_in_cannot_be_written(backend: Backend, stream: Stream) -> None:
    def body(x: Any) -> None:
        x[0] = 1

    with pytest.raises(KernelMisuse, match="read-only"):
        run(backend, stream, make("writes_in", body, "in"))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_what_is_declared_out_has_to_be_written(
    backend: Backend, stream: Stream, dtype: str
) -> None:
    with pytest.raises(KernelMisuse, match="p0 was not written whole"):
        run(backend, stream, make("lazy", lambda _: None, "out", dtype=dtype))


def test_what_is_declared_out_has_to_be_written_whole(backend: Backend, stream: Stream) -> None:
    def body(x: Any) -> None:
        x[:3] = 1

    with pytest.raises(KernelMisuse, match="p0 was not written whole"):
        run(backend, stream, make("half", body, "out"))


def test_the_former_bytes_of_an_out_array_cannot_be_read(backend: Backend, stream: Stream) -> None:
    seen = []

    def body(x: Any) -> None:
        seen.append(x.copy())
        x[...] = 2

    block = backend.malloc(16)
    backend.harness_write(block, struct.pack("<4f", 1, 1, 1, 1))
    backend.launch(make("peeks", body, "out"), (block.array((4,)),), stream)
    assert floats(backend, block, 4) == [2.0, 2.0, 2.0, 2.0]
    assert np.isnan(seen[0]).all()


def test_arguments_other_than_declared_are_the_engines_mistake(
    backend: Backend, stream: Stream
) -> None:
    array = backend.malloc(16).array((4,))
    with pytest.raises(KernelMisuse, match="takes 2 arguments, 1 were given"):
        backend.launch(COPY, (array,), stream)
    with pytest.raises(KernelMisuse, match="p1 is an array, not a scalar"):
        backend.launch(COPY, (array, 3), stream)
    with pytest.raises(KernelMisuse, match="p0 is float32, not int32"):
        backend.launch(COPY, (array.pointer.array((4,), "int32"), array), stream)


def test_scalars_arrive_as_a_device_gets_them(backend: Backend, stream: Stream) -> None:
    seen: list[Any] = []
    kernel = Kernel(
        name="scalars",
        params=(Param("n", Access.SCALAR, "int32"), Param("f", Access.SCALAR)),
        body=lambda n, f: seen.extend((n, f)),
        cuda="// not run here",
    )
    backend.launch(kernel, (3, 0.1), stream)
    backend.stream_synchronize(stream)
    assert seen == [3, 0.10000000149011612]


def test_a_launch_that_no_device_takes_is_an_invalid_configuration(
    backend: Backend, stream: Stream
) -> None:
    array = backend.malloc(16).array((4,))
    for grid, block in (((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (1025, 1, 1))):
        status = backend.raw.launch_kernel(COPY, grid, block, (array, array), stream)
        assert status.error == "cudaErrorInvalidConfiguration"
