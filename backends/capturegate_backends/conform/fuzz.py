"""Random programs on two devices in one process: what they show has to be the same."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capturegate.errors import CapturegateError
from capturegate.programs import Observation, Runner, generate, shrink
from capturegate_backends.conform.compare import kind_of
from capturegate_backends.conform.count import count
from capturegate_backends.conform.devices import make_device
from capturegate_backends.conform.pool import Lost, end_with_parent, run_workers

_KEPT_PER_KIND = 2
_FLUSH_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One smallest program on which the two devices part.

    `kind` names the call and what differs, so that programs of one cause fall together.
    `expected` and `actual` are what the reference and the fake showed of the smallest program.
    """

    kind: str
    seed: int
    program: list[list[Any]]
    expected: Any
    actual: Any


@dataclass(slots=True)
class Result:
    """What one fuzzing run found; counts add up over runs."""

    description: dict[str, str] = field(default_factory=dict)
    totals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    next_seed: int = 0


def fuzz(backend: str, seconds: float, seed: int, processes: int) -> Result:
    """Compare `backend` with the fake for so long, from that seed on."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{i}.jsonl") for i in range(processes)]
        extra = (backend, time.time() + seconds, seed)
        result.lost = run_workers(fuzz_slice, processes, paths, extra)
        result.next_seed = seed
        for part in paths:
            if not Path(part).exists():
                continue
            for line in Path(part).read_text("utf-8").splitlines():
                data = json.loads(line)
                result.description.update(data.get("device", {}))
                result.totals.update(data.get("totals", {}))
                result.kinds.update(data.get("kinds", {}))
                result.next_seed = max(result.next_seed, data.get("next_seed", 0))
                if "kind" in data:
                    result.differences.append(Difference(**data))
    return result


class _Pair:
    """The two devices of one worker; a fake that failed is replaced by a fresh one."""

    def __init__(self, backend: str) -> None:
        self.device = make_device(backend)
        self._reference = Runner(self.device)
        self._fake = Runner(make_device("fake"))

    def compare(self, program: list[list[Any]]) -> tuple[str, Observation, Any, Any]:
        """What differs (empty for nothing), what the reference showed, and the two readings."""
        expected = self._reference.run(program)
        try:
            actual = self._fake.run(program)
        except CapturegateError as error:
            self._fake = Runner(make_device("fake"))
            return f"the fake stops: {error}", expected, expected.as_data(), str(error)
        kind = kind_of(expected, actual, program)
        if not kind:
            return "", expected, None, None
        return kind, expected, expected.as_data(), actual.as_data()


def fuzz_slice(
    first: int, stride: int, cell: Any, path: str, extra: tuple[str, float, int]
) -> None:
    """Compare the programs of every `stride`-th seed, one at least, until the time is over."""
    backend, deadline, base = extra
    end_with_parent(Path(path).parent)
    pair = _Pair(backend)
    totals: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    job, flushed = first, time.time()

    with Path(path).open("a", encoding="utf-8") as out:

        def flush() -> None:
            data = {"totals": totals, "kinds": kinds, "next_seed": base + job}
            out.write(json.dumps(data) + "\n")
            out.flush()
            totals.clear()
            kinds.clear()

        out.write(json.dumps({"device": pair.device.description}) + "\n")
        try:
            while True:
                cell.value = job
                program = generate(base + job)
                kind, seen, _, _ = pair.compare(program)
                count(program, seen, totals)
                if kind:
                    totals["differences"] += 1
                    kinds[kind] += 1
                    kept[kind] += 1
                    if kept[kind] <= _KEPT_PER_KIND:
                        out.write(json.dumps(_smallest(pair, program, kind, base + job)) + "\n")
                if time.time() - flushed > _FLUSH_SECONDS:
                    flush()
                    flushed = time.time()
                job += stride
                if time.time() > deadline:
                    break
        finally:
            flush()


def _smallest(pair: _Pair, program: list[list[Any]], kind: str, seed: int) -> dict[str, Any]:
    smallest = shrink(program, lambda shorter: pair.compare(shorter)[0] == kind)
    again, _, expected, actual = pair.compare(smallest)
    if again != kind:
        kind = f"not twice the same: {kind}"
    return {
        "kind": kind,
        "seed": seed,
        "program": smallest,
        "expected": expected,
        "actual": actual,
    }
