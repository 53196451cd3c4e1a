"""Signals that ask the program to end: each is heard the way Ctrl-C is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_HEARD = ("SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """A signal asked the program to end, as Ctrl-C does; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


def exit_code_of_stop(error: BaseException) -> int:
    """128 and the number of the signal; Ctrl-C's where none is known."""
    return 128 + getattr(error, "number", signal.SIGINT)


@contextmanager
def hearing_stops() -> Iterator[None]:
    """Raise `Stopped` on signals that would end the program; one that is ignored stays so."""
    changed = {}
    for name in _HEARD:
        # There is no SIGHUP on Windows.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            changed[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, before in changed.items():
            signal.signal(number, before)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)
