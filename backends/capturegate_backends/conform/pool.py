"""Worker processes over numbered jobs, which survive a job that kills or hangs its process.

Each worker takes every n-th job and notes its number before it starts it. A worker that ends
badly, or makes no progress for too long, is replaced by one that goes on after that job.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUIET_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05
_STARTS_MAX = 200

Work = Callable[[int, int, Any, str, Any], None]
"""First job, stride, progress cell, path to append results to, and what else the work needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A job that took its process along: an exit code, or None for one that hung."""

    job: int
    exit_code: int | None


@dataclass(slots=True)
class _Slot:
    process: Any
    cell: Any
    seen: int
    since: float
    starts: int = 1


def run_workers(work: Work, processes: int, paths: list[str], extra: Any) -> list[Lost]:
    """Run `work` in that many processes until all are through; returns the jobs lost."""
    context = multiprocessing.get_context("spawn")
    slots: list[_Slot] = []
    lost: list[Lost] = []

    def start(number: int, first: int) -> tuple[Any, Any]:
        cell = context.Value("q", -1, lock=False)
        process = context.Process(
            target=work, args=(first, processes, cell, paths[number], extra), daemon=True
        )
        process.start()
        return process, cell

    for number in range(processes):
        process, cell = start(number, number)
        slots.append(_Slot(process, cell, -1, time.monotonic()))
    open_slots = set(range(processes))
    while open_slots:
        time.sleep(_POLL_SECONDS)
        for number in sorted(open_slots):
            slot = slots[number]
            if slot.cell.value != slot.seen:
                slot.seen, slot.since = slot.cell.value, time.monotonic()
            hung = time.monotonic() - slot.since > QUIET_SECONDS_MAX
            if slot.process.is_alive() and not hung:
                continue
            if hung:
                slot.process.kill()
            slot.process.join()
            code = None if hung else slot.process.exitcode
            if code == 0 or slot.starts >= _STARTS_MAX:
                open_slots.discard(number)
                continue
            job = slot.cell.value
            if job >= 0:
                lost.append(Lost(job=job, exit_code=code))
            after = job + processes if job >= 0 else number
            slot.process, slot.cell = start(number, after)
            slot.seen, slot.since, slot.starts = -1, time.monotonic(), slot.starts + 1
    return lost


def end_with_parent(folder: Path) -> None:
    """See that this worker and its folder go when the process that started it is gone.

    A parent that was killed can neither stop its workers nor tidy up behind itself.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
