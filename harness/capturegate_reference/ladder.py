"""The ladder of size classes: 16 rungs an octave, at most 6.25 % above what was asked for."""

from __future__ import annotations

from capturegate_reference.errors import PoolError

KEPT_BITS = 5
"""The leading bit and the four after it decide the class; the rest is rounded up."""

SIZE_BYTES_MAX = 2**64 - 1
"""The largest size that a driver's size type holds."""


def size_class(nbytes: int) -> int:
    """The class in bytes that serves a request of `nbytes` bytes.

    Raises:
        PoolError: the size is negative, or its class does not fit the driver's size type.
    """
    if nbytes < 0:
        raise PoolError(f"a request of {nbytes} bytes is negative")
    step = 1 << max(0, nbytes.bit_length() - KEPT_BITS)
    rounded = max(1, -(-nbytes // step) * step)
    if rounded > SIZE_BYTES_MAX:
        raise PoolError(f"a request of {nbytes} bytes has no class below 2**64 bytes")
    return rounded
