"""Random programs around one idea: a probe in a capture, a program about structure, a state."""

from __future__ import annotations

import functools
import random
from typing import Any

from capturegate.programs.ops import KERNELS, MODES
from capturegate.programs.structures import structures
from capturegate.programs.sweeps import ON_STREAM, RELATIONS, STREAMLESS

CALLS_MIN = 8
ANYWHERE = ("b1", "b2", "n1", "n2", "legacy", "own")
_COPIES = (
    ("d1", "p1"), ("d2", "p2"), ("d3", "h1"), ("d1", "d2"), ("d3", "d4"), ("p1", "d1"),
    ("h2", "d2"), ("p2", "p1"), ("h1", "h2"),
)  # fmt: skip
_PROBES = (*ON_STREAM.items(), *STREAMLESS.items())
_SELDOM = tuple(ON_STREAM[name] for name in ("graph-launch", "upload", "begin-to-graph", "end"))
"""Calls that get as many answers as others and need more before they can be made."""


@functools.cache
def _structures() -> tuple[tuple[list[list[Any]], ...], ...]:
    """The programs about structure, in groups of one idea each."""
    groups: dict[tuple[str, str], list[list[list[Any]]]] = {}
    for name, program in structures():
        parts = name.split("/")
        groups.setdefault((parts[0], parts[-1]), []).append(program)
    for name, program in structures():
        parts = name.split("/")
        if parts[0] == "last-error":
            groups.setdefault((parts[0], parts[1]), []).append(program)
    return tuple(tuple(programs) for programs in groups.values())


def varied(rng: random.Random) -> list[list[Any]]:
    """A program about structure, with some calls more in it and maybe one less."""
    program = [list(call) for call in rng.choice(rng.choice(_structures()))]
    if rng.random() < 0.2 and len(program) > CALLS_MIN:
        del program[rng.randrange(len(program))]
    while len(program) < CALLS_MIN or rng.random() < 0.3:
        _, (_, call) = rng.choice(_PROBES)
        stream = rng.choice(ANYWHERE)
        more = [call[0], rng.choice((0, 0, 1)), *(stream if p == "?" else p for p in call[1:])]
        if rng.random() < 0.5:
            more = work(rng, stream, 0)
        program.insert(rng.randrange(len(program) + 1), more)
    return program


def probe(rng: random.Random) -> list[list[Any]]:
    """One call of the sweeps in a capture of its own, among random work."""
    stream = rng.choice(("b1", "n1", "own", "n1"))
    _, (setup, call) = rng.choice(_PROBES)
    relation = rng.choice(tuple(RELATIONS))
    thread, target = RELATIONS[relation]
    where = stream if target == "capture" else target
    if where == "own" and stream == "own":
        where = "b2"
    program: list[list[Any]] = [list(c) for c in setup]
    program += [["begin", 0, stream, rng.choice(MODES)], work(rng, stream, 0)]
    other, elsewhere = rng.choice(("b2", "n2", "own", "own")), rng.choice((0, 1, 1))
    second = rng.random() < 0.35 and not (other == stream and elsewhere == 0)
    if second:
        program.append(["begin", elsewhere, other, rng.choice(MODES)])
        if rng.random() < 0.5:
            program.append(["stream_sync", elsewhere, other])
    if rng.random() < 0.15:
        program.append(["stream_sync", 0, stream])
    if relation.endswith("forked") and stream != "n2":
        program += [["record", 0, "e1", stream, 0], ["wait", 0, "n2", "e1", 0]]
    if rng.random() < 0.5:
        program.append(["exchange", thread, rng.choice(MODES)])
    program.append([call[0], thread, *(where if p == "?" else p for p in call[1:])])
    if rng.random() < 0.4:
        _, (_, more) = rng.choice(_PROBES)
        program.append([more[0], thread, *(where if p == "?" else p for p in more[1:])])
    if relation.endswith("forked"):
        program += [["record", 0, "e5", "n2", 0], ["wait", 0, stream, "e5", 0]]
    program += [work(rng, stream, 0), ["end", 0, stream, "g5"], ["instantiate", 0, "g5", "x5"]]
    if second:
        program.append(["end", elsewhere, other, "g6"])
    program += [["graph_launch", 0, "x5", rng.choice(ANYWHERE)], ["get_last_error", thread]]
    return program


def work(rng: random.Random, stream: str, thread: int) -> list[Any]:
    """Some work on a stream."""
    kind = rng.random()
    if kind < 0.45:
        block = rng.choice(("d1", "d2", "d3"))
        return ["launch", thread, rng.choice(KERNELS), block, rng.randrange(9), stream]
    if kind < 0.65:
        return ["memcpy_async", thread, *rng.choice(_COPIES), stream]
    if kind < 0.8:
        block = rng.choice(("d1", "d2", "d3"))
        return ["memset_async", thread, block, rng.randrange(99), stream]
    if kind < 0.88:
        return ["host_func", thread, rng.randrange(8), stream]
    return ["memcpy_batch", thread, *rng.choice(_COPIES[:6]), stream]


def standing(rng: random.Random) -> list[list[Any]]:
    """Several calls while captures stand broken, or break where the caller does not see it.

    A thread sees its own per-thread stream alone, so that what it does to another's shows later.
    """
    probes = [rng.choice(_PROBES)[1] for _ in range(rng.choice((2, 3, 4, 5)))]
    if rng.random() < 0.3:
        probes[0] = rng.choice(_SELDOM)
    program: list[list[Any]] = [list(call) for setup, _ in probes for call in setup]
    state = rng.choice(("unseen", "unseen", "mixed", "mixed", "broken"))
    caller = 1 if state == "unseen" else rng.choice((0, 0, 1))
    first = "own" if state == "unseen" else rng.choice(("b1", "n1", "own"))
    if rng.random() < 0.3:
        program.append(["exchange", caller, rng.choice(MODES)])
    program += [["begin", 0, first, rng.choice(MODES)], work(rng, first, 0)]
    other = rng.choice([stream for stream in ("b2", "n2", "n2") if stream != first])
    opener = caller if state == "mixed" else 0
    second = state == "mixed" or rng.random() < 0.6
    if second:
        program.append(["begin", opener, other, rng.choice(MODES)])
    if state != "unseen":
        broken = rng.choice(((0, first), (caller, other))) if state == "mixed" else (0, first)
        program.append(["stream_sync", *broken])
    places = ("legacy", "legacy", "legacy", "own", "b1", "n1", "b2", "n2")
    for _, call in probes:
        where = rng.choice(places)
        program.append([call[0], caller, *(where if part == "?" else part for part in call[1:])])
    after = work(rng, other if second else first, 0)
    program.append(rng.choice((after, after, ["get_last_error", 0], ["info", 0, first])))
    program.append(["end", 0, first, "g5"])
    if second:
        program.append(["end", opener, other, "g6"])
    while len(program) < CALLS_MIN:
        program.append(work(rng, rng.choice(ANYWHERE), 0))
    return program
