"""Host threads of call programs: the caller is thread 0, the others wait for work to be handed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any


class Threads:
    """Threads that live as long as this object; each is started when it is first used."""

    def __init__(self, start: Callable[[], None]) -> None:
        """`start` runs once on each new thread before its first work."""
        self._start = start
        self._queues: dict[int, queue.SimpleQueue[Any]] = {}
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(self, thread: int, work: Callable[[], Any]) -> Any:
        """Run `work` on one of the threads and wait for its result."""
        if thread == 0:
            return work()
        line = self._queues.get(thread)
        if line is None:
            line = self._queues[thread] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()
        line.put(work)
        value, error = self._answers.get()
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let the threads end."""
        for line in self._queues.values():
            line.put(None)
        self._queues.clear()

    def _serve(self, line: queue.SimpleQueue[Any]) -> None:
        self._start()
        while (work := line.get()) is not None:
            try:
                self._answers.put((work(), None))
            except BaseException as error:  # handed on to the waiting thread, which raises it
                self._answers.put((None, error))
