"""Systematic call programs: every call beside every kind of capture, from every relation.

Each program sets up what its call needs, opens a capture, sets the calling thread's own mode,
makes the call, records one kernel more, ends and runs what came out.
"""

from __future__ import annotations

from collections.abc import Iterator

from capturegate.programs.ops import MODES

Calls = list[list[object]]

_GRAPH: Calls = [
    ["begin", 0, "n2", "relaxed"],
    ["launch", 0, "add", "d2", 3, "n2"],
    ["end", 0, "n2", "g1"],
]
_EXECUTABLE: Calls = [*_GRAPH, ["instantiate", 0, "g1", "x1"]]
_OUTSIDE: Calls = [["record", 0, "e2", "n2", 0]]
_COPIES = (("d1", "p1"), ("d1", "h1"), ("d1", "d2"), ("p1", "d1"), ("h1", "d1"), ("h1", "h2"))

STREAMLESS: dict[str, tuple[Calls, list[object]]] = {
    "malloc": ([], ["malloc", "m9", 4096]),
    "malloc-big": ([], ["malloc", "m9", 64 << 20]),
    "free": ([["malloc", 0, "m1", 4096]], ["free", "m1"]),
    "free-async-memory": ([["malloc_async", 0, "m1", 4096, "n2"]], ["free", "m1"]),
    "malloc-host": ([], ["malloc_host", "q9", 4096]),
    "free-host": ([["malloc_host", 0, "q1", 4096]], ["free_host", "q1"]),
    "malloc-managed": ([], ["malloc_managed", "m9", 4096]),
    "host-register": ([], ["host_register", "r1"]),
    "host-register-twice": ([["host_register", 0, "r1"]], ["host_register", "r1"]),
    "host-unregister": ([["host_register", 0, "r1"]], ["host_unregister", "r1"]),
    "host-unregister-none": ([], ["host_unregister", "r1"]),
    "mem-get-info": ([], ["mem_get_info"]),
    "attributes-device": ([], ["pointer_get_attributes", "d1"]),
    "attributes-pinned": ([], ["pointer_get_attributes", "p1"]),
    "attributes-pageable": ([], ["pointer_get_attributes", "h1"]),
    "default-pool": ([], ["default_pool"]),
    "pool-trim": ([], ["pool_trim", 0]),
    **{f"memcpy-{to}-{at}": ([], ["memcpy", to, at]) for to, at in _COPIES},
    "memset": ([], ["memset", "d1", 7]),
    "memset-pinned": ([], ["memset", "p1", 7]),
    "module-load": ([], ["module_load"]),
    "stream-create": ([], ["stream_create", "t9", "blocking"]),
    "stream-create-nonblocking": ([], ["stream_create", "t9", "nonblocking"]),
    "stream-destroy": ([["stream_create", 0, "t1", "blocking"]], ["stream_destroy", "t1"]),
    "event-create": ([], ["event_create", "e9"]),
    "event-destroy": ([], ["event_destroy", "e4"]),
    "event-query": (_OUTSIDE, ["event_query", "e2"]),
    "event-query-fresh": ([], ["event_query", "e3"]),
    "event-sync": (_OUTSIDE, ["event_sync", "e2"]),
    "event-sync-fresh": ([], ["event_sync", "e3"]),
    "device-sync": ([], ["device_sync"]),
    "device-attribute": ([], ["device_attribute"]),
    "set-device": ([], ["set_device"]),
    "get-last-error": ([], ["get_last_error"]),
    **{f"exchange-{mode}": ([], ["exchange", mode]) for mode in MODES},
    "graph-create": ([], ["graph_create", "g9"]),
    "add-child": ([*_GRAPH, ["graph_create", 0, "g2"]], ["add_child", "g2", "g1", "none"]),
    "instantiate": (_GRAPH, ["instantiate", "g1", "x9"]),
    "update": (_EXECUTABLE, ["update", "x1", "g1"]),
    "set-params": (_EXECUTABLE, ["set_params", "x1", "g1", 0, "add", "d3", 5]),
    "graph-destroy": (_GRAPH, ["graph_destroy", "g1"]),
    "exec-destroy": (_EXECUTABLE, ["exec_destroy", "x1"]),
    "nodes": (_GRAPH, ["nodes", "g1"]),
    "host-read": ([], ["host_read", "p1"]),
    "host-write": ([], ["host_write", "p1", 9]),
}
ON_STREAM: dict[str, tuple[Calls, list[object]]] = {
    "malloc-async": ([], ["malloc_async", "m9", 4096, "?"]),
    "free-async-outside": (
        [["malloc_async", 0, "m1", 4096, "n2"]],
        ["free_async", "m1", "?"],
    ),
    "free-async-malloc": ([["malloc", 0, "m1", 4096]], ["free_async", "m1", "?"]),
    **{f"memcpy-async-{to}-{at}": ([], ["memcpy_async", to, at, "?"]) for to, at in _COPIES},
    **{
        f"memcpy-batch-{to}-{at}": ([], ["memcpy_batch", to, at, "?"])
        for to, at in (("d1", "p1"), ("d1", "d2"), ("d1", "h1"), ("p1", "d1"))
    },
    "memset-async": ([], ["memset_async", "d1", 7, "?"]),
    "launch-add": ([], ["launch", "add", "d3", 2, "?"]),
    "launch-move": ([], ["launch", "move", "d1", 2, "?"]),
    "host-func": ([], ["host_func", 3, "?"]),
    "stream-sync": ([], ["stream_sync", "?"]),
    "stream-query": ([], ["stream_query", "?"]),
    "wait-outside": (_OUTSIDE, ["wait", "?", "e2", 0]),
    "wait-fresh": ([], ["wait", "?", "e3", 0]),
    "wait-external": (_OUTSIDE, ["wait", "?", "e2", 1]),
    "wait-external-fresh": ([], ["wait", "?", "e3", 1]),
    "record": ([], ["record", "e4", "?", 0]),
    "record-external": ([], ["record", "e4", "?", 1]),
    **{f"begin-{mode}": ([], ["begin", "?", mode]) for mode in MODES},
    "begin-to-graph": (
        [["graph_create", 0, "g1"]],
        ["begin_to_graph", "?", "g1", "none", "relaxed"],
    ),
    "end": ([], ["end", "?", "g9"]),
    "is-capturing": ([], ["is_capturing", "?"]),
    "info": ([], ["info", "?"]),
    "upload": (_EXECUTABLE, ["upload", "x1", "?"]),
    "graph-launch": (_EXECUTABLE, ["graph_launch", "x1", "?"]),
}
RELATIONS: dict[str, tuple[int, str]] = {
    "origin": (0, "capture"),
    "forked": (0, "n2"),
    "other-blocking": (0, "b2"),
    "other-nonblocking": (0, "n2"),
    "legacy": (0, "legacy"),
    "own": (0, "own"),
    "thread-origin": (1, "capture"),
    "thread-forked": (1, "n2"),
    "thread-blocking": (1, "b2"),
    "thread-nonblocking": (1, "n2"),
    "thread-legacy": (1, "legacy"),
    "thread-own": (1, "own"),
}


