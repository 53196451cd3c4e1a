"""Compares a backend with recordings: every recorded program is run again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from capturegate.errors import CapturegateError
from capturegate.programs import Observation, Runner, first_difference
from capturegate_backends.conform.devices import make_device
from capturegate_backends.truth.recordings import RecordedCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One recorded case that a backend answers differently.

    `kind` names the call and what differs, so that cases of one cause fall together.
    """

    kind: str
    case: RecordedCase
    actual: Observation | None


@dataclass(slots=True)
class Comparison:
    """What a comparison with recordings came to."""

    cases: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def kinds(self) -> Counter[str]:
        """Mismatches by kind."""
        return Counter(one.kind for one in self.mismatches)

    def add(self, other: Comparison) -> None:
        """Take over what another comparison came to."""
        self.cases += other.cases
        self.mismatches += other.mismatches


def kind_of(expected: Observation, actual: Observation, program: list[list[object]]) -> str:
    """What differs between two observations of a program; empty when nothing does."""
    found = first_difference(expected, actual)
    if found is None:
        return ""
    index, name = found
    if index < 0:
        return f"{name} at the end"
    shown = [getattr(one.calls[index], name) for one in (expected, actual)]
    return f"{program[index][0]} {name}: {json.dumps(shown)}"


def compare_with(backend: str, cases: Iterable[RecordedCase], driver: str = "580") -> Comparison:
    """Run recorded programs on a backend and compare what they show.

    `driver` is the driver version of the recordings: the fake answers as that one does.

    Raises:
        InputError: the backend is unknown, misses what it needs, or does not know the driver.
    """
    runner = Runner(make_device(backend, driver))
    result = Comparison()
    for case in cases:
        result.cases += 1
        actual: Observation | None = None
        try:
            actual = runner.run(case.program)
            kind = kind_of(case.observation, actual, case.program)
        except CapturegateError as error:
            if backend != "fake":
                raise  # a lost context answers nothing any more
            kind = f"stops: {error}"
            runner = Runner(make_device(backend, driver))
        if kind:
            result.mismatches.append(Mismatch(kind=kind, case=case, actual=actual))
    runner.close()
    return result
