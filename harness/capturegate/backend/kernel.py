"""Kernels: one object with a NumPy body, a CUDA C body and declared accesses."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from capturegate.backend.handles import Array

Scalar = int | float
Argument = Array | Scalar


class Access(enum.Enum):
    """What a kernel does with a parameter.

    A backend that runs the NumPy body enforces it: IN is a read-only view, OUT a buffer whose
    former bytes cannot be read and which has to be written whole, INOUT a plain view.
    """

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    SCALAR = "scalar"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter: its name, access and item type (int32 or float32 for a scalar)."""

    name: str
    access: Access
    dtype: str = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel that both backends can run.

    `body` takes the arguments in order, arrays as ndarrays of their baked shape. `cuda` is the
    source of `extern "C" __global__ void <name>(...)` with one C parameter for each `Param`:
    a pointer for an array, int or float for a scalar; shapes that the CUDA body needs are
    passed as scalars.
    """

    name: str
    params: tuple[Param, ...]
    body: Callable[..., None]
    cuda: str
