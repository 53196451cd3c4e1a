"""Compiles kernels with NVRTC, once each, and packs their arguments."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any

from capturegate.backend.handles import Array
from capturegate.backend.kernel import Argument, Kernel
from capturegate.errors import CapturegateError
from capturegate_backends.cupy.binding import Cuda

# NVRTC finds no C headers on a machine that has the driver alone.
_PRELUDE = """#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#line 1
"""
_SCALAR_FORMAT = {"int32": "<i", "float32": "<f", "int64": "<q", "uint8": "<B"}


class KernelError(CapturegateError):
    """A kernel's source does not compile, or its arguments do not fit its parameters."""


class Packed:
    """The argument block of one kernel on one thread: slots of 8 bytes and their addresses."""

    def __init__(self, count: int) -> None:
        self._slots = ctypes.create_string_buffer(8 * max(count, 1))
        base = ctypes.addressof(self._slots)
        self._pointers = (ctypes.c_void_p * max(count, 1))(*(base + 8 * i for i in range(count)))
        self.address = ctypes.addressof(self._pointers)

    def fill(self, kernel: Kernel, args: Sequence[Argument]) -> None:
        """Write the arguments of the coming launch."""
        if len(args) != len(kernel.params):
            raise KernelError(
                f"kernel {kernel.name} takes {len(kernel.params)} arguments, not {len(args)}"
            )
        for i, (param, arg) in enumerate(zip(kernel.params, args, strict=True)):
            if isinstance(arg, Array):
                struct.pack_into("<Q", self._slots, 8 * i, arg.pointer.address)
            else:
                number = float(arg) if param.dtype == "float32" else int(arg)
                struct.pack_into(_SCALAR_FORMAT[param.dtype], self._slots, 8 * i, number)


class Kernels:
    """The loaded kernels of one device."""

    def __init__(self, cuda: Cuda, architecture: str) -> None:
        self._cuda = cuda
        self._option = f"--gpu-architecture={architecture}".encode()
        self._images: dict[str, bytes] = {}
        self._functions: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()
        self._local = threading.local()

    def image(self, kernel: Kernel) -> bytes:
        """The machine code of a kernel.

        Raises:
            KernelError: its source does not compile.
        """
        found = self._images.get(kernel.cuda)
        if found is None:
            found = self._images[kernel.cuda] = self._compile(kernel)
        return found

    def function(self, kernel: Kernel) -> Any:
        """The loaded function of a kernel; loads it when it is first asked for."""
        found = self._functions.get(kernel.cuda)
        if found is None:
            with self._lock:
                image = self.image(kernel)
                driver = self._cuda.driver
                error, module = driver.cuModuleLoadData(image)
                if int(error) != 0:
                    raise KernelError(f"kernel {kernel.name} does not load: {error.name}")
                error, found = driver.cuModuleGetFunction(module, kernel.name.encode())
                if int(error) != 0:
                    raise KernelError(f"no function {kernel.name} in its source: {error.name}")
                self._functions[kernel.cuda] = found
                self._names[int(found)] = kernel.name
        return found

    def name(self, function: int) -> str:
        """The name of a loaded function; empty for one that is not ours."""
        return self._names.get(function, "")

    def packed(self, kernel: Kernel, args: Sequence[Argument]) -> Packed:
        """The arguments as the driver wants them; valid until the thread's next launch of it."""
        table: dict[str, Packed] | None = getattr(self._local, "packed", None)
        if table is None:
            table = self._local.packed = {}
        block = table.get(kernel.cuda)
        if block is None:
            block = table[kernel.cuda] = Packed(len(kernel.params))
        block.fill(kernel, args)
        return block

    def _compile(self, kernel: Kernel) -> bytes:
        nvrtc = self._cuda.nvrtc
        error, program = nvrtc.nvrtcCreateProgram(
            (_PRELUDE + kernel.cuda).encode(), f"{kernel.name}.cu".encode(), 0, [], []
        )
        if int(error) != 0:
            raise KernelError(f"NVRTC does not start: {error}")
        (error,) = nvrtc.nvrtcCompileProgram(program, 1, [self._option])
        if int(error) != 0:
            _, size = nvrtc.nvrtcGetProgramLogSize(program)
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            text = log.decode(errors="replace").strip("\0 \n")
            raise KernelError(f"kernel {kernel.name} does not compile:\n{text}")
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        image = bytes(size)
        nvrtc.nvrtcGetCUBIN(program, image)
        nvrtc.nvrtcDestroyProgram(program)
        return image
