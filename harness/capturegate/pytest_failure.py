"""A failure that speaks for itself: text in place of a traceback, in every reporter of pytest."""

from __future__ import annotations

from pathlib import Path

from _pytest._code.code import (
    ReprEntryNative,
    ReprExceptionInfo,
    ReprFileLocation,
    ReprTraceback,
    TerminalRepr,
)


class NotAsExpectedError(Exception):
    """An item's result is not what its file says; `text` is all of it, in lines."""

    def __init__(self, headline: str, text: str) -> None:
        self.headline = headline
        self.text = text
        super().__init__(headline)


def told(error: NotAsExpectedError, path: Path, line: int) -> TerminalRepr:
    """The failure as pytest shows it, sums it up and sends it from worker to controller.

    Only pytest's own kind of representation crosses xdist with its headline, and there is no
    public name for it.
    """
    return ReprExceptionInfo(
        reprtraceback=ReprTraceback([ReprEntryNative([f"{error.text}\n"])], None, "native"),
        reprcrash=ReprFileLocation(str(path), line, error.headline),
    )
