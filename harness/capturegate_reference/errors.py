"""The errors of the reference engine."""

from __future__ import annotations

from capturegate.errors import CapturegateError


class PoolError(CapturegateError):
    """A pool was used against its rules."""


class EngineError(CapturegateError):
    """The engine cannot do what it was asked for."""


class ScratchRefused(EngineError):
    """A scratch buffer was wanted in a shape that no cold step had visited.

    Attributes:
        scratch: the name of the scratch that refused.
    """

    def __init__(self, scratch: str, key: tuple[int, ...]) -> None:
        shape = ", ".join(str(part) for part in key)
        super().__init__(
            f"{scratch}: there is no buffer for the shape ({shape}), and none may be made while "
            f"the stream captures; run a cold step of this shape first"
        )
        self.scratch = scratch


class SeamError(EngineError):
    """A graph container or an input cell was used against its rules."""
