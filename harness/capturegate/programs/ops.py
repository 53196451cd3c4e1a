"""The calls that a program can make, as data.

A program is a list of calls; a call is `[op, thread, argument, ...]`. Names say what they are by
their first letter, and what stands ready needs no declaration:

- streams: `b1` `b2` blocking, `n1` `n2` non-blocking, `legacy`, `own` (the calling thread's
  per-thread stream), `t1`, `t2`, ... made by the program;
- events `e1`, `e2`, ..., each fresh in every program;
- blocks of 16 int32: `d1`..`d4` device, `p1` `p2` pinned, `h1` `h2` pageable; and pages of
  pageable memory to pin in place, `r1` `r2`, that no work touches;
- made by the program: `m*` memory, `q*` pinned memory, `g*` graphs, `x*` executables.

A call that names something that does not exist at that time (its maker was refused, it was
destroyed), or makes a stream of a name that is taken, is not made, and seen as absent. So is one
that CUDA does not define and a driver may answer with a crash: destroying what a capture into a
graph or a recorded node needs, starting a second capture into one graph, adding anything to one
whose memory nodes an executable holds, embedding a graph in itself, or setting pageable memory in a
capture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capturegate.errors import InputError

Call = Sequence[Any]
Program = Sequence[Call]

MODES = ("global", "thread_local", "relaxed")
STREAMS = ("b1", "b2", "n1", "n2", "legacy", "own")
DEVICE_BLOCKS = ("d1", "d2", "d3", "d4")
PINNED_BLOCKS = ("p1", "p2")
PAGEABLE_BLOCKS = ("h1", "h2")
REGISTERED_BLOCKS = ("r1", "r2")
BLOCKS = DEVICE_BLOCKS + PINNED_BLOCKS + PAGEABLE_BLOCKS
KERNELS = ("add", "mix", "move")
STREAM_KINDS = ("blocking", "nonblocking")
THREADS_MAX = 4

PREFIXES = {
    "stream": "bnlot",
    "event": "e",
    "block": "dph",
    "host": "ph",
    "reachable": "dp",
    "pages": "r",
    "memory": "m",
    "pinned": "q",
    "graph": "g",
    "exec": "x",
}
CHOICES = {
    "mode": MODES,
    "kernel": KERNELS,
    "streamkind": STREAM_KINDS,
    "dependencies": ("none", "leaves"),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One kind of call.

    Attributes:
        api: CUDA's name of the call.
        args: the kind of each argument; `+kind` names what the call makes, `-kind` what a
            successful call uses up.
        works: whether it submits work, to its stream or else to the legacy one, which a look at
            memory has to wait for.
    """

    api: str
    args: tuple[str, ...] = ()
    works: bool = False


