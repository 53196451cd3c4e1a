"""Makes a program that shows something as small as it still shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Calls = list[list[Any]]


def shrink(program: Calls, still_shows: Callable[[Calls], bool]) -> Calls:
    """Drop calls, in halves first and singly at last, while `still_shows` holds.

    Calls that name what a dropped call would have made are absent in a run, so every selection
    of calls is a program. The result loses its property when any single call is dropped.
    """
    kept = list(program)
    size = max(len(kept) // 2, 1)
    while True:
        start, dropped = 0, False
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if shorter and still_shows(shorter):
                kept, dropped = shorter, True
            else:
                start += size
        if size == 1 and not dropped:
            return kept
        if size > 1:
            size //= 2
