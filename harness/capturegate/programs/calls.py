"""How each op of a program is put to a device, and what of its answer both sides share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capturegate.backend.device import Device
from capturegate.backend.handles import CaptureMode, GraphNode, Pointer, StreamKind
from capturegate.programs.bench import Bench
from capturegate.programs.kernels import ADD, BLOCK_BYTES, BY_NAME, ITEMS
from capturegate.programs.observation import ABSENT, graph_form
from capturegate.status import SUCCESS, Outcome

_NOT_MADE: Outcome[Any] = Outcome(ABSENT)


def _kernel_args(bench: Bench, kernel: str, block: Pointer, k: int) -> list[Any]:
    shape = (ITEMS,)
    if kernel == "move":
        return [block.array(shape, "int32"), bench.blocks["d4"].array(shape, "int32"), k]
    return [block.array(shape, "int32"), k]


def leaves(nodes: tuple[GraphNode, ...]) -> list[int]:
    """The nodes that no other depends on."""
    depended = {d for node in nodes for d in node.dependencies}
    return [node.id for node in nodes if node.id not in depended]


def _begin_to_graph(d: Device, stream: Any, graph: Any, which: str, mode: str) -> Outcome[Any]:
    found = d.graph_get_nodes(graph).value or ()
    dependencies = leaves(found) if which == "leaves" else []
    return d.stream_begin_capture_to_graph(stream, graph, dependencies, CaptureMode(mode))


def _add_child(d: Device, graph: Any, child: Any, which: str) -> Outcome[Any]:
    found = d.graph_get_nodes(graph).value or ()
    return d.graph_add_child_graph_node(graph, leaves(found) if which == "leaves" else [], child)


def _set_params(
    d: Device, b: Bench, executable: Any, graph: Any, index: int, kernel: str, block: Any, k: int
) -> Outcome[Any]:
    found = d.graph_get_nodes(graph).value or ()
    kernels = sorted(node.id for node in found if node.kind == "kernel")
    if not kernels:
        return _NOT_MADE
    return d.graph_exec_kernel_node_set_params(
        executable,
        kernels[index % len(kernels)],
        BY_NAME[kernel],
        (1, 1, 1),
        (ITEMS, 1, 1),
        _kernel_args(b, kernel, block, k),
    )


MAKERS: Mapping[str, Callable[..., Outcome[Any]]] = {
    "malloc": lambda d, _, n: d.malloc(n),
    "free": lambda d, _, m: d.free(m),
    "malloc_async": lambda d, _, n, s: d.malloc_async(n, s),
    "free_async": lambda d, _, m, s: d.free_async(m, s),
    "malloc_host": lambda d, _, n: d.malloc_host(n),
    "free_host": lambda d, _, q: d.free_host(q),
    "malloc_managed": lambda d, _, n: d.malloc_managed(n),
    "host_register": lambda d, _, h: d.host_register(h),
    "host_unregister": lambda d, _, h: d.host_unregister(h),
    "mem_get_info": lambda d, _: d.mem_get_info(),
    "pointer_get_attributes": lambda d, _, p: d.pointer_get_attributes(p),
    "default_pool": lambda d, _: d.device_get_default_mem_pool(),
    "pool_trim": lambda d, _, n: d.mem_pool_trim_to(d.device_get_default_mem_pool().value, n),
    "memcpy": lambda d, _, to, at: d.memcpy(to, at, BLOCK_BYTES),
    "memcpy_async": lambda d, _, to, at, s: d.memcpy_async(to, at, BLOCK_BYTES, s),
    "memcpy_batch": lambda d, _, to, at, s: d.memcpy_batch_async(
        [(to.at(0, 32), at.at(0, 32), 32), (to.at(32, 32), at.at(32, 32), 32)], s
    ),
    "memset": lambda d, _, to, v: d.memset(to, v & 255, BLOCK_BYTES),
    "memset_async": lambda d, _, to, v, s: d.memset_async(to, v & 255, BLOCK_BYTES, s),
    "launch": lambda d, b, kernel, block, k, s: d.launch_kernel(
        BY_NAME[kernel], (1, 1, 1), (ITEMS, 1, 1), _kernel_args(b, kernel, block, k), s
    ),
    "host_func": lambda d, b, tag, s: d.launch_host_func(b.function(tag), s),
    "module_load": lambda d, _: d.module_load_data(ADD),
    "stream_create": lambda d, _, kind: d.stream_create(StreamKind(kind)),
    "stream_destroy": lambda d, _, s: d.stream_destroy(s),
    "stream_sync": lambda d, _, s: d.stream_synchronize(s),
    "stream_query": lambda d, _, s: d.stream_query(s),
    "wait": lambda d, _, s, e, external: d.stream_wait_event(s, e, bool(external)),
    "event_create": lambda d, _: d.event_create(),
    "event_destroy": lambda d, _, e: d.event_destroy(e),
    "record": lambda d, _, e, s, external: d.event_record(e, s, bool(external)),
    "event_query": lambda d, _, e: d.event_query(e),
    "event_sync": lambda d, _, e: d.event_synchronize(e),
    "device_sync": lambda d, _: d.device_synchronize(),
    "device_attribute": lambda d, _: d.device_get_attribute("cudaDevAttrMultiProcessorCount"),
    "set_device": lambda d, _: d.set_device(0),
    "get_last_error": lambda d, _: d.get_last_error(),
    "peek_last_error": lambda d, _: d.peek_at_last_error(),
    "begin": lambda d, _, s, mode: d.stream_begin_capture(s, CaptureMode(mode)),
    "begin_to_graph": lambda d, _, s, g, which, mode: _begin_to_graph(d, s, g, which, mode),
    "end": lambda d, _, s: d.stream_end_capture(s),
    "is_capturing": lambda d, _, s: d.stream_is_capturing(s),
    "info": lambda d, _, s: d.stream_get_capture_info(s),
    "exchange": lambda d, _, mode: d.thread_exchange_stream_capture_mode(CaptureMode(mode)),
    "graph_create": lambda d, _: d.graph_create(),
    "add_child": lambda d, _, g, child, which: _add_child(d, g, child, which),
    "instantiate": lambda d, _, g: d.graph_instantiate(g),
    "upload": lambda d, _, x, s: d.graph_upload(x, s),
    "graph_launch": lambda d, _, x, s: d.graph_launch(x, s),
    "update": lambda d, _, x, g: d.graph_exec_update(x, g),
    "set_params": _set_params,
    "graph_destroy": lambda d, _, g: d.graph_destroy(g),
    "exec_destroy": lambda d, _, x: d.graph_exec_destroy(x),
    "nodes": lambda d, _, g: d.graph_get_nodes(g),
    "host_read": lambda d, _, p: d.host_read(p, BLOCK_BYTES),
    "host_write": lambda d, _, p, v: d.host_write(p, bytes([v & 255]) * BLOCK_BYTES),
}

OVER = [0, "over"]
"""What a refused end shows, in place of a graph, when the capture is over nevertheless."""

_PLAIN = frozenset({"get_last_error", "peek_last_error", "update", "pointer_get_attributes"})


def shown_value(name: str, outcome: Outcome[Any], device: Device) -> Any:
    """What both sides have to agree on of a call's value; handles and sizes are left out."""
    value = outcome.value
    if value is None:
        return OVER if name == "end" and outcome.capture else None
    if name in _PLAIN:
        return value
    if name == "end":
        return graph_form(device.graph_get_nodes(value).value or ())
    if outcome.error != SUCCESS:
        return None
    if name in ("exchange", "is_capturing"):
        return value.value
    if name == "info":
        return value.status.value
    if name == "nodes":
        return graph_form(value)
    return value.hex() if name == "host_read" else None
