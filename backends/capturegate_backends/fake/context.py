"""What all calls of one fake device share: its state, its lock, and the way into every call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from capturegate.backend import SUCCESS, Event, Outcome, Stream, StreamKind
from capturegate_backends.fake.kernels import KernelMisuse
from capturegate_backends.fake.memory import Memory
from capturegate_backends.fake.operations import Operation, World
from capturegate_backends.fake.rules import rule_book
from capturegate_backends.fake.scheduler import Scheduler, Work
from capturegate_backends.fake.situations import CaptureMachine
from capturegate_backends.fake.state import EventState, StreamState, ThreadState

NOT_READY = "cudaErrorNotReady"
INVALID_VALUE = "cudaErrorInvalidValue"
INVALID_HANDLE = "cudaErrorInvalidResourceHandle"

_outcome = tuple.__new__
"""Makes an outcome of all its fields, the shorter way: most calls do work."""

P = ParamSpec("P")
T = TypeVar("T")


class Context:
    """The state of one device."""

    def __init__(self, seed: int, driver: str) -> None:
        book = rule_book(driver)
        self.lock = threading.RLock()
        self.memory = Memory()
        self.world = World(self.memory)
        self.scheduler = Scheduler(self.world, seed)
        self.machine = CaptureMachine(book)
        self.silent = book.silent
        self.legacy = StreamState(Stream(0, StreamKind.LEGACY))
        self.per_thread = Stream(1, StreamKind.PER_THREAD)
        self.streams: dict[int, StreamState] = {0: self.legacy}
        self.events: dict[int, EventState] = {}
        self._threads = threading.local()
        self._next_id = 2

    def new_id(self) -> int:
        """An id that no stream, event, graph or executable has."""
        self._next_id += 1
        return self._next_id - 1

    @property
    def thread(self) -> ThreadState:
        """The calling thread."""
        try:
            return self._threads.state  # type: ignore[no-any-return]
        except AttributeError:
            state = ThreadState(StreamState(self.per_thread))
            self._threads.state = state
            return state

    def stream(self, handle: Stream) -> StreamState | None:
        """The stream of a handle, None for one that was destroyed or is another device's."""
        if handle is self.per_thread:
            return self.thread.stream
        state = self.streams.get(handle.id)
        return state if state is not None and state.handle is handle else None

    def event(self, handle: Event) -> EventState | None:
        """The event of a handle, None for one that was destroyed or is another device's."""
        state = self.events.get(handle.id)
        return state if state is not None and state.handle is handle else None

    def fail(self, call: str, error: str, capture: int = 0, value: T | None = None) -> Outcome[T]:
        """Answer with an error, which becomes the thread's last one."""
        if call not in self.silent:
            self.thread.last_error = error
        return Outcome(error, value, capture)

    def answer(self, call: str, value: T | None = None) -> Outcome[T]:
        """Judge a call that is about no stream and no event."""
        error = self.machine.judge(call, self.thread)
        return Outcome(SUCCESS, value) if error == SUCCESS else self.fail(call, error)

    def enqueue(
        self,
        call: str,
        stream: Stream,
        operation: Operation,
        *,
        event: EventState | None = None,
        foreign: bool = False,
    ) -> Outcome[Any]:
        """Judge a call on a stream, then record it or put it into the stream."""
        target = self.stream(stream)
        if target is None:
            return self.fail(call, INVALID_HANDLE)
        capture = target.capture
        error = self.machine.judge(call, self.thread, target, event, foreign=foreign)
        if error != SUCCESS:
            return self.fail(call, error, capture.id if capture else 0)
        if capture is not None:
            node = self.machine.record(call, capture, target, operation, self.memory)
            return Outcome(SUCCESS, None, capture.id, node.id if node else 0)
        reads, writes = self.memory.spans(operation.reads), self.memory.spans(operation.writes)
        self.submit(target, operation)
        return _outcome(Outcome, (SUCCESS, None, 0, 0, reads, writes))

    def submit(
        self, stream: StreamState, operation: Operation, waits: Iterable[Work | None] = ()
    ) -> Work:
        """Put work into a stream, ordered against the legacy stream as CUDA does."""
        if stream is self.legacy:
            waits = (*waits, *self.scheduler.blocking_tails)
        elif self.legacy.queue.works and stream.blocking:
            waits = (*waits, self.legacy.queue.tail)
        return self.scheduler.submit(stream.queue, operation, waits)


class HasContext(Protocol):
    """A group of calls on a context."""

    context: Context


G = TypeVar("G", bound=HasContext)


def runtime_call(
    method: Callable[Concatenate[G, P], Outcome[T]],
) -> Callable[Concatenate[G, P], Outcome[T]]:
    """A call of the runtime: one at a time, refused whole once the device is lost."""
    name = method.__name__

    def call(self: G, /, *args: P.args, **kwargs: P.kwargs) -> Outcome[T]:
        context = self.context
        with context.lock:
            world = context.world
            if world.body_of:
                raise KernelMisuse(
                    world.body_of, f"its body called {name}; a kernel cannot call CUDA"
                )
            if world.refusal:
                return context.fail(name, world.refusal)
            return method(self, *args, **kwargs)

    update_wrapper(call, method)
    return call
