"""What a child process does: call one target with one request, write one answer, exit.

A child is either forked from the zygote, or a fresh interpreter that runs this module (engines
that cannot live with fork: everything that opens a CUDA context).
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from typing import Any, NoReturn

from capturegate.errors import MESSAGE_CHARS_MAX, InputError, message_of
from capturegate.run import frames

Target = Callable[[dict[str, Any]], dict[str, Any]]

LEFT_PROCESSES = 71
"""Exit code of a child that answered, and leaves processes of its engine running."""

_GROUP = "capturegate.child_targets"


@cache
def target_of(name: str) -> Target:
    """The function that a request names: a verb of the core, or one that was plugged in.

    Raises:
        InputError: there is none of that name.
    """
    if name in ("describe", "case", "backend"):
        return _own_target(name)
    for point in entry_points(group=_GROUP, name=name):
        plugged: Target = point.load()
        return plugged
    raise InputError(f"no target {name!r} for a child process", expected="describe, case, backend")


def _own_target(name: str) -> Target:
    from capturegate.run import engines, execute

    # Looked up here, once for all children.
    for group in (engines.ADAPTERS, engines.BACKENDS):
        engines.entry_points(group)
    if name == "case":
        return lambda request: execute.run_case(request).to_json()
    if name == "describe":
        return lambda request: engines.describe(request["engine"])
    return lambda request: engines.try_backend(request["backend"])


def extend_path(entries: list[str]) -> None:
    """Append what the parent finds modules in; what this process has comes first."""
    for entry in entries:
        if entry not in sys.path:
            sys.path.append(entry)


def share_bytecode(folder: str, target: str) -> None:
    """From now on read what was compiled in this run, and nothing that lies beside the sources.

    Only the child that describes an engine writes: what is made anew for a case, by an engine
    that generates code, is compiled anew.
    """
    if folder:
        sys.pycache_prefix = folder
        sys.dont_write_bytecode = target != "describe"


def answer(call: Callable[[], dict[str, Any]]) -> bytes:
    """Call a target; the frame that tells its value or what it raised."""
    try:
        return frames.pack({"value": call()})
    except InputError as error:
        facts = {
            "problem": getattr(error, "problem", "") or message_of(error),
            "where": str(getattr(error, "where", "")),
            "expected": getattr(error, "expected", ""),
            "hint": getattr(error, "hint", ""),
        }
        return frames.pack({"input_error": facts})
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: an engine that calls sys.exit must not end the
        # child without an answer.
        trace = "".join(traceback.format_exception(error))[-MESSAGE_CHARS_MAX:]
        message = f"{type(error).__name__}: {message_of(error)}"
        return frames.pack({"raised": message, "trace": trace})


def finish(answer_fd: int, frame: bytes, pid: int) -> NoReturn:
    """Write the answer and leave without running anybody's exit handlers.

    The answer goes first: what an engine made of the standard streams may raise anything. A copy
    of the child `pid` that an engine forked, and that came back, has no answer to give.
    """
    code = 0
    try:
        if os.getpid() == pid:
            frames.write_all(answer_fd, frame)
            code = LEFT_PROCESSES if _has_children() else 0
    finally:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with suppress(BaseException):
                stream.flush()  # type: ignore[union-attr]  # what is None is suppressed as well
        os._exit(code)


def _has_children() -> bool:
    """Whether a process that this one started, or inherited as its subreaper, still runs."""
    with suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                return True
    return False


def main(job_fd: int, answer_fd: int) -> NoReturn:
    """Serve the request that is in an open file, in a fresh interpreter."""
    os.set_inheritable(answer_fd, False)  # noqa: FBT003, positional only
    with os.fdopen(job_fd, "rb") as file:
        job = json.load(file)
    extend_path(job["path"])
    share_bytecode(job["compiled"], job["target"])
    pid = os.getpid()
    finish(answer_fd, answer(lambda: target_of(job["target"])(job["request"])), pid)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
