"""Streams that progress in a seeded legal order.

Work stands in one queue a stream, in order. Work may wait for other work (events, the legacy
stream, the former launch of the same executable). What runs next is drawn from the queues whose
head waits for nothing; the same seed draws the same order. Work also runs while the host goes
on, by draws at each submission, so the host's own accesses race with it as they would.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from capturegate_backends.fake.operations import Fault, Operation, World

PENDING_MAX = 1024
PROGRESS_CHANCE = 0.5


class Work:
    """One operation in a stream; it runs once everything in `waits` is done."""

    __slots__ = ("done", "operation", "waits")

    def __init__(self, operation: Operation, waits: list[Work]) -> None:
        self.operation = operation
        self.waits = waits
        self.done = False

    @property
    def ready(self) -> bool:
        """Whether nothing is left to wait for."""
        return all(other.done for other in self.waits)


class Queue:
    """The work of one stream that is not done, oldest first.

    `blocking` says that the legacy stream orders itself against this one.
    """

    __slots__ = ("blocking", "works")

    def __init__(self, *, blocking: bool) -> None:
        self.blocking = blocking
        self.works: deque[Work] = deque()

    @property
    def tail(self) -> Work | None:
        """The newest work that is not done."""
        return self.works[-1] if self.works else None


class Scheduler:
    """Runs the work of all streams of one device."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        # The draws make schedules, not secrets.
        self._random = random.Random(seed)  # noqa: S311
        self._busy: list[Queue] = []
        self._pending = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is left in any stream."""
        return not self._busy

    @property
    def blocking_tails(self) -> list[Work]:
        """The newest work of each stream that the legacy stream waits for."""
        return [queue.works[-1] for queue in self._busy if queue.blocking]

    def submit(self, queue: Queue, operation: Operation, waits: Iterable[Work | None] = ()) -> Work:
        """Put an operation at the end of a stream; maybe something runs right away."""
        left = [other for other in waits if other is not None and not other.done] if waits else []
        work = Work(operation, left)
        if not queue.works:
            self._busy.append(queue)
        queue.works.append(work)
        self._pending += 1
        while self._pending > PENDING_MAX:
            self._step()
        if self._random.random() < PROGRESS_CHANCE:
            self._step()
        return work

    def finish(self, work: Work | None) -> None:
        """Run until `work` is done."""
        while work is not None and not work.done:
            self._step()

    def finish_all(self) -> None:
        """Run until nothing is left."""
        while self._busy:
            self._step()

    def finish_touching(self, address: int, nbytes: int) -> None:
        """Run until nothing is left that was given a part of these bytes."""
        for queue in list(self._busy):
            for work in reversed(list(queue.works)):
                regions = (*work.operation.reads, *work.operation.writes)
                if any(at < address + nbytes and address < at + size for at, size in regions):
                    self.finish(work)
                    break

    def poll(self, work: Work | None) -> bool:
        """Whether `work` is done; asking often enough makes it so."""
        if work is None or work.done:
            return True
        self._step()
        return work.done

    def _step(self) -> None:
        """Run one piece of work that may run now."""
        busy = self._busy
        if len(busy) > 1:
            ready = [queue for queue in busy if queue.works[0].ready]
            queue = ready[0] if len(ready) == 1 else self._random.choice(ready)
        else:
            queue = busy[0]
        work = queue.works.popleft()
        self._pending -= 1
        if not queue.works:
            busy.remove(queue)
        work.done = True
        try:
            work.operation.run(self._world)
        except Fault as fault:
            self._abandon(fault.error)

    def _abandon(self, error: str) -> None:
        """The device is lost: nothing that was submitted runs any more."""
        self._world.refusal = error
        for queue in self._busy:
            for work in queue.works:
                work.done = True
            queue.works.clear()
        self._busy.clear()
        self._pending = 0
