"""The calls of a real device about memory, and accesses by the host and the harness."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

from capturegate.backend.handles import (
    CaptureMode,
    Pointer,
    Space,
    Stream,
)
from capturegate.status import SUCCESS, Outcome, Span
from capturegate_backends.cupy.context import Context


class MemoryCalls:
    """The memory calls of one device."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pages: dict[int, mmap.mmap] = {}
        rt = context.rt
        error, self._quiet = rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking)
        context.must(error, "the creation of a stream")

    def malloc(self, nbytes: int) -> Outcome[Pointer]:
        """Device memory."""
        error, address = self._context.rt.cudaMalloc(nbytes)
        return self._allocated(error, address, nbytes, Space.DEVICE)

    def free(self, pointer: Pointer) -> Outcome[None]:
        """Free device memory."""
        return self._freed(self._context.rt.cudaFree(pointer.address), pointer)

    def malloc_async(self, nbytes: int, stream: Stream) -> Outcome[Pointer]:
        """Stream-ordered memory; in a capture a node that makes it."""
        error, address = self._context.rt.cudaMallocAsync(nbytes, stream.native)
        made = self._allocated(error, address, nbytes, Space.DEVICE)
        return self._context.on(stream, error, made.value)

    def free_async(self, pointer: Pointer, stream: Stream) -> Outcome[None]:
        """Free in stream order; in a capture a node that frees."""
        (error,) = self._context.rt.cudaFreeAsync(pointer.address, stream.native)
        outcome = self._context.on(stream, error)
        if outcome.error == SUCCESS and not outcome.capture:
            self._context.memory.drop(pointer.address)
        return outcome

    def malloc_host(self, nbytes: int) -> Outcome[Pointer]:
        """Pinned host memory."""
        error, address = self._context.rt.cudaMallocHost(nbytes)
        return self._allocated(error, address, nbytes, Space.PINNED)

    def free_host(self, pointer: Pointer) -> Outcome[None]:
        """Free pinned host memory."""
        return self._freed(self._context.rt.cudaFreeHost(pointer.address), pointer)

    def malloc_managed(self, nbytes: int) -> Outcome[Pointer]:
        """Managed memory, attached globally."""
        error, address = self._context.rt.cudaMallocManaged(
            nbytes, self._context.rt.cudaMemAttachGlobal
        )
        return self._allocated(error, address, nbytes, Space.MANAGED)

    def host_register(self, pointer: Pointer) -> Outcome[None]:
        """Pin pageable memory in place."""
        return self._context.plain(
            self._context.rt.cudaHostRegister(pointer.address, pointer.nbytes, 0)
        )

    def host_unregister(self, pointer: Pointer) -> Outcome[None]:
        """Undo `host_register`."""
        return self._context.plain(self._context.rt.cudaHostUnregister(pointer.address))

    def mem_get_info(self) -> Outcome[tuple[int, int]]:
        """Free and total device memory in bytes."""
        error, free, total = self._context.rt.cudaMemGetInfo()
        return Outcome(self._context.error(error), (free, total) if int(error) == 0 else None)

    def pointer_get_attributes(self, pointer: Pointer) -> Outcome[str]:
        """The memory type by CUDA's name."""
        error, attributes = self._context.rt.cudaPointerGetAttributes(pointer.address)
        if int(error) != 0:
            return Outcome(self._context.error(error))
        return Outcome(SUCCESS, attributes.type.name)

    def device_get_default_mem_pool(self) -> Outcome[int]:
        """The handle of the default pool."""
        error, pool = self._context.rt.cudaDeviceGetDefaultMemPool(self._context.ordinal)
        return Outcome(self._context.error(error), int(pool) if int(error) == 0 else None)

    def mem_pool_trim_to(self, pool: int, nbytes: int) -> Outcome[None]:
        """Release what the pool holds above `nbytes` bytes."""
        return self._context.plain(
            self._context.rt.cudaMemPoolTrimTo(self._context.rt.cudaMemPool_t(pool), nbytes)
        )

    def pageable(self, nbytes: int) -> Outcome[Pointer]:
        """Ordinary host memory, in pages of its own."""
        pages = mmap.mmap(-1, max(nbytes, 1))
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        self._pages[address] = pages
        return Outcome(SUCCESS, self._context.memory.add(address, nbytes, Space.PAGEABLE))

    def host_read(self, pointer: Pointer, nbytes: int) -> Outcome[bytes]:
        """The host reads."""
        data = ctypes.string_at(pointer.address, nbytes)
        return Outcome(SUCCESS, data, reads=(self._context.memory.span(pointer, nbytes),))

    def host_write(self, pointer: Pointer, data: bytes) -> Outcome[None]:
        """The host writes."""
        ctypes.memmove(pointer.address, data, len(data))
        return Outcome(SUCCESS, writes=(self._context.memory.span(pointer, len(data)),))

    def peek(self, pointer: Pointer, nbytes: int) -> Outcome[bytes]:
        """The harness reads any memory."""
        buffer = ctypes.create_string_buffer(nbytes)
        error = self._look(ctypes.addressof(buffer), pointer.address, nbytes)
        span: Span = self._context.memory.span(pointer, nbytes)
        return Outcome(error, buffer.raw if error == SUCCESS else None, reads=(span,))

    def poke(self, pointer: Pointer, data: bytes) -> Outcome[None]:
        """The harness writes any memory."""
        buffer = ctypes.create_string_buffer(data, len(data))
        error = self._look(pointer.address, ctypes.addressof(buffer), len(data))
        return Outcome(error, writes=(self._context.memory.span(pointer, len(data)),))

    def _allocated(self, code: Any, address: Any, nbytes: int, space: Space) -> Outcome[Pointer]:
        error = self._context.error(code)
        if error != SUCCESS:
            return Outcome(error)
        return Outcome(error, self._context.memory.add(int(address), nbytes, space))

    def _freed(self, answer: Any, pointer: Pointer) -> Outcome[None]:
        outcome = self._context.plain(answer)
        if outcome.error == SUCCESS:
            self._context.memory.drop(pointer.address)
        return outcome

    def _look(self, dst: int, src: int, nbytes: int) -> str:
        """Copy once the device is idle, or beside an open capture without touching it."""
        rt = self._context.rt
        with self._relaxed():
            if not self._context.open:
                (code,) = rt.cudaDeviceSynchronize()
                if int(code) != 0:
                    return self._context.error(code)
            native = self._quiet
            kind = rt.cudaMemcpyKind.cudaMemcpyDefault
            (code,) = rt.cudaMemcpyAsync(dst, src, nbytes, kind, native)
            if int(code) == 0:
                (code,) = rt.cudaStreamSynchronize(native)
            return self._context.error(code)

    @contextlib.contextmanager
    def _relaxed(self) -> Iterator[None]:
        exchange = self._context.rt.cudaThreadExchangeStreamCaptureMode
        _, before = exchange(self._context.modes[CaptureMode.RELAXED])
        try:
            yield
        finally:
            exchange(before)

    def close(self) -> None:
        """Give all device and pinned memory back."""
        rt = self._context.rt
        for address, space in self._context.memory.live():
            if space is Space.PINNED:
                rt.cudaFreeHost(address)
            elif space is not Space.PAGEABLE:
                rt.cudaFree(address)
        rt.cudaStreamDestroy(self._quiet)
