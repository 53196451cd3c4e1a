"""Copies, sets, launches and host functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from capturegate.backend import SUCCESS, Argument, Dim3, Kernel, Outcome, Pointer, Space, Stream
from capturegate.backend import Copy as BatchCopy
from capturegate_backends.fake.context import INVALID_VALUE, Context, runtime_call
from capturegate_backends.fake.kernels import KernelCall, launchable
from capturegate_backends.fake.operations import (
    Batch,
    Copy,
    HostCall,
    Operation,
    Set,
    StagedCopy,
)

INVALID_CONFIGURATION = "cudaErrorInvalidConfiguration"


class WorkCalls:
    """The calls of one device that do work in streams."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @runtime_call
    def memcpy(self, dst: Pointer, src: Pointer, nbytes: int) -> Outcome[None]:
        """Copy on the legacy stream and wait."""
        return self._synchronous("memcpy", self._copy(dst, src, nbytes))

    @runtime_call
    def memcpy_async(
        self, dst: Pointer, src: Pointer, nbytes: int, stream: Stream
    ) -> Outcome[None]:
        """Copy in stream order.

        Outside a capture a pageable source is read before the call returns, and a pageable target
        is written before it returns.
        """
        context = self.context
        copy = self._copy(dst, src, nbytes)
        operation: Operation = copy
        target = context.stream(stream)
        if target is not None and target.capture is None and Space.PAGEABLE in copy.route:
            block = context.memory.holding(src.address, nbytes)
            if block is not None and block.space is Space.PAGEABLE:
                start = src.address - block.address
                data = block.data[start : start + nbytes].tobytes()
                operation = StagedCopy(target=dst.address, data=data, reads=copy.reads)
        out = context.enqueue("memcpy_async", stream, operation)
        if out.error == SUCCESS and out.capture == 0 and copy.route[0] is Space.PAGEABLE and target:
            context.scheduler.finish(target.queue.tail)
            if context.world.refusal:
                return context.fail("memcpy_async", context.world.refusal)
        return out

    @runtime_call
    def memcpy_batch_async(self, copies: Sequence[BatchCopy], stream: Stream) -> Outcome[None]:
        """Several copies as one piece of work."""
        baked = tuple(self._copy(dst, src, nbytes) for dst, src, nbytes in copies)
        return self.context.enqueue("memcpy_batch_async", stream, Batch(copies=baked))

    @runtime_call
    def memset(self, dst: Pointer, value: int, nbytes: int) -> Outcome[None]:
        """Set on the legacy stream and wait."""
        operation = Set(target=dst.address, value=value, nbytes=nbytes)
        refused = self._set("memset", dst, self.context.legacy.handle)
        return refused or self._synchronous("memset", operation)

    @runtime_call
    def memset_async(self, dst: Pointer, value: int, nbytes: int, stream: Stream) -> Outcome[None]:
        """Set in stream order."""
        operation = Set(target=dst.address, value=value, nbytes=nbytes)
        refused = self._set("memset_async", dst, stream)
        return refused or self.context.enqueue("memset_async", stream, operation)

    @runtime_call
    def launch_kernel(
        self, kernel: Kernel, grid: Dim3, block: Dim3, args: Sequence[Argument], stream: Stream
    ) -> Outcome[None]:
        """Launch in stream order; the arguments are baked by value."""
        call = KernelCall(kernel, grid, block, args)
        if not launchable(grid, block):
            return self.context.fail("launch_kernel", INVALID_CONFIGURATION)
        return self.context.enqueue("launch_kernel", stream, call)

    @runtime_call
    def launch_host_func(self, function: Callable[[], None], stream: Stream) -> Outcome[None]:
        """Call a host function in stream order."""
        return self.context.enqueue("launch_host_func", stream, HostCall(function=function))

    @runtime_call
    def module_load_data(self, kernel: Kernel) -> Outcome[None]:  # noqa: ARG002
        """Nothing to load: the body of the kernel is Python."""
        return self.context.answer("module_load_data")

    def _set(self, call: str, dst: Pointer, stream: Stream) -> Outcome[None] | None:
        """The refusal of a set of pageable memory, which the device cannot reach."""
        context = self.context
        target = context.stream(stream)
        if target is None or target.capture is not None or self._space(dst) is not Space.PAGEABLE:
            return None
        error = context.machine.judge(call, context.thread, target)
        return context.fail(call, INVALID_VALUE if error == SUCCESS else error)

    def _synchronous(self, call: str, operation: Operation) -> Outcome[None]:
        context = self.context
        out: Outcome[None] = context.enqueue(call, context.legacy.handle, operation)
        if out.error != SUCCESS:
            return out
        context.scheduler.finish(context.legacy.queue.tail)
        if context.world.refusal:
            return context.fail(call, context.world.refusal)
        return out

    def _copy(self, dst: Pointer, src: Pointer, nbytes: int) -> Copy:
        return Copy(
            target=dst.address,
            source=src.address,
            nbytes=nbytes,
            route=(self._space(dst), self._space(src)),
        )

    def _space(self, pointer: Pointer) -> Space:
        """Where the memory lives that stands there now, pinned in place or not."""
        block = self.context.memory.holding(pointer.address)
        if block is None:
            return pointer.space
        return Space.PINNED if block.registered else block.space
