"""The zygote: a fresh, single-threaded process that forks one child per request.

Started by the pool with the environment of a lane already set. It preloads what every case needs
and nothing of the engine, so that a fork costs little and an engine still reads its switches in a
process of its own. It ends, and ends its children, when its parent does.

Frames in: a configuration, then requests. Frames out: `ready`, then `started` and an outcome per
request; an outcome with `answered` is followed by the child's own frame.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from capturegate.errors import CapturegateError
from capturegate.run import child, frames
from capturegate.run.orphans import PR_SET_PDEATHSIG, Orphans, prctl

OUTPUT_BYTES_MAX = 64 * 1024
_READ_BYTES = 1 << 16
_IDLE_S = 1.0
_LEFT_READS_MAX = 64
_LOST = 70


class UncleanZygoteError(CapturegateError):
    """Something is loaded in the zygote that a request wants to load itself."""

    def __init__(self, problem: str, loaded: list[str]) -> None:
        self.loaded = loaded
        super().__init__(problem)


@dataclass(slots=True, kw_only=True)
class _Child:
    """One child at work."""

    ident: int
    pid: int
    answer_fd: int
    output_fd: int
    deadline: float
    started: float
    reader: frames.FrameReader = field(default_factory=frames.FrameReader)
    body: bytes | None = None
    output: bytearray = field(default_factory=bytearray)
    fate: str = ""


def loaded_of(prefixes: list[str]) -> list[str]:
    """The loaded modules that are one of these packages, or inside one."""
    inside = tuple(f"{prefix}." for prefix in prefixes)
    return sorted(m for m in list(sys.modules) if m in prefixes or m.startswith(inside))


def warm_up() -> None:
    """Touch what is slow the first time: NumPy, the parser of the files, the servers' loop."""
    import asyncio  # noqa: F401

    import numpy as np
    import yaml

    yaml.safe_load("a: [1, b]")
    a = np.ones((4, 4), dtype=np.float32)
    np.exp(a @ a).sum(axis=1).tobytes()
    # These two load parts of NumPy that take longer than many a case.
    np.random.default_rng(0)
    np.unique(a)


