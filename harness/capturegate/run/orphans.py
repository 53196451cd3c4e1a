"""Processes that lose their parent: adopted, killed and reaped where Linux lets us.

A subreaper becomes the parent of every process below it whose own parent ends, whatever session
or group that process has put itself in.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_COMMAND_CHARS_MAX = 200

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process; nothing happens where there is no Linux."""
    if _LIBC is not None:
        _LIBC.prctl(option, ctypes.c_ulong(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; `command` is its command line, empty for one that has ended."""

    pid: int
    command: str


class Orphans:
    """What a zygote has below itself and did not start."""

    def __init__(self) -> None:
        self._killed: set[int] = set()

    def adopt(self) -> None:
        """Become the parent of the processes below that lose theirs."""
        prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def end(self, own: Collection[int]) -> list[str]:
        """Kill every child but the zygote's own; the commands of those that still ran."""
        commands = []
        for process in children_of(os.getpid()):
            if process.pid in own or process.pid in self._killed:
                continue
            _kill(process.pid)
            self._killed.add(process.pid)
            if process.command:
                commands.append(process.command)
        return commands

    def reap(self, own: Collection[int]) -> None:
        """Reap what was killed; what that had started comes here, and ends as well."""
        for pid in list(self._killed):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    continue
            self._killed.discard(pid)
            self.end(own)

    def end_all(self) -> None:
        """Kill and reap until nothing is left below the zygote."""
        while left := children_of(os.getpid()):
            for process in left:
                _kill(process.pid)
            for process in left:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, 0)


def children_of(parent: int) -> list[Process]:
    """The children of a process, those included that have ended and are not reaped yet."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        # It may end while it is read.
        with suppress(OSError):
            name, _, facts = (folder / "stat").read_text(errors="replace").rpartition(")")
            state, parent_of_it = facts.split()[:2]
            if int(parent_of_it) == parent:
                command = "" if state in "ZX" else _command(folder) or name.partition("(")[2]
                found.append(Process(pid=int(folder.name), command=command))
    return found


def _command(folder: Path) -> str:
    raw = (folder / "cmdline").read_bytes()[:_COMMAND_CHARS_MAX]
    return raw.decode(errors="replace").replace("\0", " ").strip()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
