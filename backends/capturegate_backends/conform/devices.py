"""The two devices by name, each imported only when it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from capturegate.backend.device import Device
from capturegate.errors import InputError

BACKENDS = ("fake", "cupy")


def make_device(backend: str, driver: str = "580") -> Device:
    """A new device of a backend; the fake answers as that driver was recorded to.

    Raises:
        InputError: the backend is unknown, misses what it needs, or does not know the driver.
    """
    if backend == "fake":
        from capturegate_backends.fake.device import FakeDevice

        return cast(Device, FakeDevice(driver=driver))
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


def driver_of(description: Mapping[str, str]) -> str:
    """The driver version of a recording by which rules are kept: `580` of `580.159.04`.

    Raises:
        InputError: the recording does not say it.
    """
    if "driver" not in description:
        raise InputError("a recording does not say which driver it is of")
    return description["driver"].partition(".")[0]
