"""Zygotes by environment, and the tasks that they work on.

with Pool(workers=2) as pool:
    ticket = pool.submit(Task(target="case", request=..., env={}))
    for ticket, answer in pool.answers():
        ...
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from capturegate.errors import InputError
from capturegate.run import frames
from capturegate.run.environment import child_environment

WORKERS_DEFAULT = 2
TIME_LIMIT_S_DEFAULT = 60.0
_GRACE_S = 20.0
_READ_BYTES = 1 << 16
_STDERR_BYTES_MAX = 4000
_ROOM_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One call of a target in a child process of its own.

    Attributes:
        target: `describe`, `case`, or a name of the entry point group
            `capturegate.child_targets`.
        request: what the target is called with, JSON.
        env: the lane's variables, on top of the scrubbed environment.
        spawn: whether the child is a fresh interpreter instead of a fork.
        absent: packages that must not be loaded when the child is forked.
        preload: modules that the zygote imports once for all its children.
    """

    target: str
    request: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)
    spawn: bool = False
    absent: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    time_limit_s: float = TIME_LIMIT_S_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of a task.

    Attributes:
        value: what the target returned, None when it did not.
        fate: `answered`, `raised`, `input_error`, `timeout`, `signal`, `exit`, `oversized`,
            `not started`, `unstartable` (no Python starts in the task's environment) or `lost`
            (the zygote died).
        error: one sentence, empty when the target returned.
        trace: the traceback of what the target raised.
        input_error: the user's mistake that the target found.
        output: the last of what the child wrote to its standard streams.
        loaded: modules that kept the child from being forked, since it wants to load them itself.
        left: commands that the child left running, and that were killed.
    """

    value: dict[str, Any] | None
    fate: str
    error: str = ""
    trace: str = ""
    input_error: InputError | None = None
    output: str = ""
    loaded: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    duration_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class _Zygote:
    """A zygote as its parent sees it. `running` holds process groups by ticket."""

    process: subprocess.Popen[bytes]
    requests_fd: int
    outcomes_fd: int
    stderr: IO[bytes]
    outbox: bytearray = field(default_factory=bytearray)
    reader: frames.FrameReader = field(default_factory=frames.FrameReader)
    ready: bool = False
    outcome: dict[str, Any] | None = None
    deadlines: dict[int, float] = field(default_factory=dict)
    running: dict[int, int] = field(default_factory=dict)


_Key = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]


class Pool:
    """Runs tasks in children of zygotes, at most `workers` at once over all of them."""

    def __init__(self, workers: int = WORKERS_DEFAULT) -> None:
        self._workers = workers
        self._zygotes: dict[_Key, _Zygote] = {}
        self._plain_ready: set[tuple[str, ...]] = set()
        self._queue: deque[tuple[int, Task]] = deque()
        self._tasks: dict[int, Task] = {}
        self._selector = selectors.DefaultSelector()
        self._tickets = 0
        self._answers: deque[tuple[int, Answer]] = deque()
        self._compiled = tempfile.TemporaryDirectory(prefix="capturegate-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def zygote_pids(self) -> list[int]:
        """The processes of the zygotes."""
        return [zygote.process.pid for zygote in self._zygotes.values()]

    def submit(self, task: Task) -> int:
        """Queue a task; the ticket that its answer will carry."""
        self._tickets += 1
        self._queue.append((self._tickets, task))
        self._fill()
        return self._tickets

    def answers(self) -> Iterator[tuple[int, Answer]]:
        """Answers as they come, until nothing is queued or running."""
        while self._queue or self._tasks or self._answers:
            while self._answers:
                yield self._answers.popleft()
            self._fill()
            if self._tasks:
                for ready, _ in self._selector.select(self._timeout_s()):
                    key, what = ready.data
                    if key in self._zygotes:
                        (self._read if what == "read" else self._flush)(key)
                self._kill_stuck()

    def call(self, task: Task) -> Answer:
        """Run one task while nothing else is under way."""
        wanted = self.submit(task)
        return dict(self.answers())[wanted]

    def close(self) -> None:
        """End every zygote and every child."""
        for key in list(self._zygotes):
            zygote = self._zygotes[key]
            # Its end of the pipe closes: a zygote kills its children and goes.
            self._forget(key)
            try:
                zygote.process.wait(timeout=_GRACE_S)
            except subprocess.TimeoutExpired:
                _kill(zygote)
            zygote.stderr.close()
        self._compiled.cleanup()
        self._queue.clear()
        self._tasks.clear()

    def _fill(self) -> None:
        while self._queue and len(self._tasks) < self._workers:
            ticket, task = self._queue.popleft()
            key = (tuple(sorted(task.env.items())), task.preload)
            try:
                zygote = self._zygotes.get(key) or self._start(key)
            except (OSError, ValueError) as error:
                if not task.env:
                    raise
                self._answers.append((ticket, _unstartable(key, str(error))))
                continue
            self._tasks[ticket] = task
            zygote.deadlines[ticket] = time.monotonic() + task.time_limit_s + _GRACE_S
            message = {
                "id": ticket,
                "target": task.target,
                "request": task.request,
                "spawn": task.spawn,
                "absent": task.absent,
                "time_limit_s": task.time_limit_s,
            }
            self._post(key, message)

    def _start(self, key: _Key) -> _Zygote:
        env, preload = key
        requests_in, requests_out = os.pipe()
        outcomes_in, outcomes_out = os.pipe()
        stderr = tempfile.TemporaryFile()  # noqa: SIM115, closed with the zygote
        module = ["-P", "-m", "capturegate.run.zygote", str(requests_in), str(outcomes_out)]
        try:
            process = subprocess.Popen(
                [sys.executable, *module],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                env=child_environment(os.environ, dict(env)),
                pass_fds=(requests_in, outcomes_out),
                start_new_session=True,
            )
        except (OSError, ValueError):
            # Such as an environment that is larger than the system takes.
            for fd in (requests_out, outcomes_in):
                os.close(fd)
            stderr.close()
            raise
        finally:
            for fd in (requests_in, outcomes_out):
                os.close(fd)
        zygote = _Zygote(
            process=process, requests_fd=requests_out, outcomes_fd=outcomes_in, stderr=stderr
        )
        self._selector.register(outcomes_in, selectors.EVENT_READ, (key, "read"))
        os.set_blocking(requests_out, False)
        # An engine that lies in the working directory is found, after all that is installed.
        path = [str(Path(entry).resolve()) for entry in [*sys.path, "."]]
        self._zygotes[key] = zygote
        compiled = self._compiled.name
        told = {"workers": self._workers, "path": path, "preload": preload}
        self._post(key, told | {"compiled": compiled if _is_roomy(compiled) else ""})
        return zygote

    def _post(self, key: _Key, message: Mapping[str, Any]) -> None:
        self._zygotes[key].outbox += frames.pack(message)
        self._flush(key)

    def _flush(self, key: _Key) -> None:
        """Write what the pipe takes; waiting for more could be waiting for each other."""
        zygote = self._zygotes[key]
        try:
            while zygote.outbox:
                del zygote.outbox[: os.write(zygote.requests_fd, zygote.outbox)]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            # A zygote that died is noticed where its outcomes are read.
            zygote.outbox.clear()
        registered = zygote.requests_fd in self._selector.get_map()
        if zygote.outbox and not registered:
            self._selector.register(zygote.requests_fd, selectors.EVENT_WRITE, (key, "write"))
        elif registered and not zygote.outbox:
            self._selector.unregister(zygote.requests_fd)

    def _timeout_s(self) -> float:
        deadlines = [d for z in self._zygotes.values() for d in z.deadlines.values()]
        return max(0.0, min(deadlines) - time.monotonic())

    def _kill_stuck(self) -> None:
        """A backstop: zygotes keep the time limits, unless they are stuck themselves."""
        now = time.monotonic()
        for zygote in self._zygotes.values():
            if any(deadline <= now for deadline in zygote.deadlines.values()):
                _kill(zygote)

    def _read(self, key: _Key) -> None:
        zygote = self._zygotes[key]
        data = os.read(zygote.outcomes_fd, _READ_BYTES)
        if not data:
            self._bury(key)
            return
        for body in zygote.reader.feed(data):
            message = json.loads(body)
            if zygote.outcome is not None:
                outcome, zygote.outcome = zygote.outcome, None
                self._conclude(zygote, outcome, message)
            elif "ready" in message:
                zygote.ready = True
                env, preload = key
                if not env:
                    self._plain_ready.add(preload)
            elif "started" in message:
                zygote.running[message["id"]] = message["started"]
            elif message["fate"] == "answered":
                zygote.outcome = message
            else:
                self._conclude(zygote, message, {})

    def _conclude(
        self, zygote: _Zygote, outcome: Mapping[str, Any], body: Mapping[str, Any]
    ) -> None:
        ticket = outcome["id"]
        task = self._tasks.pop(ticket)
        zygote.deadlines.pop(ticket)
        zygote.running.pop(ticket, None)
        self._answers.append((ticket, _answer_from(task, outcome, body)))

    def _bury(self, key: _Key) -> None:
        """A zygote died: so did its children, and what they were asked has no answer."""
        zygote = self._zygotes[key]
        self._forget(key)
        _kill(zygote)
        how = "after" if zygote.ready else "before"
        zygote.stderr.seek(0)
        said = zygote.stderr.read()[-_STDERR_BYTES_MAX:].decode(errors="replace").strip()
        zygote.stderr.close()
        error = (
            f"the process that starts the cases ended {how} it was ready "
            f"(exit code {zygote.process.returncode})"
        )
        answer = Answer(value=None, fate="lost", error=error, output=said)
        env, preload = key
        if env and not zygote.ready and preload in self._plain_ready:
            # Without these variables it does start.
            answer = _unstartable(key, said)
        for ticket in zygote.deadlines:
            self._tasks.pop(ticket)
            self._answers.append((ticket, answer))

    def _forget(self, key: _Key) -> None:
        zygote = self._zygotes.pop(key)
        for fd in (zygote.requests_fd, zygote.outcomes_fd):
            with suppress(KeyError):
                self._selector.unregister(fd)
            os.close(fd)


def _is_roomy(folder: str) -> bool:
    """Whether files can be written there in full: Python takes one that was cut off for whole."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        return False
    try:
        return shutil.disk_usage(folder).free > _ROOM_BYTES
    except OSError:
        return False


def _kill(zygote: _Zygote) -> None:
    """Kill a zygote and the groups of its children, should it not have done so itself."""
    for pid in (zygote.process.pid, *zygote.running.values()):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    zygote.process.wait()


def _unstartable(key: _Key, said: str) -> Answer:
    names = ", ".join(name for name, _ in key[0])
    return Answer(
        value=None,
        fate="unstartable",
        error=f"Python does not start in this environment: {names}",
        output=said,
    )


def _answer_from(task: Task, outcome: Mapping[str, Any], body: Mapping[str, Any]) -> Answer:
    fate, detail = outcome["fate"], outcome["detail"]
    trace = ""
    input_error = None
    if "raised" in body:
        fate, error, trace = "raised", body["raised"], body["trace"]
    elif "input_error" in body:
        input_error = InputError(**body["input_error"])
        fate, error = "input_error", str(input_error)
    else:
        error = {
            "answered": "",
            "timeout": f"still running after {task.time_limit_s:g} s, and killed",
            "signal": f"the process died by {detail}",
            "exit": f"the process exited with code {detail} and without an answer",
            "oversized": "the answer was larger than a pipe frame may be",
            "not started": f"the process could not be started: {detail}",
        }[fate]
    return Answer(
        value=body.get("value"),
        fate=fate,
        error=error,
        trace=trace,
        input_error=input_error,
        output=outcome.get("output", ""),
        loaded=tuple(outcome.get("loaded", ())),
        left=tuple(outcome.get("left", ())),
        duration_s=outcome.get("duration_s", 0.0),
    )
