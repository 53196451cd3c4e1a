"""CUDA's rules about capture, as data: one line a rule, keyed by driver version.

A rule says: when one of `calls` is made in the situation `when`, the call returns `error` and has
`effect` on the captures that the situation concerns. The first rule that fits a call answers it;
a call that no rule fits, or that one answers with success, goes ahead. What goes ahead on a stream
of a capture is recorded as the node kind that `RECORDS` gives.
`capturegate_backends.fake.situations` decides what a situation is; nothing else in this backend
knows a rule.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from capturegate.backend import CaptureMode
from capturegate.errors import InputError


class When(enum.Enum):
    """The situation that a call is made in; it names the captures that it concerns."""

    STREAM_CAPTURES = "the stream belongs to a capture"
    STREAM_INVALIDATED = "the stream belongs to an invalidated capture"
    NOT_CAPTURING = "the stream belongs to no capture"
    TARGET_LEGACY = "the stream is the legacy stream"
    BESIDE_BLOCKING = "the call uses the legacy stream while a blocking stream is captured"
    RESTRICTED = "captures forbid the caller's thread unsafe calls; the stream is in none"
    ANY_CAPTURE = "something is captured anywhere"
    FOREIGN_POINTER = "the stream captures and the memory is not from this capture"
    EVENT_CAPTURED = "the event was last recorded in a capture"
    EVENT_INVALIDATED = "the event was recorded in a capture that is invalidated"
    EVENT_ENDED = "the event was recorded in a capture that is over"
    EVENT_OUTSIDE = "the stream captures and the event was last recorded outside of captures"
    EVENT_ELSEWHERE = "the stream captures and the event was recorded in another open capture"
    LEGACY_JOINS = "the stream is the legacy stream and the event was recorded in an open capture"
    NOT_ORIGIN = "the capture did not begin on this stream"
    WRONG_THREAD = "another thread began the capture, and not in relaxed mode"
    UNJOINED = "a forked stream's last work does not lead back to the origin"
    ORIGIN = "the capture began on this stream"
    CHILD_OWNS_MEMORY = "the graph to embed has memory nodes"


class Effect(enum.Enum):
    """What a refusal does to the captures of its situation."""

    NOTHING = "the capture goes on"
    POISONS = "the capture is invalidated"
    ENDS = "the capture is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; `source` names a recording that shows it."""

    calls: tuple[str, ...]
    when: When
    error: str
    effect: Effect
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restriction:
    """A capture in mode `capture` forbids unsafe calls to a thread whose own mode is `caller`.

    `own` says whether that thread is the one that began the capture.
    """

    caller: CaptureMode
    own: bool
    capture: CaptureMode
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBook:
    """The rules of one driver version."""

    driver: str
    rules: tuple[Rule, ...]
    restrictions: tuple[Restriction, ...]
    records: dict[str, str]
    silent: frozenset[str]
    """Calls whose refusal does not become the thread's last error."""


_TABLE = "legality-h200"
_RECORDED = "programs-h200"

_NOTHING, _POISONS, _ENDS = Effect.NOTHING, Effect.POISONS, Effect.ENDS

_UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"
_INVALIDATED = "cudaErrorStreamCaptureInvalidated"
_MERGE = "cudaErrorStreamCaptureMerge"
_UNMATCHED = "cudaErrorStreamCaptureUnmatched"
_UNJOINED = "cudaErrorStreamCaptureUnjoined"
_ISOLATION = "cudaErrorStreamCaptureIsolation"
_IMPLICIT = "cudaErrorStreamCaptureImplicit"
_CAPTURED = "cudaErrorCapturedEvent"
_THREAD = "cudaErrorStreamCaptureWrongThread"
_STATE = "cudaErrorIllegalState"
_NOT_SUPPORTED = "cudaErrorNotSupported"
_SUCCESS = "cudaSuccess"
_VALUE = "cudaErrorInvalidValue"