OPS: Mapping[str, Op] = {
    "malloc": Op("cudaMalloc", ("+memory", "int")),
    "free": Op("cudaFree", ("-memory",)),
    "malloc_async": Op("cudaMallocAsync", ("+memory", "int", "stream"), works=True),
    "free_async": Op("cudaFreeAsync", ("-memory", "stream"), works=True),
    "malloc_host": Op("cudaMallocHost", ("+pinned", "int")),
    "free_host": Op("cudaFreeHost", ("-pinned",)),
    "malloc_managed": Op("cudaMallocManaged", ("+memory", "int")),
    "host_register": Op("cudaHostRegister", ("pages",)),
    "host_unregister": Op("cudaHostUnregister", ("pages",)),
    "mem_get_info": Op("cudaMemGetInfo"),
    "pointer_get_attributes": Op("cudaPointerGetAttributes", ("block",)),
    "default_pool": Op("cudaDeviceGetDefaultMemPool"),
    "pool_trim": Op("cudaMemPoolTrimTo", ("int",)),
    "memcpy": Op("cudaMemcpy", ("block", "block"), works=True),
    "memcpy_async": Op("cudaMemcpyAsync", ("block", "block", "stream"), works=True),
    "memcpy_batch": Op("cudaMemcpyBatchAsync", ("block", "block", "stream"), works=True),
    "memset": Op("cudaMemset", ("block", "int"), works=True),
    "memset_async": Op("cudaMemsetAsync", ("block", "int", "stream"), works=True),
    "launch": Op("cudaLaunchKernel", ("kernel", "reachable", "int", "stream"), works=True),
    "host_func": Op("cudaLaunchHostFunc", ("int", "stream"), works=True),
    "module_load": Op("cuModuleLoadData"),
    "stream_create": Op("cudaStreamCreateWithFlags", ("+stream", "streamkind")),
    "stream_destroy": Op("cudaStreamDestroy", ("-stream",)),
    "stream_sync": Op("cudaStreamSynchronize", ("stream",)),
    "stream_query": Op("cudaStreamQuery", ("stream",)),
    "wait": Op("cudaStreamWaitEvent", ("stream", "event", "flag"), works=True),
    "event_create": Op("cudaEventCreate", ("+event",)),
    "event_destroy": Op("cudaEventDestroy", ("-event",)),
    "record": Op("cudaEventRecord", ("event", "stream", "flag"), works=True),
    "event_query": Op("cudaEventQuery", ("event",)),
    "event_sync": Op("cudaEventSynchronize", ("event",)),
    "device_sync": Op("cudaDeviceSynchronize"),
    "device_attribute": Op("cudaDeviceGetAttribute"),
    "set_device": Op("cudaSetDevice"),
    "get_last_error": Op("cudaGetLastError"),
    "peek_last_error": Op("cudaPeekAtLastError"),
    "begin": Op("cudaStreamBeginCapture", ("stream", "mode")),
    "begin_to_graph": Op(
        "cudaStreamBeginCaptureToGraph", ("stream", "graph", "dependencies", "mode")
    ),
    "end": Op("cudaStreamEndCapture", ("stream", "+graph")),
    "is_capturing": Op("cudaStreamIsCapturing", ("stream",)),
    "info": Op("cudaStreamGetCaptureInfo", ("stream",)),
    "exchange": Op("cudaThreadExchangeStreamCaptureMode", ("mode",)),
    "graph_create": Op("cudaGraphCreate", ("+graph",)),
    "add_child": Op("cudaGraphAddChildGraphNode", ("graph", "graph", "dependencies")),
    "instantiate": Op("cudaGraphInstantiate", ("graph", "+exec")),
    "upload": Op("cudaGraphUpload", ("exec", "stream"), works=True),
    "graph_launch": Op("cudaGraphLaunch", ("exec", "stream"), works=True),
    "update": Op("cudaGraphExecUpdate", ("exec", "graph")),
    "set_params": Op(
        "cudaGraphExecKernelNodeSetParams", ("exec", "graph", "int", "kernel", "reachable", "int")
    ),
    "graph_destroy": Op("cudaGraphDestroy", ("-graph",)),
    "exec_destroy": Op("cudaGraphExecDestroy", ("-exec",)),
    "nodes": Op("cudaGraphGetNodes", ("graph",)),
    "host_read": Op("host.read", ("host",)),
    "host_write": Op("host.write", ("host", "int")),
}


def check_program(program: Program) -> None:
    """Refuse a program that the interpreter could not run.

    Raises:
        InputError: an unknown op, a wrong number or kind of arguments, or a bad thread.
    """
    for number, call in enumerate(program, start=1):
        where = f"call {number}"
        if len(call) < 2 or call[0] not in OPS:
            known = ", ".join(OPS)
            raise InputError(f"unknown call {call!r}", where=where, expected=f"one of {known}")
        op, thread, arguments = OPS[call[0]], call[1], call[2:]
        if type(thread) is not int or not 0 <= thread < THREADS_MAX:
            raise InputError(
                f"{thread!r} is no thread", where=where, expected=f"0 to {THREADS_MAX - 1}"
            )
        if len(arguments) != len(op.args):
            raise InputError(
                f"{call[0]} with {len(arguments)} arguments",
                where=where,
                expected=f"{len(op.args)}: {', '.join(op.args)}",
            )
        for kind, value in zip(op.args, arguments, strict=True):
            if not _fits(kind.lstrip("+-"), value):
                raise InputError(f"{value!r} is no {kind.lstrip('+-')}", where=where)


def _fits(kind: str, value: object) -> bool:
    if kind in ("int", "flag"):
        return type(value) is int and value >= 0
    if not isinstance(value, str) or not value:
        return False
    if kind in CHOICES:
        return value in CHOICES[kind]
    if kind == "stream":
        return value in STREAMS or (value[0] == "t" and value[1:].isdigit())
    if kind == "pages":
        return value in REGISTERED_BLOCKS
    if kind in ("block", "host", "reachable"):
        return value in BLOCKS and value[0] in PREFIXES[kind]
    return value[0] in PREFIXES[kind] and value[1:].isdigit()
