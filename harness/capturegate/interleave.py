"""Threads that run one at a time, in an order that a seed decides.

The interpreter switches threads rarely and where it likes, so a race can hide for years. Here a
thread may lose its turn at every instruction of the watched files, and wherever it finds a lock
taken; the same seed gives the same order. Instructions that stand for no source text do not count:
a tool that puts some into a file, to see how far it gets, leaves the order as it is.
"""

from __future__ import annotations

import _thread
import functools
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, TracebackType
from typing import Any

from capturegate.errors import CapturegateError


class Stuck(CapturegateError):
    """All threads wait for each other."""


class CooperativeLock:
    """A lock whose waiting threads give their turn away instead of blocking."""

    def __init__(self, interleaver: Interleaver) -> None:
        self._interleaver = interleaver
        self._taken = False

    def acquire(self) -> bool:
        """Take it, once it is free.

        Raises:
            Stuck: nobody is left who could give it back.
        """
        while self._taken:
            self._interleaver.wait()
        self._taken = True
        return True

    def release(self) -> None:
        """Let the next one have it."""
        self._taken = False
        self._interleaver.wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class _Worker:
    """One thread: its turn is a lock that it holds while somebody else runs."""

    def __init__(self, job: Callable[[], None]) -> None:
        self.job = job
        self.turn = _thread.allocate_lock()
        self.turn.acquire()
        self.failure: BaseException | None = None
        self.hopeless = False


class Interleaver:
    """Runs jobs in threads of their own, one at a time.

    Attributes:
        switches: how often another thread went on.
    """

    def __init__(self, seed: int, watched: frozenset[str], one_in: int = 12) -> None:
        """Prepare a run.

        `watched` holds the paths of the source files in which a thread may lose its turn, on
        average at one in `one_in` instructions.
        """
        self.switches = 0
        self._watched = watched
        self._one_in = one_in
        # The draws make schedules, not secrets.
        self._draws = random.Random(seed)  # noqa: S311
        self._ready: list[_Worker] = []
        self._waiting: list[_Worker] = []
        self._running: _Worker | None = None
        self._all_done = _thread.allocate_lock()

    @contextmanager
    def locks(self) -> Iterator[None]:
        """Make every `threading.Lock()` of what is built meanwhile one that gives turns away."""
        former = threading.Lock
        ours: Any = lambda: CooperativeLock(self)  # noqa: E731  # stands in for a constructor
        threading.Lock = ours
        try:
            yield
        finally:
            threading.Lock = former

    def run(self, jobs: Sequence[Callable[[], None]]) -> list[BaseException | None]:
        """Run all jobs to their end; what each of them raised."""
        workers = [_Worker(job) for job in jobs]
        if not workers:
            return []
        self._ready = list(workers)
        self._all_done.acquire()
        threads = [threading.Thread(target=self._work, args=(worker,)) for worker in workers]
        for thread in threads:
            thread.start()
        self._pass_turn(self._draws.choice(self._ready))
        self._all_done.acquire()
        self._all_done.release()
        for thread in threads:
            thread.join()
        return [worker.failure for worker in workers]

    def wait(self) -> None:
        """Let the others go on until one of them gives a lock back.

        Raises:
            Stuck: there are none, or all of them wait.
        """
        mine = self._running
        if mine is None or self._ready == [mine]:
            raise Stuck("every thread waits for a lock that nobody gives back")
        self._ready.remove(mine)
        self._waiting.append(mine)
        self._change_turns(mine)
        if mine.hopeless:
            raise Stuck("the thread that has the lock ended without giving it back")

    def wake(self) -> None:
        """Let those who wait look again."""
        self._ready += self._waiting
        self._waiting.clear()

    def _change_turns(self, mine: _Worker) -> None:
        """Go on with another thread, and come back when it is this one's turn again."""
        self._pass_turn(
            self._draws.choice([worker for worker in self._ready if worker is not mine])
        )
        mine.turn.acquire()

    def _pass_turn(self, worker: _Worker) -> None:
        self.switches += 1
        self._running = worker
        worker.turn.release()

    def _work(self, worker: _Worker) -> None:
        worker.turn.acquire()
        sys.settrace(self._enter)
        try:
            worker.job()
        except BaseException as error:
            worker.failure = error
        finally:
            sys.settrace(None)
            self._ready.remove(worker)
            if not self._ready:
                for other in self._waiting:
                    other.hopeless = True
                self.wake()
            if self._ready:
                self._pass_turn(self._draws.choice(self._ready))
            else:
                self._running = None
                self._all_done.release()

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename not in self._watched:
            return None
        frame.f_trace_opcodes = True
        unwritten = _without_text(frame.f_code)

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "opcode" and frame.f_lasti not in unwritten:
                self._maybe_change_turns()
            return step

        return step

    def _maybe_change_turns(self) -> None:
        mine = self._running
        if mine is None or len(self._ready) < 2:
            return
        if not self._draws.randrange(self._one_in):
            self._change_turns(mine)


@functools.cache
def _without_text(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions that stand for no source text."""
    return frozenset(
        2 * number
        for number, (line, end_line, column, end_column) in enumerate(code.co_positions())
        if (line, column) == (end_line, end_column)
    )
