"""Allocating, freeing and asking about memory; accesses by the host and the harness."""

from __future__ import annotations

import numpy as np

from capturegate.backend import SUCCESS, Outcome, Pointer, Space, Stream
from capturegate_backends.fake.context import INVALID_HANDLE, INVALID_VALUE, Context, runtime_call
from capturegate_backends.fake.memory import Block
from capturegate_backends.fake.operations import Allocate, Release

OUT_OF_MEMORY = "cudaErrorMemoryAllocation"
ALREADY_REGISTERED = "cudaErrorHostMemoryAlreadyRegistered"
NOT_SUPPORTED = "cudaErrorNotSupported"
NOT_REGISTERED = "cudaErrorHostMemoryNotRegistered"
DEFAULT_POOL = 1
NULL = Pointer(0, 0, 0)

_DEVICE_SPACES = (Space.DEVICE, Space.MANAGED)
_MEMORY_TYPES = {
    Space.DEVICE: "cudaMemoryTypeDevice",
    Space.MANAGED: "cudaMemoryTypeManaged",
    Space.PINNED: "cudaMemoryTypeHost",
}
_UNREGISTERED = "cudaMemoryTypeUnregistered"


class MemoryCalls:
    """The memory calls of one device."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @runtime_call
    def malloc(self, nbytes: int) -> Outcome[Pointer]:
        """Device memory; none, and no error, for zero bytes."""
        return self._allocate("malloc", nbytes, Space.DEVICE)

    @runtime_call
    def malloc_host(self, nbytes: int) -> Outcome[Pointer]:
        """Pinned host memory."""
        return self._allocate("malloc_host", nbytes, Space.PINNED)

    @runtime_call
    def malloc_managed(self, nbytes: int) -> Outcome[Pointer]:
        """Managed memory; none, and no error, for zero bytes."""
        return self._allocate("malloc_managed", nbytes, Space.MANAGED)

    @runtime_call
    def free(self, pointer: Pointer) -> Outcome[None]:
        """Free device memory, by address: a stale pointer frees the new tenant."""
        return self._free("free", pointer, _DEVICE_SPACES)

    @runtime_call
    def free_host(self, pointer: Pointer) -> Outcome[None]:
        """Free pinned host memory."""
        return self._free("free_host", pointer, (Space.PINNED,))

    @runtime_call
    def malloc_async(self, nbytes: int, stream: Stream) -> Outcome[Pointer]:
        """Stream-ordered memory; in a capture a node that makes it at each replay."""
        context = self.context
        target = context.stream(stream)
        if target is None:
            return context.fail("malloc_async", INVALID_HANDLE)
        capture = target.capture
        error = context.machine.judge("malloc_async", context.thread, target)
        if error != SUCCESS:
            return context.fail("malloc_async", error, capture.id if capture else 0)
        if capture is None:
            return self._handed_out("malloc_async", nbytes, Space.DEVICE, pooled=True)
        if nbytes == 0:
            return Outcome(SUCCESS, NULL, capture.id)
        if nbytes > context.memory.capacity_bytes:
            return context.fail("malloc_async", OUT_OF_MEMORY, capture.id)
        block = context.memory.reserve(nbytes)
        operation = Allocate(address=block.address, nbytes=nbytes)
        node = context.machine.record("malloc_async", capture, target, operation, context.memory)
        pointer = Pointer(block.address, nbytes, block.id)
        return Outcome(SUCCESS, pointer, capture.id, node.id if node else 0)

    @runtime_call
    def free_async(self, pointer: Pointer, stream: Stream) -> Outcome[None]:
        """Free in stream order; in a capture only what a node of a graph allocates."""
        context = self.context
        target = context.stream(stream)
        if target is not None and target.capture is not None:
            if pointer.address == 0:
                error = context.machine.judge("free_async", context.thread, target)
                if error != SUCCESS:
                    return context.fail("free_async", error, target.capture.id)
                return Outcome(SUCCESS, None, target.capture.id)
            nodes = [node.operation for node in target.capture.graph.nodes.values()]
            freed = any(isinstance(o, Release) and o.address == pointer.address for o in nodes)
            return context.enqueue(
                "free_async",
                stream,
                Release(address=pointer.address),
                foreign=freed or not context.memory.is_reserved(pointer.address),
            )
        if target is None:
            return context.fail("free_async", INVALID_HANDLE)
        error = context.machine.judge("free_async", context.thread, target)
        if error != SUCCESS:
            return context.fail("free_async", error)
        if pointer.address == 0:
            return Outcome(SUCCESS)
        block = context.memory.starting_at(pointer.address)
        if block is not None and block.space is Space.MANAGED:
            return context.fail("free_async", NOT_SUPPORTED)
        if block is None or block.space is not Space.DEVICE or block.leaving:
            return context.fail("free_async", INVALID_VALUE)
        block.leaving = True
        context.submit(target, Release(address=pointer.address))
        return Outcome(SUCCESS)

    @runtime_call
    def host_register(self, pointer: Pointer) -> Outcome[None]:
        """Pin pageable memory in place."""
        return self._register("host_register", pointer, pinned=True)

    @runtime_call
    def host_unregister(self, pointer: Pointer) -> Outcome[None]:
        """Undo `host_register`."""
        return self._register("host_unregister", pointer, pinned=False)

    @runtime_call
    def mem_get_info(self) -> Outcome[tuple[int, int]]:
        """Free and total device memory."""
        memory = self.context.memory
        return Outcome(SUCCESS, (memory.free_bytes, memory.capacity_bytes))

    @runtime_call
    def pointer_get_attributes(self, pointer: Pointer) -> Outcome[str]:
        """The memory type by CUDA's name."""
        block = self.context.memory.holding(pointer.address)
        if block is None:
            return Outcome(SUCCESS, _UNREGISTERED)
        space = Space.PINNED if block.registered else block.space
        return Outcome(SUCCESS, _MEMORY_TYPES.get(space, _UNREGISTERED))

    @runtime_call
    def device_get_default_mem_pool(self) -> Outcome[int]:
        """The handle of the one pool."""
        return Outcome(SUCCESS, DEFAULT_POOL)

    @runtime_call
    def mem_pool_trim_to(self, pool: int, nbytes: int) -> Outcome[None]:
        """Give back what the pool holds; the floor `nbytes` keeps nothing alive here."""
        context = self.context
        error = context.machine.judge("mem_pool_trim_to", context.thread)
        if error == SUCCESS and (pool != DEFAULT_POOL or nbytes < 0):
            error = INVALID_VALUE
        if error != SUCCESS:
            return context.fail("mem_pool_trim_to", error)
        context.memory.trim()
        return Outcome(SUCCESS)

    def pageable(self, nbytes: int) -> Outcome[Pointer]:
        """Ordinary host memory, as from the C library."""
        with self.context.lock:
            return self._handed_out("pageable", nbytes, Space.PAGEABLE)

    def host_read(self, pointer: Pointer, nbytes: int) -> Outcome[bytes]:
        """The host reads what is there now, whatever the device is about to write."""
        with self.context.lock:
            block = self._host_block(pointer, nbytes)
            if block is None:
                return Outcome(INVALID_VALUE)
            start = pointer.address - block.address
            data = block.data[start : start + nbytes].tobytes()
            return Outcome(SUCCESS, data, reads=((block.id, start, nbytes),))

    def host_write(self, pointer: Pointer, data: bytes) -> Outcome[None]:
        """The host writes, whatever the device is about to read."""
        with self.context.lock:
            block = self._host_block(pointer, len(data))
            if block is None:
                return Outcome(INVALID_VALUE)
            start = pointer.address - block.address
            _put(block, start, data)
            return Outcome(SUCCESS, writes=((block.id, start, len(data)),))

    def peek(self, pointer: Pointer, nbytes: int) -> Outcome[bytes]:
        """The harness reads any memory of an idle device."""
        context = self.context
        with context.lock:
            context.scheduler.finish_all()
            block = context.memory.holding(pointer.address, nbytes)
            if block is None or context.world.refusal:
                return Outcome(context.world.refusal or INVALID_VALUE)
            start = pointer.address - block.address
            data = block.data[start : start + nbytes].tobytes()
            return Outcome(SUCCESS, data, reads=((block.id, start, nbytes),))

    def poke(self, pointer: Pointer, data: bytes) -> Outcome[None]:
        """The harness writes any memory of an idle device."""
        context = self.context
        with context.lock:
            context.scheduler.finish_all()
            block = context.memory.holding(pointer.address, len(data))
            if block is None or context.world.refusal:
                return Outcome(context.world.refusal or INVALID_VALUE)
            start = pointer.address - block.address
            _put(block, start, data)
            return Outcome(SUCCESS, writes=((block.id, start, len(data)),))

    def _allocate(self, call: str, nbytes: int, space: Space) -> Outcome[Pointer]:
        context = self.context
        if nbytes == 0:
            return Outcome(SUCCESS, NULL)  # nothing is asked of the driver, and nothing refused
        error = context.machine.judge(call, context.thread)
        if error != SUCCESS:
            return context.fail(call, error)
        return self._handed_out(call, nbytes, space)

    def _handed_out(
        self, call: str, nbytes: int, space: Space, *, pooled: bool = False
    ) -> Outcome[Pointer]:
        if nbytes == 0:
            return Outcome(SUCCESS, NULL)
        context = self.context
        block = context.memory.allocate(nbytes, space, pooled=pooled)
        if block is None:
            # Frees that stand in a stream may still make room.
            context.scheduler.finish_all()
            block = context.memory.allocate(nbytes, space, pooled=pooled)
        if block is None:
            return context.fail(call, OUT_OF_MEMORY)
        return Outcome(SUCCESS, Pointer(block.address, nbytes, block.id, space))

    def _free(self, call: str, pointer: Pointer, spaces: tuple[Space, ...]) -> Outcome[None]:
        context = self.context
        error = context.machine.judge(call, context.thread)
        if error != SUCCESS:
            return context.fail(call, error)
        if pointer.address == 0:
            return Outcome(SUCCESS)
        block = context.memory.starting_at(pointer.address)
        if block is None or block.space not in spaces or block.leaving:
            return context.fail(call, INVALID_VALUE)
        # Nothing is torn away under work in flight; other work is not ordered by a free.
        context.scheduler.finish_touching(block.address, block.nbytes)
        if context.world.refusal:
            return context.fail(call, context.world.refusal)
        context.memory.release(block)
        return Outcome(SUCCESS)

    def _register(self, call: str, pointer: Pointer, *, pinned: bool) -> Outcome[None]:
        context = self.context
        error = context.machine.judge(call, context.thread)
        if error != SUCCESS:
            return context.fail(call, error)
        block = context.memory.holding(pointer.address)
        if block is None or block.space is not Space.PAGEABLE:
            return context.fail(call, INVALID_VALUE if pinned else NOT_REGISTERED)
        if block.registered is pinned:
            return context.fail(call, ALREADY_REGISTERED if pinned else NOT_REGISTERED)
        block.registered = pinned
        return Outcome(SUCCESS)

    def _host_block(self, pointer: Pointer, nbytes: int) -> Block | None:
        block = self.context.memory.holding(pointer.address, nbytes)
        return None if block is None or block.space is Space.DEVICE else block


def _put(block: Block, start: int, data: bytes) -> None:
    block.data[start : start + len(data)] = np.frombuffer(data, np.uint8)