def beside_captures() -> Iterator[tuple[str, Calls]]:
    """Every call of the tables, beside and inside every kind of capture; named programs."""
    for stream in ("b1", "n1", "own"):
        for mode in MODES:
            for own_mode in MODES:
                capture = f"{stream}/{mode}/{own_mode}"
                for name, (setup, call) in STREAMLESS.items():
                    for thread in (0, 1):
                        made = [call[0], thread, *call[1:]]
                        title = f"beside/{capture}/thread-{thread}/{name}"
                        yield title, _program(stream, mode, own_mode, setup, made, fork=False)
                for relation, (thread, target) in RELATIONS.items():
                    if target == "own" and stream == "own" and thread == 0:
                        continue
                    if target == "capture" and stream == "own" and thread == 1:
                        continue
                    where = stream if target == "capture" else target
                    for name, (setup, call) in ON_STREAM.items():
                        filled = [where if part == "?" else part for part in call]
                        made = [filled[0], thread, *filled[1:]]
                        fork = relation.endswith("forked")
                        title = f"beside/{capture}/{relation}/{name}"
                        yield title, _program(stream, mode, own_mode, setup, made, fork=fork)


def _program(
    stream: str, mode: str, own_mode: str, setup: Calls, call: list[object], *, fork: bool
) -> Calls:
    forking: Calls = [["record", 0, "e1", stream, 0], ["wait", 0, "n2", "e1", 0]]
    joining: Calls = [["record", 0, "e5", "n2", 0], ["wait", 0, stream, "e5", 0]]
    exchange: Calls = [] if own_mode == "global" else [["exchange", call[1], own_mode]]
    return [
        *setup,
        ["begin", 0, stream, mode],
        ["launch", 0, "add", "d1", 1, stream],
        *(forking if fork else []),
        *exchange,
        call,
        *(joining if fork else []),
        ["launch", 0, "mix", "d1", 4, stream],
        ["end", 0, stream, "g5"],
        ["instantiate", 0, "g5", "x5"],
        ["graph_launch", 0, "x5", stream],
        ["get_last_error", call[1]],
    ]
