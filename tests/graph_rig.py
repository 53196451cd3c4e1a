"""What the tests of graphs on the fake share: a device, a stream, blocks of one float."""

from __future__ import annotations

import struct
from typing import Any

from capturegate.backend import (
    Access,
    Backend,
    CaptureMode,
    Graph,
    GraphExec,
    Kernel,
    Param,
    Pointer,
    Stream,
    StreamKind,
)
from capturegate_backends.fake.device import FakeDevice


def _add(x: Any, value: float) -> None:
    x += value


def _scale(x: Any, value: float) -> None:
    x *= value


def _double(x: Any, y: Any) -> None:
    y[...] = 2 * x


_X_VALUE = (Param("x", Access.INOUT), Param("value", Access.SCALAR))
ADD = Kernel(name="add", params=_X_VALUE, body=_add, cuda="// not run here")
SCALE = Kernel(name="scale", params=_X_VALUE, body=_scale, cuda="// not run here")
DOUBLE = Kernel(
    name="double",
    params=(Param("x", Access.IN), Param("y", Access.OUT)),
    body=_double,
    cuda="// not run here",
)


class Rig:
    """A device, a stream, and blocks of one float."""

    def __init__(self) -> None:
        self.backend = Backend(FakeDevice())
        self.raw = self.backend.raw
        self.stream = self.backend.stream_create(StreamKind.NON_BLOCKING)

    def block(self, value: float) -> Pointer:
        made = self.backend.malloc(4)
        self.put(made, value)
        return made

    def put(self, pointer: Pointer, value: float) -> None:
        self.backend.harness_write(pointer, struct.pack("<f", value))

    def get(self, pointer: Pointer) -> float:
        return float(struct.unpack("<f", self.backend.harness_read(pointer, 4))[0])

    def begin(self) -> None:
        self.backend.stream_begin_capture(self.stream, CaptureMode.THREAD_LOCAL)

    def launch(self, kernel: Kernel, *args: Any, on: Stream | None = None) -> None:
        given = [arg.array((1,)) if isinstance(arg, Pointer) else arg for arg in args]
        self.backend.launch(kernel, given, on or self.stream)

    def end(self) -> tuple[Graph, GraphExec]:
        graph = self.backend.stream_end_capture(self.stream)
        return graph, self.backend.graph_instantiate(graph)

    def captured(self, kernel: Kernel, *args: Any) -> tuple[Graph, GraphExec]:
        self.begin()
        self.launch(kernel, *args)
        return self.end()

    def replay(self, executable: GraphExec) -> None:
        self.backend.graph_launch(executable, self.stream)
        self.backend.stream_synchronize(self.stream)
