"""Finds cuda-python and a driver, or says in one sentence what is missing."""

from __future__ import annotations

import ctypes
import importlib
from dataclasses import dataclass
from typing import Any

from capturegate.errors import InputError

_HINT = "pip install 'capturegate[cuda13]' (or [cuda12] for a driver of CUDA 12)"


@dataclass(frozen=True, slots=True)
class Cuda:
    """The three modules of cuda-python that the backend calls."""

    runtime: Any
    driver: Any
    nvrtc: Any


def load() -> Cuda:
    """The bindings, with a driver and a device that answer.

    Raises:
        InputError: cuda-python, the driver or a device is missing.
    """
    try:
        cuda = Cuda(
            importlib.import_module("cuda.bindings.runtime"),
            importlib.import_module("cuda.bindings.driver"),
            importlib.import_module("cuda.bindings.nvrtc"),
        )
    except ImportError as error:
        raise InputError(
            f"the cupy backend needs cuda-python, which is not installed ({error.name})",
            hint=_HINT,
        ) from error
    try:
        error_code, count = cuda.runtime.cudaGetDeviceCount()
    except RuntimeError as error:
        raise InputError(
            "the cupy backend needs an NVIDIA driver, which is not on this machine",
            hint="install the driver, or run on the fake backend: --backend fake",
        ) from error
    if int(error_code) != 0 or not count:
        raise InputError(
            f"the cupy backend needs an NVIDIA driver and a device ({error_code.name})",
            hint="install the driver, or run on the fake backend: --backend fake",
        )
    return cuda


def driver_version() -> str:
    """The driver's own version, such as 580.95.05; empty when its library does not say."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ""
    text = ctypes.create_string_buffer(96)
    if library.nvmlInit_v2() != 0:
        return ""
    answered = library.nvmlSystemGetDriverVersion(text, len(text)) == 0
    library.nvmlShutdown()
    return text.value.decode() if answered else ""
