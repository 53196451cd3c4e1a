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

from capturegate.errors import InputError
from capturegate.run import frames

Target = Callable[[dict[str, Any]], dict[str, Any]]

_GROUP = "capturegate.child_targets"
_TRACE_CHARS_MAX = 4000


@cache
def target_of(name: str) -> Target:
    """The function that a request names: a verb of the core, or one that was plugged in.

    Raises:
        InputError: there is none of that name.
    """
    if name in ("describe", "case"):
        return _own_target(name)
    for point in entry_points(group=_GROUP, name=name):
        plugged: Target = point.load()
        return plugged
    raise InputError(f"no target {name!r} for a child process", expected="describe, case")


def _own_target(name: str) -> Target:
    from capturegate.run import execute

    if name == "case":
        return lambda request: execute.run_case(request).to_json()
    return lambda request: execute.describe(request["engine"])


def extend_path(entries: list[str]) -> None:
    """Append what the parent finds modules in; what this process has comes first."""
    for entry in entries:
        if entry not in sys.path:
            sys.path.append(entry)


def answer(call: Callable[[], dict[str, Any]]) -> bytes:
    """Call a target; the frame that tells its value or what it raised."""
    try:
        return frames.pack({"value": call()})
    except InputError as error:
        facts = {
            "problem": getattr(error, "problem", str(error)),
            "where": str(getattr(error, "where", "")),
            "expected": getattr(error, "expected", ""),
            "hint": getattr(error, "hint", ""),
        }
        return frames.pack({"input_error": facts})
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt: an engine that calls sys.exit must not end the
        # child without an answer.
        trace = "".join(traceback.format_exception(error))[-_TRACE_CHARS_MAX:]
        message = f"{type(error).__name__}: {error}"[:_TRACE_CHARS_MAX]
        return frames.pack({"raised": message, "trace": trace})


def finish(answer_fd: int, frame: bytes) -> NoReturn:
    """Write the answer and leave without running anybody's exit handlers."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    try:
        frames.write_all(answer_fd, frame)
    finally:
        os._exit(0)


def main(job_fd: int, answer_fd: int) -> NoReturn:
    """Serve the request that is in an open file, in a fresh interpreter."""
    os.set_inheritable(answer_fd, False)  # noqa: FBT003, positional only
    with os.fdopen(job_fd, "rb") as file:
        job = json.load(file)
    extend_path(job["path"])
    finish(answer_fd, answer(lambda: target_of(job["target"])(job["request"])))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