class Zygote:
    """The event loop: requests in, children forked, outcomes out."""

    def __init__(self, requests_fd: int, outcomes_fd: int) -> None:
        self._requests_fd = requests_fd
        self._outcomes_fd = outcomes_fd
        self._reader = frames.FrameReader()
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}
        self._waiting: deque[dict[str, Any]] = deque()
        self._workers = 0
        self._path: list[str] = []
        self._compiled = ""
        self._wake_fds = os.pipe()
        self._pid, self._parent = os.getpid(), os.getppid()
        self._orphans = Orphans()
        self._orphans.adopt()

    def run(self) -> None:
        """Serve until the parent is gone."""
        wake_in, wake_out = self._wake_fds
        for fd in (wake_in, wake_out, self._requests_fd):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _wake)
        self._selector.register(self._requests_fd, selectors.EVENT_READ, "requests")
        self._selector.register(wake_in, selectors.EVENT_READ, "exits")
        try:
            # A copy of the pipe's other end in some fork of the parent would hide its death.
            while os.getppid() == self._parent:
                for key, _ in self._selector.select(self._timeout_s()):
                    if key.data == "exits":
                        with suppress(BlockingIOError):
                            os.read(wake_in, _READ_BYTES)
                    elif key.data == "requests":
                        if not self._take_requests():
                            return
                    else:
                        self._take_from(*key.data)
                self._kill_late()
                self._reap()
                self._start_waiting()
        finally:
            for worker in self._children.values():
                _kill_group(worker.pid)
            self._orphans.end_all()
            if self._compiled and os.getppid() != self._parent:
                shutil.rmtree(self._compiled, ignore_errors=True)

    def _timeout_s(self) -> float:
        now = time.monotonic()
        left = [c.deadline - now for c in self._children.values() if not c.fate]
        return max(0.0, min([*left, _IDLE_S]))

    def _take_requests(self) -> bool:
        """Read what came; False when the parent closed its end."""
        try:
            data = os.read(self._requests_fd, _READ_BYTES)
        except BlockingIOError:
            return True
        for body in self._reader.feed(data):
            message = json.loads(body)
            if "request" in message:
                self._waiting.append(message)
            else:
                self._configure(message)
        return bool(data)

    def _configure(self, message: Mapping[str, Any]) -> None:
        self._workers = message["workers"]
        self._path = message["path"]
        child.extend_path(self._path)
        for name in message["preload"]:
            __import__(name)
        warm_up()
        self._compiled = message["compiled"]
        gc.freeze()
        self._send({"ready": os.getpid()})

    def _start_waiting(self) -> None:
        while self._waiting and len(self._children) < self._workers:
            message = self._waiting.popleft()
            try:
                self._start(message)
            except Exception as error:
                refusal = {
                    "id": message["id"],
                    "fate": "not started",
                    "detail": f"{type(error).__name__}: {error}",
                    "loaded": getattr(error, "loaded", []),
                }
                self._send(refusal)

    def _start(self, message: Mapping[str, Any]) -> None:
        target = None
        if not message["spawn"]:
            # Found here, once, and not in every child.
            target = child.target_of(message["target"])
            if found := loaded_of(message["absent"]):
                problem = f"loaded before the fork: {', '.join(found[:5])}"
                raise UncleanZygoteError(problem, found)
            if (threads := threading.active_count()) > 1:
                raise UncleanZygoteError(f"a process with {threads} threads cannot be forked", [])
        answer_in, answer_out = os.pipe()
        output_in, output_out = os.pipe()
        started = time.monotonic()
        with self._job_file(message) as job:
            pid = os.fork()
            if pid == 0:
                self._be_child(message, target, job.fileno(), answer_out, output_out)
        # Here as well as in the child, so that neither runs before the group exists.
        with suppress(OSError):
            os.setpgid(pid, pid)
        os.close(answer_out)
        os.close(output_out)
        worker = _Child(
            ident=message["id"],
            pid=pid,
            answer_fd=answer_in,
            output_fd=output_in,
            deadline=started + message["time_limit_s"],
            started=started,
        )
        self._children[pid] = worker
        for fd, kind in ((answer_in, "answer"), (output_in, "output")):
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ, (kind, worker))
        self._send({"id": worker.ident, "started": pid})

    def _job_file(self, message: Mapping[str, Any]) -> IO[bytes]:
        """What a fresh interpreter reads its request from; nothing for a fork, which has it."""
        if not message["spawn"]:
            return Path(os.devnull).open("rb")
        job = {name: message[name] for name in ("target", "request")}
        job |= {"path": self._path, "compiled": self._compiled}
        file = tempfile.TemporaryFile()  # noqa: SIM115, the caller closes it
        file.write(json.dumps(job).encode())
        file.seek(0)
        return file

    def _be_child(
        self,
        message: Mapping[str, Any],
        target: child.Target | None,
        job_fd: int,
        answer_fd: int,
        output_fd: int,
    ) -> NoReturn:
        """Leave the zygote's affairs behind and answer; runs in the child, after the fork."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            # What an engine leaves stays below its own child until that ends, and comes to the
            # zygote then: this tells whose it was.
            self._orphans.adopt()
            if os.getppid() != self._pid:
                os._exit(_LOST)
            self._selector.close()
            others = [fd for c in self._children.values() for fd in (c.answer_fd, c.output_fd)]
            for fd in (self._requests_fd, self._outcomes_fd, *self._wake_fds, *others):
                os.close(fd)
            os.dup2(output_fd, 1)
            os.dup2(output_fd, 2)
            os.close(output_fd)
            if target is None:
                for fd in (job_fd, answer_fd):
                    os.set_inheritable(fd, True)  # noqa: FBT003, positional only
                module = ["-P", "-m", "capturegate.run.child"]
                argv = [sys.executable, *module, str(job_fd), str(answer_fd)]
                os.execv(sys.executable, argv)  # noqa: S606, no shell is wanted
            pid = os.getpid()
            child.share_bytecode(self._compiled, message["target"])
            if numpy := sys.modules.get("numpy"):
                # Forks would all draw the same numbers from the generator of the zygote.
                numpy.random.seed()
            child.finish(answer_fd, child.answer(lambda: target(message["request"])), pid)
        finally:
            # Never back into the zygote's loop: there must not be two of it.
            os._exit(_LOST)

    def _take_from(self, kind: str, worker: _Child) -> bool:
        """Read from a child's pipe once; False when nothing is left in it."""
        fd = worker.answer_fd if kind == "answer" else worker.output_fd
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            with suppress(KeyError):
                self._selector.unregister(fd)
        elif kind == "output":
            worker.output += data
            del worker.output[:-OUTPUT_BYTES_MAX]
        elif not worker.fate:
            try:
                for body in worker.reader.feed(data):
                    worker.body = body
            except frames.FrameError:
                worker.fate = "oversized"
                _kill_group(worker.pid)
        return bool(data)

    def _kill_late(self) -> None:
        now = time.monotonic()
        for worker in self._children.values():
            if not worker.fate and worker.deadline <= now:
                worker.fate = "timeout"
                _kill_group(worker.pid)

    def _reap(self) -> None:
        for pid in list(self._children):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            in_order = ended.si_code == os.CLD_EXITED and ended.si_status == 0
            left = [] if in_order else self._orphans.end(self._children)
            # While the leader is a zombie its group cannot be somebody else's.
            _kill_group(pid)
            _, status = os.waitpid(pid, 0)
            self._conclude(self._children.pop(pid), os.waitstatus_to_exitcode(status), left)
        self._orphans.reap(self._children)

    def _conclude(self, worker: _Child, code: int, left: list[str]) -> None:
        for fd, kind in ((worker.answer_fd, "answer"), (worker.output_fd, "output")):
            self._drain(fd, kind, worker)
        answered = worker.body is not None and code in (0, child.LEFT_PROCESSES)
        fate, detail = worker.fate, ""
        if not fate and code < 0:
            fate, detail = "signal", _signal_name(-code)
        elif not fate and not answered:
            fate, detail = "exit", str(code)
        outcome = {
            "id": worker.ident,
            "fate": fate or "answered",
            "detail": detail,
            "output": bytes(worker.output).decode(errors="replace"),
            "duration_s": time.monotonic() - worker.started,
            "left": left,
        }
        data = frames.pack(outcome)
        if not fate and worker.body is not None:
            data += frames.pack_raw(worker.body)
        frames.write_all(self._outcomes_fd, data)

    def _drain(self, fd: int, kind: str, worker: _Child) -> None:
        """Take what the child left in a pipe; a straggler may still hold the other end."""
        for _ in range(_LEFT_READS_MAX):
            if not self._take_from(kind, worker):
                break
        with suppress(KeyError):
            self._selector.unregister(fd)
        os.close(fd)

    def _send(self, message: Mapping[str, Any]) -> None:
        frames.write_all(self._outcomes_fd, frames.pack(message))


def _wake(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: a handler has to exist for the wake-up descriptor to be written to."""


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def main() -> NoReturn:
    """Serve on the two descriptors that the command line names."""
    requests_fd, outcomes_fd = int(sys.argv[1]), int(sys.argv[2])
    for fd in (requests_fd, outcomes_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003, positional only
    with suppress(BrokenPipeError):
        Zygote(requests_fd, outcomes_fd).run()
    os._exit(0)


if __name__ == "__main__":
    main()
