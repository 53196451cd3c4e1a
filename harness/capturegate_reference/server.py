"""An asyncio server: requests come in, one loop runs them, the first fault stops it for good."""

from __future__ import annotations

import asyncio
import itertools
import traceback
from collections.abc import Sequence

from capturegate_reference.errors import EngineError
from capturegate_reference.scheduler import ServedRequest
from capturegate_reference.server_core import ServerCore


class StoppedEngine(EngineError):
    """A request reached an engine that does not run any more.

    Attributes:
        cause: what stopped it, in one line; empty when it was shut down.
        stack: where that happened, the stack of the first cause.
    """

    def __init__(self, cause: str, stack: str) -> None:
        said = f"it died of {cause}\n{stack}" if cause else "it was shut down"
        super().__init__(f"request submitted to a stopped engine; {said}")
        self.cause = cause
        self.stack = stack


class Server:
    """Runs requests in the order that the core decides.

    Attributes:
        stopped: why nothing is taken any more; None while the server runs.
    """

    def __init__(self, core: ServerCore) -> None:
        self.stopped: StoppedEngine | None = None
        self._core = core
        self._numbers = itertools.count()
        self._answers: dict[ServedRequest, asyncio.Future[ServedRequest]] = {}
        self._work = asyncio.Event()
        self._draining = False
        self._loop: asyncio.Task[None] | None = None

    async def generate(self, prompt: Sequence[int], new_tokens: int) -> ServedRequest:
        """Run one request to its end.

        Raises:
            StoppedEngine: the engine has stopped, or stops before the request is done.
            EngineError: the request could never run.
            CancelledError: the client gave up; the request is dropped and its pages go back.
        """
        if self.stopped is not None:
            raise StoppedEngine(self.stopped.cause, self.stopped.stack)
        request = ServedRequest(
            number=next(self._numbers), prompt=tuple(prompt), new_tokens=new_tokens
        )
        self._core.add(request)
        if self._loop is None:
            self._loop = asyncio.create_task(self._run())
        answer = self._answers[request] = asyncio.get_running_loop().create_future()
        self._work.set()
        try:
            done: ServedRequest = await answer
        except asyncio.CancelledError:
            self._answers.pop(request, None)
            self._core.drop(request)
            raise
        return done

    async def shutdown(self) -> None:
        """Take no more requests, and run those that are there to their end."""
        self.stopped = self.stopped or StoppedEngine("", "")
        self._draining = True
        self._work.set()
        if self._loop is not None:
            await self._loop

    async def _run(self) -> None:
        while True:
            if self._core.idle:
                if self._draining:
                    return
                self._work.clear()
                await self._work.wait()
                continue
            try:
                self._deliver(self._core.iterate())
            except BaseException as error:
                self._die(error)
                if not isinstance(error, Exception):
                    raise
                return
            # Let whoever got an answer, or wants to ask, have a turn.
            await asyncio.sleep(0)

    def _deliver(self, finished: Sequence[ServedRequest]) -> None:
        for request in finished:
            answer = self._answers.pop(request)
            # A client that gave up a moment ago has had no turn yet to take its request along.
            if not answer.done():
                answer.set_result(request)

    def _die(self, error: BaseException) -> None:
        """Stop for good: keep the first cause with its stack, and tell everybody who waits."""
        cause = f"{type(error).__name__}: {error}"
        stack = "".join(traceback.format_tb(error.__traceback__))
        self.stopped = StoppedEngine(cause, stack)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(StoppedEngine(cause, stack))
        self._answers.clear()
