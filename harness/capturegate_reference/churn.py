"""Many threads on one pool at once, and what has to be true of it afterwards."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from capturegate.backend import Backend
from capturegate.interleave import Interleaver
from capturegate_reference.pool import Block, DevicePool

SIZES = (24, 64, 64, 100, 480)


@dataclass(slots=True)
class Churned:
    """What came of it.

    Attributes:
        gets: requests made; `served` is the pool's own hits and misses.
        handed_out_twice: blocks that somebody got while somebody else had them.
        lost_bytes: what the driver gave and the pool no longer had in the end.
        failures: threads that raised.
        order: the threads in the order in which they got blocks.
    """

    gets: int = 0
    served: int = 0
    handed_out_twice: int = 0
    lost_bytes: int = 0
    failures: int = 0
    switches: int = 0
    order: tuple[int, ...] = ()


def churn(backend: Backend, *, threads: int, rounds: int, seed: int) -> Churned:
    """Let threads take and return blocks of one pool, in the order that a seed decides."""
    interleaver = Interleaver(seed, frozenset({str(sys.modules[DevicePool.__module__].__file__)}))
    with interleaver.locks():
        pool = DevicePool(backend, "churned")
    told = Churned()
    order: list[int] = []
    out: set[int] = set()
    made: dict[int, int] = {}

    def work(number: int) -> None:
        draws = random.Random(seed * 1000 + number)  # noqa: S311  # a workload, not a secret
        mine: list[Block] = []
        for _ in range(rounds):
            told.gets += 1
            block = pool.get(draws.choice(SIZES))
            allocation = block.pointer.allocation
            order.append(number)
            told.handed_out_twice += allocation in out
            out.add(allocation)
            if block.source == "driver":
                made[allocation] = block.pointer.nbytes
            mine.append(block)
            if len(mine) > draws.randrange(3):
                back = mine.pop(draws.randrange(len(mine)))
                out.discard(back.pointer.allocation)
                pool.put(back)
        for block in mine:
            out.discard(block.pointer.allocation)
            pool.put(block)

    failures = interleaver.run([lambda number=n: work(number) for n in range(threads)])  # type: ignore[misc]
    figures = pool.figures
    told.served = figures.hits + figures.misses
    told.failures = sum(failure is not None for failure in failures)
    told.lost_bytes = abs(sum(made.values()) - pool.drain())
    told.switches = interleaver.switches
    told.order = tuple(order)
    return told
