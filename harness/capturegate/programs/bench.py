"""What stands ready for call programs on one device, and what a program makes on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from capturegate.backend.device import Device
from capturegate.backend.handles import Pointer, Stream, StreamKind
from capturegate.errors import CapturegateError
from capturegate.programs.kernels import BLOCK_BYTES
from capturegate.programs.ops import (
    DEVICE_BLOCKS,
    PAGEABLE_BLOCKS,
    PINNED_BLOCKS,
    REGISTERED_BLOCKS,
)
from capturegate.status import SUCCESS, Outcome

PAGE_BYTES = 4096


class BenchError(CapturegateError):
    """A device could not be brought back to its starting state; it must not be used further."""


def must(outcome: Outcome[Any], doing: str) -> Any:
    """The value of a call that has to succeed for programs to mean anything."""
    if outcome.error != SUCCESS:
        raise BenchError(f"{doing} returned {outcome.error}")
    return outcome.value


def content(seed: int) -> bytes:
    """The first content of a block: 16 int32 that differ from block to block."""
    return b"".join((1000 * seed + i).to_bytes(4, "little") for i in range(16))


class Bench:
    """Streams and blocks that programs share; their content is reset before each program.

    The device blocks lie in one allocation and so do the pinned ones, so that one transfer
    resets them and one reads them.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        create = device.stream_create
        kinds = (StreamKind.BLOCKING, StreamKind.NON_BLOCKING)
        b1, n1, b2, n2 = (must(create(kind), "stream creation") for kind in kinds * 2)
        self.streams: dict[str, Stream] = {
            "b1": b1,
            "b2": b2,
            "n1": n1,
            "n2": n2,
            "legacy": device.legacy_stream,
            "own": device.per_thread_stream,
        }
        device_bytes = BLOCK_BYTES * len(DEVICE_BLOCKS)
        pinned_bytes = BLOCK_BYTES * len(PINNED_BLOCKS)
        self._device_slab: Pointer = must(device.malloc(device_bytes), "allocation")
        self._pinned_slab: Pointer = must(device.malloc_host(pinned_bytes), "pinned allocation")
        self._first = {
            name: content(1 + i)
            for i, name in enumerate((*DEVICE_BLOCKS, *PINNED_BLOCKS, *PAGEABLE_BLOCKS))
        }
        self._device_content = b"".join(self._first[name] for name in DEVICE_BLOCKS)
        self._pinned_content = b"".join(self._first[name] for name in PINNED_BLOCKS)
        self.pages: dict[str, Pointer] = {
            name: must(device.pageable(PAGE_BYTES), "pageable memory")
            for name in (*PAGEABLE_BLOCKS, *REGISTERED_BLOCKS)
        }
        self.blocks: dict[str, Pointer] = {}
        for slab, names in (
            (self._device_slab, DEVICE_BLOCKS),
            (self._pinned_slab, PINNED_BLOCKS),
        ):
            for i, name in enumerate(names):
                self.blocks[name] = slab.at(i * BLOCK_BYTES, BLOCK_BYTES)
        for name in PAGEABLE_BLOCKS:
            self.blocks[name] = self.pages[name].at(0, BLOCK_BYTES)
        self.host_tags: list[int] = []
        self._functions = [self._host_function(tag) for tag in range(8)]

    def reset(self) -> None:
        """Give every block its first content."""
        must(self.device.poke(self._device_slab, self._device_content), "write to device memory")
        must(self.device.host_write(self._pinned_slab, self._pinned_content), "host write")
        for name in PAGEABLE_BLOCKS:
            must(self.device.host_write(self.blocks[name], self._first[name]), "host write")
        self.host_tags.clear()

    def contents(self) -> dict[str, str]:
        """A digest of every block that does not hold its first content; the device is idle."""
        now: dict[str, bytes] = {}
        for slab, names in (
            (self._device_slab, DEVICE_BLOCKS),
            (self._pinned_slab, PINNED_BLOCKS),
        ):
            data: bytes = must(self.device.peek(slab, BLOCK_BYTES * len(names)), "read")
            for i, name in enumerate(names):
                now[name] = data[i * BLOCK_BYTES : (i + 1) * BLOCK_BYTES]
        for name in PAGEABLE_BLOCKS:
            now[name] = must(self.device.host_read(self.blocks[name], BLOCK_BYTES), "host read")
        return {
            name: hashlib.blake2b(data, digest_size=6).hexdigest()
            for name, data in now.items()
            if data != self._first[name]
        }

    def function(self, tag: int) -> Callable[[], None]:
        """The host function that leaves its tag behind."""
        return self._functions[tag % len(self._functions)]

    def _host_function(self, tag: int) -> Callable[[], None]:
        def leave_tag() -> None:
            self.host_tags.append(tag)

        return leave_tag
