"""Systematic call programs about structure: events, forks, joins, several captures, threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from capturegate.programs.child_structures import child_graphs
from capturegate.programs.graph_structures import (
    growing_graphs,
    lifetimes,
    memory_nodes,
    parameters,
    updates,
)
from capturegate.programs.ops import MODES
from capturegate.programs.rare_structures import rare_answers
from capturegate.programs.stream_structures import destroyed_streams
from capturegate.programs.sweeps import Calls

_RUN: Calls = [["instantiate", 0, "g5", "x5"], ["graph_launch", 0, "x5", "n2"]]
_CAPTURING = ("b1", "n1", "own")
_JOIN_MIDDLES: dict[str, Calls] = {
    "joined": [["record", 0, "e2", "+", 0], ["wait", 0, "?", "e2", 0]],
    "unjoined": [],
    "joined-then-more": [
        ["record", 0, "e2", "+", 0],
        ["wait", 0, "?", "e2", 0],
        ["launch", 0, "add", "d1", 8, "+"],
    ],
    "joined-before-work": [
        ["record", 0, "e2", "+", 0],
        ["launch", 0, "add", "d1", 8, "+"],
        ["wait", 0, "?", "e2", 0],
    ],
    "end-forked": [["end", 0, "+", "g6"]],
    "end-forked-joined": [
        ["record", 0, "e2", "+", 0],
        ["wait", 0, "?", "e2", 0],
        ["end", 0, "+", "g6"],
    ],
    "end-thread": [["end", 1, "?", "g6"]],
    "end-forked-thread": [["end", 1, "+", "g6"]],
    "begin-forked": [["begin", 0, "+", "relaxed"]],
    "wait-twice": [
        ["record", 0, "e2", "+", 0],
        ["wait", 0, "?", "e2", 0],
        ["wait", 0, "?", "e2", 0],
    ],
    "record-only": [["record", 0, "e2", "+", 0]],
    "third-stream": [
        ["record", 0, "e2", "+", 0],
        ["wait", 0, "b2", "e2", 0],
        ["memset_async", 0, "d3", 4, "b2"],
        ["record", 0, "e3", "b2", 0],
        ["wait", 0, "?", "e3", 0],
    ],
    "third-stream-unjoined-second": [
        ["record", 0, "e2", "?", 0],
        ["wait", 0, "b2", "e2", 0],
        ["memset_async", 0, "d3", 4, "b2"],
        ["record", 0, "e3", "b2", 0],
        ["wait", 0, "?", "e3", 0],
    ],
    "join-no-work-fork": [["wait", 0, "b2", "e1", 0], ["record", 0, "e3", "b2", 0]],
    "poison-forked": [["stream_sync", 0, "+"]],
    "poison-origin": [["stream_sync", 0, "?"]],
    "poison-end-forked": [["device_sync", 0], ["end", 0, "+", "g6"]],
    "poison-wait": [["device_sync", 0], ["wait", 0, "?", "e1", 0]],
    "poison-record": [["device_sync", 0], ["record", 0, "e2", "+", 0]],
    "poison-launch": [["device_sync", 0], ["launch", 0, "add", "d2", 1, "+"]],
    "poison-begin": [["device_sync", 0], ["begin", 0, "?", "relaxed"]],
    "poison-query": [["device_sync", 0], ["event_query", 0, "e1"]],
    "poison-malloc": [["device_sync", 0], ["malloc", 0, "m1", 4096]],
    "poison-info": [["device_sync", 0], ["info", 0, "?"], ["is_capturing", 0, "+"]],
    "poison-wait-other": [["device_sync", 0], ["wait", 0, "b2", "e1", 0]],
    "poison-legacy": [["device_sync", 0], ["launch", 0, "add", "d2", 1, "legacy"]],
    "poison-malloc-thread": [["device_sync", 0], ["malloc", 1, "m1", 4096]],
}


def structures() -> Iterator[tuple[str, Calls]]:
    """All programs about structure, named."""
    yield from _captured_events()
    yield from _joins()
    yield from _two_captures()
    yield from updates()
    yield from parameters()
    yield from growing_graphs()
    yield from memory_nodes()
    yield from _last_errors()
    yield from _modes_of_threads()
    yield from lifetimes()
    yield from child_graphs()
    yield from rare_answers()
    yield from destroyed_streams()


def _captured_events() -> Iterator[tuple[str, Calls]]:
    uses: dict[str, Calls] = {
        "query": [["event_query", 0, "e1"]],
        "sync": [["event_sync", 0, "e1"]],
        "query-thread": [["event_query", 1, "e1"]],
        "sync-thread": [["event_sync", 1, "e1"]],
        "destroy": [["event_destroy", 0, "e1"]],
        "record-outside": [["record", 0, "e1", "b2", 0], ["event_query", 0, "e1"]],
        "record-again": [["record", 0, "e1", "?", 0]],
        "wait-external": [["wait", 0, "?", "e1", 1]],
        "record-external": [["record", 0, "e1", "?", 1]],
        "record-external-outside": [["record", 0, "e1", "b2", 1]],
        **{f"wait-{s}": [["wait", 0, s, "e1", 0]] for s in ("b2", "n2", "legacy", "own")},
        **{f"wait-{s}-thread": [["wait", 1, s, "e1", 0]] for s in ("n2", "own")},
        "wait-self": [["wait", 0, "?", "e1", 0]],
        "wait-external-other": [["wait", 0, "n2", "e1", 1]],
    }
    for stream, mode, (name, use) in product(_CAPTURING, MODES, uses.items()):
        call = _on(use, stream)
        head: Calls = [
            ["begin", 0, stream, mode],
            ["launch", 0, "add", "d1", 1, stream],
            ["record", 0, "e1", stream, 0],
        ]
        tail: Calls = [["launch", 0, "add", "d1", 5, stream], ["end", 0, stream, "g5"]]
        yield f"captured-event/{stream}/{mode}/{name}", [*head, *call, *tail, *_RUN]
        yield f"event-after-end/{stream}/{mode}/{name}", [*head, *tail, *call, *_RUN]
        begin_other: Calls = [["begin", 0, "b2", mode], ["launch", 0, "add", "d3", 1, "b2"]]
        end_other: Calls = [["launch", 0, "add", "d3", 1, "b2"], ["end", 0, "b2", "g4"]]
        there = _on(use, "b2")
        yield (
            f"event-in-next/{stream}/{mode}/{name}",
            [*head, *tail, *begin_other, *there, *end_other],
        )
        yield (
            f"event-in-other/{stream}/{mode}/{name}",
            [*head, *begin_other, *there, *end_other, *tail],
        )
        yield (
            f"poisoned-event-in-other/{stream}/{mode}/{name}",
            [*head, ["stream_sync", 0, stream], *begin_other, *there, *end_other, *tail],
        )
        broken: Calls = [["device_sync", 0]]
        yield f"event-after-poison/{stream}/{mode}/{name}", [*head, *broken, *call, *tail]


def _on(calls: Calls, stream: str) -> Calls:
    return [[stream if part == "?" else part for part in call] for call in calls]


def _joins() -> Iterator[tuple[str, Calls]]:
    for stream, fork, mode in product(_CAPTURING, ("n2", "t1", "own"), MODES):
        if stream == fork:
            continue
        for name, middle in _JOIN_MIDDLES.items():
            made: Calls = [["stream_create", 0, "t1", "blocking"]] if fork == "t1" else []
            calls: Calls = [
                *made,
                ["begin", 0, stream, mode],
                ["launch", 0, "add", "d1", 1, stream],
                ["record", 0, "e1", stream, 0],
                ["wait", 0, fork, "e1", 0],
                ["launch", 0, "add", "d2", 2, fork],
                *[[fork if part == "+" else part for part in c] for c in _on(middle, stream)],
                ["end", 0, stream, "g5"],
                ["end", 0, stream, "g7"],
                ["launch", 0, "add", "d4", 1, fork],
                *_RUN,
            ]
            yield f"join/{stream}/{fork}/{mode}/{name}", calls


def _two_captures() -> Iterator[tuple[str, Calls]]:
    middles: dict[str, Calls] = {
        "independent": [],
        "merge": [["record", 0, "e1", "n1", 0], ["wait", "T", "n2", "e1", 0]],
        "merge-back": [["record", "T", "e2", "n2", 0], ["wait", 0, "n1", "e2", 0]],
        "malloc": [["malloc", 0, "m1", 4096]],
        "malloc-thread": [["malloc", 1, "m1", 4096]],
        "malloc-third-thread": [["malloc", 2, "m1", 4096]],
        "query-third": [["stream_query", 2, "b1"]],
        "event-query": [["event_query", 0, "e8"]],
        "legacy": [["launch", 0, "add", "d3", 1, "legacy"]],
        "memcpy": [["memcpy", 0, "d3", "p1"]],
        "memcpy-thread": [["memcpy", 1, "d3", "p1"]],
        "device-sync": [["device_sync", 0]],
        "device-sync-thread": [["device_sync", 2]],
        "sync-one": [["stream_sync", 0, "n1"]],
        "end-one-then-malloc": [["end", 0, "n1", "g6"], ["malloc", 0, "m1", 4096]],
        "end-other-then-malloc": [["end", "T", "n2", "g6"], ["malloc", 0, "m1", 4096]],
        "end-crossed": [["end", 0, "n2", "g6"]],
        "stolen-event": [
            ["record", 0, "e1", "n1", 0],
            ["record", "T", "e1", "n2", 0],
            ["wait", 0, "b1", "e1", 0],
        ],
        "fork-joined-into-other": [
            ["record", 0, "e1", "n1", 0],
            ["wait", 0, "b1", "e1", 0],
            ["record", 0, "e2", "b1", 0],
            ["wait", "T", "n2", "e2", 0],
        ],
    }
    for one, other, thread, (name, middle) in product(MODES, MODES, (0, 1), middles.items()):
        calls: Calls = [
            ["begin", 0, "n1", one],
            ["begin", thread, "n2", other],
            ["launch", 0, "add", "d1", 1, "n1"],
            ["launch", thread, "add", "d2", 2, "n2"],
            *[[thread if part == "T" else part for part in call] for call in middle],
            ["end", 0, "n1", "g5"],
            ["end", thread, "n2", "g4"],
            *_RUN,
            ["instantiate", 0, "g4", "x4"],
            ["graph_launch", 0, "x4", "n1"],
        ]
        yield f"two/{one}/{other}/{thread}/{name}", calls


def _last_errors() -> Iterator[tuple[str, Calls]]:
    failing: dict[str, Calls] = {
        "end": [["end", 0, "n1", "g9"]],
        "begin-legacy": [["begin", 0, "legacy", "relaxed"]],
        "begin-twice": [["begin", 0, "n1", "relaxed"], ["begin", 0, "n1", "relaxed"]],
        "malloc": [["begin", 0, "n1", "global"], ["malloc", 0, "m1", 64]],
        "launch": [
            ["begin", 0, "b1", "relaxed"],
            ["launch", 0, "add", "d1", 1, "legacy"],
        ],
        "copy": [["begin", 0, "b1", "relaxed"], ["memcpy_async", 0, "d1", "d2", "legacy"]],
        "is-capturing": [["begin", 0, "b1", "relaxed"], ["is_capturing", 0, "legacy"]],
        "info": [["begin", 0, "b1", "relaxed"], ["info", 0, "legacy"]],
        "query": [["begin", 0, "n1", "relaxed"], ["stream_query", 0, "n1"]],
        "unregister": [["host_unregister", 0, "r1"]],
        "huge": [["malloc", 0, "m1", 1 << 50]],
        "huge-async": [["malloc_async", 0, "m1", 1 << 50, "n1"]],
        "huge-pinned": [["malloc_host", 0, "q1", 1 << 50]],
        "zero": [["malloc", 0, "m1", 0], ["free", 0, "m1"]],
        "zero-async": [["malloc_async", 0, "m1", 0, "n1"]],
        "zero-pinned": [["malloc_host", 0, "q1", 0]],
        "record-external": [["record", 0, "e1", "n1", 1]],
        "wait-external": [["wait", 0, "n1", "e1", 1]],
        "batch-legacy": [["memcpy_batch", 0, "d1", "d2", "legacy"]],
    }
    tails: dict[str, Calls] = {
        "get": [["get_last_error", 0], ["get_last_error", 0]],
        "peek": [["peek_last_error", 0], ["get_last_error", 0]],
        "success-between": [["set_device", 0], ["mem_get_info", 0], ["get_last_error", 0]],
        "other-thread": [["get_last_error", 1], ["get_last_error", 0]],
        "other-failure": [["host_unregister", 0, "r2"], ["get_last_error", 0]],
        "launch-after": [["launch", 0, "add", "d4", 1, "n2"], ["get_last_error", 0]],
    }
    for (name, calls), (ending, tail) in product(failing.items(), tails.items()):
        yield f"last-error/{name}/{ending}", [*calls, *tail]


def _modes_of_threads() -> Iterator[tuple[str, Calls]]:
    unsafe: dict[str, list[object]] = {
        "malloc": ["malloc", "m1", 4096],
        "query": ["stream_query", "b2"],
        "event-query": ["event_query", "e8"],
        "device-sync": ["device_sync"],
    }
    for mode, first, (name, call) in product(MODES, MODES, unsafe.items()):
        for thread in (0, 1):
            made = [call[0], thread, *call[1:]]
            yield (
                f"mode-first/{mode}/{first}/{thread}/{name}",
                [
                    ["exchange", thread, first],
                    ["begin", 0, "n1", mode],
                    ["launch", 0, "add", "d1", 1, "n1"],
                    made,
                    ["end", 0, "n1", "g5"],
                    *_RUN,
                ],
            )
            yield (
                f"mode-after-end/{mode}/{first}/{thread}/{name}",
                [
                    ["begin", 0, "n1", mode],
                    ["exchange", thread, first],
                    ["end", 0, "n1", "g5"],
                    made,
                    ["exchange", thread, "global"],
                ],
            )
        yield (
            f"ended-elsewhere/{mode}/{first}/{name}",
            [
                ["exchange", 1, first],
                ["begin", 0, "n1", mode],
                ["launch", 1, "add", "d1", 1, "n1"],
                ["end", 1, "n1", "g5"],
                [call[0], 0, *call[1:]],
                ["end", 0, "n1", "g4"],
                [call[0], 1, *call[1:]],
                *_RUN,
            ],
        )
