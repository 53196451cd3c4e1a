"""Length-prefixed JSON frames: what goes through the pipes between parent, zygote and child."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

from capturegate.errors import CapturegateError

_HEADER = struct.Struct(">I")
FRAME_BYTES_MAX = 64 * 1024 * 1024


class FrameError(CapturegateError):
    """A pipe carries something that is not a frame, or one that is too large."""


def pack(message: Any) -> bytes:
    """One frame that carries a JSON value.

    Raises:
        TypeError: the value cannot be written as JSON.
        FrameError: the frame would be too large.
    """
    return pack_raw(json.dumps(message, separators=(",", ":")).encode())


def pack_raw(body: bytes) -> bytes:
    """One frame around a body that is JSON already."""
    if len(body) > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {len(body)} bytes, {FRAME_BYTES_MAX} at most")
    return _HEADER.pack(len(body)) + body


def write_all(fd: int, data: bytes) -> None:
    """Write everything to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class FrameReader:
    """Takes bytes as they come and gives back the bodies of complete frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that `data` completes.

        Raises:
            FrameError: a header announces more than a frame may hold.
        """
        self._pending += data
        while len(self._pending) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._pending)
            if length > FRAME_BYTES_MAX:
                raise FrameError(f"a frame of {length} bytes, {FRAME_BYTES_MAX} at most")
            end = _HEADER.size + length
            if len(self._pending) < end:
                return
            body = bytes(self._pending[_HEADER.size : end])
            del self._pending[:end]
            yield body
