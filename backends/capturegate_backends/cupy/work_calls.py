"""Copies, sets, launches and host functions on a real device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from capturegate.backend.device import Copy, Dim3
from capturegate.backend.handles import (
    Pointer,
    Space,
    Stream,
)
from capturegate.backend.kernel import Argument, Kernel
from capturegate.status import Outcome
from capturegate_backends.cupy.context import Context, accesses

_HOST_SPACES = (Space.PINNED, Space.PAGEABLE)


class WorkCalls:
    """The calls of one device that do work in streams."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loaded: list[Any] = []
        self._functions: dict[int, Callable[[], None]] = {}
        self._function_keys: dict[Callable[[], None], int] = {}
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._trampoline = callback(self._run_host_function)
        self._launch_host_func = ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc
        self._launch_host_func.argtypes = (ctypes.c_void_p, callback, ctypes.c_void_p)

    def memcpy(self, dst: Pointer, src: Pointer, nbytes: int) -> Outcome[None]:
        """Copy; the kind follows from the two spaces."""
        kind = self._direction(dst, src)
        (code,) = self._context.rt.cudaMemcpy(dst.address, src.address, nbytes, kind)
        return self._context.now(code, ((src, nbytes),), ((dst, nbytes),))

    def memcpy_async(
        self, dst: Pointer, src: Pointer, nbytes: int, stream: Stream
    ) -> Outcome[None]:
        """Copy in stream order."""
        kind = self._direction(dst, src)
        (code,) = self._context.rt.cudaMemcpyAsync(
            dst.address, src.address, nbytes, kind, stream.native
        )
        return self._context.on(stream, code, None, "memcpy", ((src, nbytes),), ((dst, nbytes),))

    def memcpy_batch_async(self, copies: Sequence[Copy], stream: Stream) -> Outcome[None]:
        """Several copies in one call."""
        rt = self._context.rt
        attributes = rt.cudaMemcpyAttributes()
        attributes.srcAccessOrder = rt.cudaMemcpySrcAccessOrder.cudaMemcpySrcAccessOrderStream
        answer = rt.cudaMemcpyBatchAsync(
            [dst.address for dst, _, _ in copies],
            [src.address for _, src, _ in copies],
            [nbytes for _, _, nbytes in copies],
            len(copies),
            [attributes],
            [0],
            1,
            stream.native,
        )
        return self._context.on(
            stream,
            answer[0],
            None,
            "memcpy",
            tuple((src, nbytes) for _, src, nbytes in copies),
            tuple((dst, nbytes) for dst, _, nbytes in copies),
        )

    def memset(self, dst: Pointer, value: int, nbytes: int) -> Outcome[None]:
        """Set bytes."""
        (code,) = self._context.rt.cudaMemset(dst.address, value, nbytes)
        return self._context.now(code, (), ((dst, nbytes),))

    def memset_async(self, dst: Pointer, value: int, nbytes: int, stream: Stream) -> Outcome[None]:
        """Set bytes in stream order."""
        (code,) = self._context.rt.cudaMemsetAsync(dst.address, value, nbytes, stream.native)
        return self._context.on(stream, code, None, "memset", (), ((dst, nbytes),))

    def launch_kernel(
        self, kernel: Kernel, grid: Dim3, block: Dim3, args: Sequence[Argument], stream: Stream
    ) -> Outcome[None]:
        """Launch through the driver; compiles and loads the kernel when it is new."""
        function = self._context.kernels.function(kernel)
        packed = self._context.kernels.packed(kernel, args)
        (code,) = self._context.driver.cuLaunchKernel(
            function, *grid, *block, 0, int(stream.native), packed.address, 0
        )
        reads, writes = accesses(kernel, args)
        return self._context.on(stream, code, None, kernel.name, reads, writes)

    def launch_host_func(self, function: Callable[[], None], stream: Stream) -> Outcome[None]:
        """Run a host function in stream order."""
        key = self._function_keys.setdefault(function, len(self._function_keys) + 1)
        self._functions[key] = function
        # cuda-python's own call frees what it wraps after one run: a replay would crash.
        code = self._launch_host_func(int(stream.native), self._trampoline, key)
        return self._context.on(stream, code, None, "host")

    def module_load_data(self, kernel: Kernel) -> Outcome[None]:
        """Load a kernel's module once more."""
        if not self._context.open:  # to unload one would invalidate a capture
            while self._loaded:
                self._context.driver.cuModuleUnload(self._loaded.pop())
        error, module = self._context.driver.cuModuleLoadData(self._context.kernels.image(kernel))
        if int(error) == 0:
            self._loaded.append(module)
        return Outcome(self._context.error(error))

    def _direction(self, dst: Pointer, src: Pointer) -> Any:
        kinds = self._context.rt.cudaMemcpyKind
        if Space.MANAGED in (dst.space, src.space):
            return kinds.cudaMemcpyDefault
        if dst.space in _HOST_SPACES:
            if src.space in _HOST_SPACES:
                return kinds.cudaMemcpyHostToHost
            return kinds.cudaMemcpyDeviceToHost
        if src.space in _HOST_SPACES:
            return kinds.cudaMemcpyHostToDevice
        return kinds.cudaMemcpyDeviceToDevice

    def _run_host_function(self, key: int | None) -> None:
        self._functions[key or 0]()