_UNSAFE = (
    "malloc",
    "free",
    "malloc_host",
    "free_host",
    "malloc_managed",
    "host_register",
    "host_unregister",
    "mem_pool_trim_to",
    "event_query",
    "event_synchronize",
    "graph_instantiate",
    "graph_exec_destroy",
)
_WORK = (
    "launch_kernel",
    "launch_host_func",
    "memcpy_async",
    "memset_async",
    "event_record",
    "event_record_external",
    "stream_wait_event",
    "stream_wait_event_external",
)
_SYNCHRONOUS = (
    "memcpy",
    "memset",
)
_ORDERED_MEMORY = (
    "malloc_async",
    "free_async",
)
_WAITING = (
    "stream_synchronize",
    "stream_query",
)
_REPLAYING = (
    "graph_launch",
    "graph_upload",
)
_BEGINNING = (
    "stream_begin_capture",
    "stream_begin_capture_to_graph",
)
_ASKING = (
    "stream_is_capturing",
    "stream_get_capture_info",
)
_EXTERNAL = (
    "event_record_external",
    "stream_wait_event_external",
)
_ASKING_EVENT = (
    "event_query",
    "event_synchronize",
)
_BATCH = ("memcpy_batch_async",)
_WAIT = ("stream_wait_event",)
_OF_EVENT = (*_ASKING_EVENT, *_WAIT, "stream_wait_event_external")
_END = ("stream_end_capture",)
_DESTROY = ("stream_destroy",)
_EMBEDDING = ("graph_add_child_graph_node",)
_RECORDABLE = (*_WORK, *_ORDERED_MEMORY, *_BATCH)
_ON_STREAM = (*_WORK, *_ORDERED_MEMORY, *_WAITING, *_REPLAYING)


def _rule(calls: tuple[str, ...], when: When, error: str, effect: Effect, source: str) -> Rule:
    """A rule on one line, so that a flip is one line too."""
    return Rule(calls=calls, when=when, error=error, effect=effect, source=source)


_RULES_580 = (
    # The legacy stream beside a capture that has a blocking stream in it.
    _rule(_BATCH, When.TARGET_LEGACY, _VALUE, _NOTHING, _RECORDED),
    _rule(_ON_STREAM, When.BESIDE_BLOCKING, _IMPLICIT, _POISONS, _TABLE),
    _rule(_SYNCHRONOUS, When.BESIDE_BLOCKING, _IMPLICIT, _POISONS, _TABLE),
    _rule(_BEGINNING, When.BESIDE_BLOCKING, _IMPLICIT, _POISONS, _TABLE),
    _rule(_ASKING, When.BESIDE_BLOCKING, _IMPLICIT, _NOTHING, _TABLE),
    _rule(_END, When.BESIDE_BLOCKING, _IMPLICIT, _POISONS, _RECORDED),
    # A stream of a capture.
    _rule(_RECORDABLE, When.STREAM_INVALIDATED, _INVALIDATED, _NOTHING, _RECORDED),
    _rule(_BEGINNING, When.STREAM_CAPTURES, _STATE, _NOTHING, _TABLE),
    _rule(_BEGINNING, When.TARGET_LEGACY, _UNSUPPORTED, _NOTHING, _TABLE),
    _rule(_WAITING, When.STREAM_CAPTURES, _UNSUPPORTED, _POISONS, _TABLE),
    _rule(_REPLAYING, When.STREAM_CAPTURES, _UNSUPPORTED, _POISONS, _TABLE),
    _rule(_BATCH, When.STREAM_CAPTURES, _UNSUPPORTED, _NOTHING, _RECORDED),
    _rule(("free_async",), When.FOREIGN_POINTER, _VALUE, _NOTHING, _TABLE),
    # Events across the border of a capture.
    _rule(_OF_EVENT, When.EVENT_INVALIDATED, _VALUE, _POISONS, _RECORDED),
    _rule(_OF_EVENT, When.EVENT_ENDED, _VALUE, _POISONS, _RECORDED),
    _rule(_ASKING_EVENT, When.EVENT_CAPTURED, _CAPTURED, _POISONS, _RECORDED),
    _rule(_WAIT, When.EVENT_ELSEWHERE, _MERGE, _POISONS, _RECORDED),
    _rule(_WAIT, When.EVENT_OUTSIDE, _ISOLATION, _POISONS, _TABLE),
    _rule(_WAIT, When.LEGACY_JOINS, _IMPLICIT, _POISONS, _RECORDED),
    _rule(_EXTERNAL, When.NOT_CAPTURING, _STATE, _NOTHING, _RECORDED),
    # Calls that are unsafe for a thread under a capture's restriction.
    _rule(_UNSAFE, When.RESTRICTED, _UNSUPPORTED, _POISONS, _TABLE),
    _rule(_WAITING, When.RESTRICTED, _UNSUPPORTED, _POISONS, _TABLE),
    _rule(_ORDERED_MEMORY, When.RESTRICTED, _UNSUPPORTED, _POISONS, _TABLE),
    _rule(("device_synchronize",), When.ANY_CAPTURE, _UNSUPPORTED, _POISONS, _TABLE),
    # The end of a capture.
    _rule(_END, When.NOT_CAPTURING, _STATE, _NOTHING, _RECORDED),
    _rule(_END, When.NOT_ORIGIN, _UNMATCHED, _POISONS, _RECORDED),
    _rule(_END, When.STREAM_INVALIDATED, _INVALIDATED, _ENDS, _TABLE),
    _rule(_END, When.UNJOINED, _UNJOINED, _ENDS, _RECORDED),
    _rule(_END, When.WRONG_THREAD, _THREAD, _ENDS, _RECORDED),
    # To destroy the stream on which a capture began succeeds, and the capture is gone.
    _rule(_DESTROY, When.ORIGIN, _SUCCESS, _ENDS, _RECORDED),
    # A graph in a graph.
    _rule(_EMBEDDING, When.CHILD_OWNS_MEMORY, _NOT_SUPPORTED, _NOTHING, _RECORDED),
)

