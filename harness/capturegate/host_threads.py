"""Small numbers for host threads; the system's own come back once a thread has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable


class HostThread(threading.local):
    """The calling thread's number, drawn when it is first asked for.

    Attributes:
        number: it; no later thread has it again.
    """

    def __init__(self, draw: Callable[[], int]) -> None:
        self.number = draw()
