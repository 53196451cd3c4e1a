"""What an engine raises, as data: its words cut to a length, its frames without ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import CodeType
from typing import Any

from capturegate.backend import CudaError
from capturegate.errors import CapturegateError, InputError, Location, message_of
from capturegate.run.result import Failure, FrameRecord

HARNESS = "capturegate."
STACK_MAX = 12


class EngineFailed(CapturegateError):
    """An engine, or the adapter that shows it, raised or answered what it may not."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(f"{failure.type}: {failure.message}")


def failure_of(error: BaseException, step: str) -> Failure:
    """An engine's exception as data, and the frames it came through."""
    frames = [
        FrameRecord(
            dotted=f"{module}.{frame.f_code.co_qualname}",
            path=frame.f_code.co_filename,
            line=line,
        )
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not (module := str(frame.f_globals.get("__name__", ""))).startswith(HARNESS)
    ]
    return Failure(
        type=type(error).__name__,
        message=message_of(error),
        step=step,
        stack=frames[::-1][:STACK_MAX],
        cuda_error=_cuda_cause(error),
    )


def fault(problem: str, step: str, method: Callable[..., Any] | None) -> EngineFailed:
    """A wrong answer of an adapter; the frame is where the method that gave it begins."""
    # What is asked may be any object, and any object may lie about what it has.
    code = getattr(method, "__code__", None)
    stack = []
    if isinstance(code, CodeType):
        module = getattr(method, "__module__", "")
        stack = [
            FrameRecord(
                dotted=f"{module}.{code.co_qualname}",
                path=code.co_filename,
                line=code.co_firstlineno,
            )
        ]
    return EngineFailed(Failure(type="AdapterError", message=problem, step=step, stack=stack))


def placed(error: InputError, where: Location | str) -> InputError:
    """A mistake of the scenario's that an engine found, with a place if it names none."""
    return InputError(
        getattr(error, "problem", "") or message_of(error),
        where=getattr(error, "where", "") or where,
        expected=getattr(error, "expected", ""),
        hint=getattr(error, "hint", ""),
    )


def _cuda_cause(error: BaseException | None) -> str:
    """`api error` of the refused call that an exception comes from, empty when from none."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CudaError):
            return f"{error.api} {error.error}"
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return ""