_GLOBAL, _LOCAL = CaptureMode.GLOBAL, CaptureMode.THREAD_LOCAL

_RESTRICTIONS_580 = (
    Restriction(caller=_GLOBAL, own=True, capture=_GLOBAL, source=_TABLE),
    Restriction(caller=_GLOBAL, own=True, capture=_LOCAL, source=_TABLE),
    Restriction(caller=_GLOBAL, own=False, capture=_GLOBAL, source=_TABLE),
    Restriction(caller=_LOCAL, own=True, capture=_GLOBAL, source=_RECORDED),
    Restriction(caller=_LOCAL, own=True, capture=_LOCAL, source=_RECORDED),
)

# Shown by programs-h200, each line; so is each silent call.
_RECORDS_580 = {
    "launch_kernel": "kernel",
    "launch_host_func": "host",
    "memcpy_async": "memcpy",
    "memset_async": "memset",
    "malloc_async": "mem_alloc",
    "free_async": "mem_free",
    "event_record_external": "event_record",
    "stream_wait_event_external": "wait_event",
    "graph_add_child_graph_node": "graph",
}

_SILENT_580 = frozenset(
    {
        # The real backend makes these through the driver, which has no last error.
        "launch_kernel",
        "launch_host_func",
        "graph_exec_kernel_node_set_params",
    }
)

_BOOKS = {
    "580": RuleBook(
        driver="580",
        rules=_RULES_580,
        restrictions=_RESTRICTIONS_580,
        records=_RECORDS_580,
        silent=_SILENT_580,
    )
}


def rule_book(driver: str) -> RuleBook:
    """The rules of a driver version, such as `580`.

    Raises:
        InputError: nobody recorded this driver; its answers are unknown, not guessed.
    """
    try:
        return _BOOKS[driver]
    except KeyError:
        known = ", ".join(sorted(_BOOKS))
        raise InputError(
            f"the fake backend has no recorded rules for driver {driver!r}",
            expected=f"one of: {known}",
            hint="record that driver with `capturegate conform --record`",
        ) from None
