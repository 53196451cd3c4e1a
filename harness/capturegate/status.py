"""What a call answers: an outcome from the device, a status for the caller, an exception."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from capturegate.errors import CapturegateError

T = TypeVar("T")

SUCCESS = "cudaSuccess"

Span = tuple[int, int, int]
"""Touched bytes: allocation id, offset in it, length, the last two in bytes."""


class Outcome(NamedTuple, Generic[T]):
    """What a device implementation answers to one call.

    `capture` is the id of the capture that the call's stream belongs to or that the call began
    or ended (0: none, and for an end that left its capture open); `node` the id of the first node
    that it added (0: none); `reads` and `writes` what it touched now, empty when it was recorded
    instead of executed.
    """

    error: str
    value: T | None = None
    capture: int = 0
    node: int = 0
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()


class CudaError(CapturegateError):
    """A call returned something other than cudaSuccess.

    `api` and `error` are CUDA's own names; `value` is what came along with the error (an update
    result, a null graph).
    """

    def __init__(self, api: str, error: str, value: Any = None) -> None:
        self.api = api
        self.error = error
        self.value = value
        super().__init__(f"{api} returned {error}")


class Status(Generic[T]):
    """The answer of the raw layer: an error code that somebody has to look at.

    Attributes:
        api: CUDA's name of the call.
        looked_at: whether the code was ever read; a refusal that nobody reads is evidence.
    """

    __slots__ = ("_error", "_value", "api", "event", "looked_at")

    def __init__(self, api: str, error: str, value: T | None, event: int) -> None:
        self.api = api
        self._error = error
        self._value = value
        self.event = event
        self.looked_at = False

    @property
    def error(self) -> str:
        """CUDA's error name; reading it counts as looking."""
        self.looked_at = True
        return self._error

    @property
    def ok(self) -> bool:
        """Whether the call succeeded; reading it counts as looking."""
        self.looked_at = True
        return self._error == SUCCESS

    @property
    def value(self) -> T | None:
        """What came back, without a look at the code."""
        return self._value

    def unwrap(self) -> T:
        """The value of a call that succeeded.

        Raises:
            CudaError: the call did not succeed.
        """
        self.looked_at = True
        if self._error != SUCCESS:
            raise CudaError(self.api, self._error, self._value)
        return self._value  # type: ignore[return-value]  # None is the T of calls without value
