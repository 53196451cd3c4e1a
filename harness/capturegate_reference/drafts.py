"""Guessing a request's next token from what it said before."""

from __future__ import annotations

from collections.abc import Sequence

from capturegate_reference.errors import EngineError


class PositionDiscontinuity(EngineError):
    """A draft was shown tokens that do not follow the last ones that it saw."""

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(
            f"position discontinuity: the draft has seen {expected} token(s) and is shown one at "
            f"position {got}"
        )


class Draft:
    """Remembers what followed each token. It has to see every token, in order."""

    def __init__(self) -> None:
        self._seen = 0
        self._last: int | None = None
        self._next: dict[int, int] = {}

    def see(self, position: int, tokens: Sequence[int]) -> None:
        """Take in the tokens from a position on.

        Raises:
            PositionDiscontinuity: there are tokens before them that it never saw.
        """
        if position != self._seen:
            raise PositionDiscontinuity(self._seen, position)
        for token in tokens:
            if self._last is not None:
                self._next[self._last] = token
            self._last = token
        self._seen += len(tokens)

    def guess(self, token: int) -> int:
        """What may follow a token; the token itself when nobody knows better."""
        return self._next.get(token, token)
