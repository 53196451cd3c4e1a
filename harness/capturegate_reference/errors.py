"""The errors of the reference engine."""

from __future__ import annotations

from capturegate.errors import CapturegateError


class PoolError(CapturegateError):
    """A pool was used against its rules."""


class EngineError(CapturegateError):
    """The engine cannot do what it was asked for."""
