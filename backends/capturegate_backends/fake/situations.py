"""The captures of one device, and which situation a call is in.

The rules themselves are data in `capturegate_backends.fake.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from capturegate.backend import SUCCESS, CaptureMode, CaptureStatus
from capturegate_backends.fake.graphs import GraphState, Node
from capturegate_backends.fake.memory import Memory
from capturegate_backends.fake.operations import Operation
from capturegate_backends.fake.rules import Effect, Rule, RuleBook, When
from capturegate_backends.fake.state import Capture, EventState, StreamState, ThreadState

Captures = Iterable[Capture]


@dataclass(slots=True, kw_only=True)
class Ask:
    """One call as the rules see it.

    `foreign` says that its memory is not the capture's; `child` is the graph that it embeds.
    """

    machine: CaptureMachine
    thread: ThreadState
    stream: StreamState | None
    event: EventState | None
    foreign: bool
    child: GraphState | None

    @property
    def capture(self) -> Capture | None:
        """The capture that the stream belongs to."""
        return self.stream.capture if self.stream else None


class CaptureMachine:
    """All open captures, and the one function that consults the rules."""

    def __init__(self, book: RuleBook) -> None:
        self._records = book.records
        self._restrictions = frozenset((r.caller, r.own, r.capture) for r in book.restrictions)
        self._rules: dict[str, list[Rule]] = {}
        for rule in book.rules:
            for call in rule.calls:
                self._rules.setdefault(call, []).append(rule)
        self._calm = {
            call: [rule for rule in rules if rule.when in _WITHOUT_CAPTURES]
            for call, rules in self._rules.items()
        }
        self._next_capture = 1
        self._next_node = 1
        self.open: list[Capture] = []

    def judge(
        self,
        call: str,
        thread: ThreadState,
        stream: StreamState | None = None,
        event: EventState | None = None,
        *,
        foreign: bool = False,
        child: GraphState | None = None,
    ) -> str:
        """CUDA's error name for this call, cudaSuccess when it may go ahead.

        The effect of a refusal has happened when this returns.
        """
        rules = (self._rules if self.open else self._calm).get(call)
        if not rules:
            return SUCCESS
        ask = Ask(
            machine=self,
            thread=thread,
            stream=stream,
            event=event,
            foreign=foreign,
            child=child,
        )
        for rule in rules:
            concerned = _SITUATIONS[rule.when](ask)
            if concerned is not None:
                self._apply(rule.effect, list(concerned))
                return rule.error
        return SUCCESS

    def begin(
        self,
        stream: StreamState,
        thread: ThreadState,
        mode: CaptureMode,
        graph: GraphState,
        after: tuple[int, ...] = (),
    ) -> Capture:
        """A new capture; what comes first on its stream depends on the nodes `after`."""
        capture = Capture(
            id=self._next_capture, origin=stream, thread=thread, mode=mode, graph=graph
        )
        self._next_capture += 1
        self.open.append(capture)
        capture.join(stream, after)
        return capture

    def end(self, capture: Capture) -> None:
        """The capture is over; its streams are ordinary again."""
        capture.close()
        self.open.remove(capture)

    def record(
        self, call: str, capture: Capture, stream: StreamState, operation: Operation, memory: Memory
    ) -> Node | None:
        """Add the node that a call on a stream of a capture leaves, if it leaves one."""
        node = self.add(call, capture.graph, operation, capture.tails[stream], memory)
        if node is not None:
            capture.tails[stream] = (node.id,)
        return node

    def add(
        self,
        call: str,
        graph: GraphState,
        operation: Operation,
        after: tuple[int, ...],
        memory: Memory,
    ) -> Node | None:
        """Add the node that a call leaves in a graph, if it leaves one."""
        if call not in self._records:
            return None
        node = Node(
            id=self._next_node,
            kind=self._records[call],
            operation=operation,
            dependencies=after,
            reads=memory.baked_spans(operation.reads),
            writes=memory.baked_spans(operation.writes),
        )
        self._next_node += 1
        graph.nodes[node.id] = node
        return node

    def restricting(self, thread: ThreadState) -> list[Capture]:
        """The captures that forbid this thread unsafe calls."""
        return [
            capture
            for capture in self.open
            if (thread.mode, capture.thread is thread, capture.mode) in self._restrictions
        ]

    def _apply(self, effect: Effect, captures: list[Capture]) -> None:
        for capture in captures:
            if effect is Effect.POISONS and not capture.ended:
                capture.status = CaptureStatus.INVALIDATED
            elif effect is Effect.ENDS:
                self.end(capture)


def _stream_captures(ask: Ask) -> Captures | None:
    return (ask.capture,) if ask.capture else None


def _stream_invalidated(ask: Ask) -> Captures | None:
    capture = ask.capture
    return (capture,) if capture and capture.status is CaptureStatus.INVALIDATED else None


def _not_capturing(ask: Ask) -> Captures | None:
    return () if ask.capture is None else None


def _target_legacy(ask: Ask) -> Captures | None:
    return () if ask.stream and ask.stream.legacy else None


def _beside_blocking(ask: Ask) -> Captures | None:
    if not (ask.stream and ask.stream.legacy):
        return None
    return [capture for capture in ask.machine.open if capture.blocking] or None


def _restricted(ask: Ask) -> Captures | None:
    return ask.machine.restricting(ask.thread) or None if ask.capture is None else None


def _any_capture(ask: Ask) -> Captures | None:
    return ask.machine.open or None


def _foreign_pointer(ask: Ask) -> Captures | None:
    return (ask.capture,) if ask.capture and ask.foreign else None


def _event_capture(ask: Ask) -> Capture | None:
    """The open capture that the event was recorded in."""
    capture = ask.event.capture if ask.event else None
    return capture if capture and not capture.ended else None


def _event_captured(ask: Ask) -> Captures | None:
    return (ask.event.capture,) if ask.event and ask.event.capture else None


def _event_invalidated(ask: Ask) -> Captures | None:
    capture = _event_capture(ask)
    if capture is None or capture.status is not CaptureStatus.INVALIDATED:
        return None
    return (ask.capture,) if ask.capture else ()


def _event_ended(ask: Ask) -> Captures | None:
    if not _event_captured(ask) or _event_capture(ask):
        return None
    return (ask.capture,) if ask.capture else ()


def _event_outside(ask: Ask) -> Captures | None:
    outside = ask.event is not None and ask.event.recorded and ask.event.capture is None
    return (ask.capture,) if ask.capture and outside else None


def _event_elsewhere(ask: Ask) -> Captures | None:
    mine, its = ask.capture, _event_capture(ask)
    return (mine, its) if mine and its and mine is not its else None


def _legacy_joins(ask: Ask) -> Captures | None:
    capture = _event_capture(ask)
    return (capture,) if capture and ask.stream and ask.stream.legacy else None


def _not_origin(ask: Ask) -> Captures | None:
    return (ask.capture,) if ask.capture and ask.capture.origin is not ask.stream else None


def _origin(ask: Ask) -> Captures | None:
    return (ask.capture,) if ask.capture and ask.capture.origin is ask.stream else None


def _wrong_thread(ask: Ask) -> Captures | None:
    capture = ask.capture
    if capture is None or capture.mode is CaptureMode.RELAXED:
        return None
    return (capture,) if capture.thread is not ask.thread else None


def _unjoined(ask: Ask) -> Captures | None:
    return (ask.capture,) if ask.capture and ask.capture.unjoined else None


def _child_owns_memory(ask: Ask) -> Captures | None:
    return () if ask.child and ask.child.owns_memory else None


_SITUATIONS: dict[When, Callable[[Ask], Captures | None]] = {
    When.STREAM_CAPTURES: _stream_captures,
    When.STREAM_INVALIDATED: _stream_invalidated,
    When.NOT_CAPTURING: _not_capturing,
    When.TARGET_LEGACY: _target_legacy,
    When.BESIDE_BLOCKING: _beside_blocking,
    When.RESTRICTED: _restricted,
    When.ANY_CAPTURE: _any_capture,
    When.FOREIGN_POINTER: _foreign_pointer,
    When.EVENT_CAPTURED: _event_captured,
    When.EVENT_INVALIDATED: _event_invalidated,
    When.EVENT_ENDED: _event_ended,
    When.EVENT_OUTSIDE: _event_outside,
    When.EVENT_ELSEWHERE: _event_elsewhere,
    When.LEGACY_JOINS: _legacy_joins,
    When.NOT_ORIGIN: _not_origin,
    When.WRONG_THREAD: _wrong_thread,
    When.UNJOINED: _unjoined,
    When.ORIGIN: _origin,
    When.CHILD_OWNS_MEMORY: _child_owns_memory,
}

_WITHOUT_CAPTURES = frozenset(
    {
        When.NOT_CAPTURING,
        When.TARGET_LEGACY,
        When.EVENT_CAPTURED,
        When.EVENT_ENDED,
        When.CHILD_OWNS_MEMORY,
    }
)
"""Situations that can be met while nothing is captured."""
