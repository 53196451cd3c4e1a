"""A progress bar on standard error that shows itself only when a run takes long."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_PATIENCE_S = 1.5


class Progress:
    """Counts cases; the bar comes with the first one that ends after a while."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._since = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """One more case has ended."""
        self._done += 1
        if self._bar is None and time.monotonic() - self._since > _PATIENCE_S:
            self._bar = _start_bar(self._total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)


def _start_bar(total: int) -> Bar:
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("cases"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    bar.add_task("cases", total=total)
    bar.start()
    return bar
