"""Waiting for a state, never for a time."""

import selectors
from pathlib import Path

import pytest


def wait_for_file(path):
    """Wait until a file is there; a deadline far beyond need keeps a broken test from hanging."""
    wait_for(path.exists)


def wait_until_gone(pid):
    """Wait until a process is dead; one that nobody has reaped yet is."""

    def gone():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        return state == "Z"

    wait_for(gone)


def wait_for(condition):
    for _ in range(3000):
        if condition():
            return
        with selectors.DefaultSelector() as nothing:
            nothing.select(0.01)
    pytest.fail("the state was not reached")
