"""The two devices by name, each imported only when it is wanted."""

from __future__ import annotations

from typing import cast

from capturegate.backend.device import Device
from capturegate.errors import InputError

BACKENDS = ("fake", "cupy")


def make_device(backend: str) -> Device:
    """A new device of a backend.

    Raises:
        InputError: the backend is unknown, or misses what it needs.
    """
    if backend == "fake":
        from capturegate_backends.fake.device import FakeDevice

        return cast(Device, FakeDevice())
    if backend == "cupy":
        from capturegate_backends.cupy.device import CupyDevice

        return cast(Device, CupyDevice())
    raise InputError(f"unknown backend {backend!r}", expected=" or ".join(BACKENDS))


def check_backend(backend: str) -> None:
    """Refuse a backend before worker processes are started for it.

    A device of the real backend is not opened here: its context belongs into the workers.

    Raises:
        InputError: the backend is unknown, or misses what it needs.
    """
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}", expected=" or ".join(BACKENDS))
    if backend == "cupy":
        from capturegate_backends.cupy.binding import load

        load()
