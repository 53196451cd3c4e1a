"""The conformance suite: holds any device to what real ones were recorded to answer.

    from capturegate.testing import check_legality, check_recordings

    def test_my_device_answers_as_cuda_does():
        found = check_recordings(MyDevice)
        assert found.conforms, str(found)

A device is anything with the calls of `capturegate.backend.Device`. The recordings are those of
the installed distributions (entry points `capturegate.truth`), or the ones that are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from capturegate.backend.device import Device
from capturegate.errors import CapturegateError, InputError
from capturegate.programs.interpreter import Runner
from capturegate.programs.legality import LegalityProgram, LegalityRow
from capturegate.programs.observation import Observation, first_difference

TRUTH = "capturegate.truth"
_TOLD_MAX = 10

DeviceFactory = Callable[[], Device]


class RecordedProgram(Protocol):
    """A call program and what a device showed of it."""

    @property
    def name(self) -> str:
        """What the program is called."""

    @property
    def program(self) -> list[list[Any]]:
        """The calls."""

    @property
    def observation(self) -> Observation:
        """What the device showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One thing that a device answers otherwise: where, what was recorded, what came."""

    name: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """What a comparison came to."""

    compared: int
    mismatches: tuple[Mismatch, ...]

    @property
    def conforms(self) -> bool:
        """Whether something was compared and all of it came out as recorded."""
        return self.compared > 0 and not self.mismatches

    def __str__(self) -> str:
        same = self.compared - len(self.mismatches)
        lines = [f"{same} of {self.compared} as recorded"]
        for one in self.mismatches[:_TOLD_MAX]:
            lines.append(f"  {one.name}: recorded {one.expected}, the device {one.actual}")
        if len(self.mismatches) > _TOLD_MAX:
            lines.append(f"  and {len(self.mismatches) - _TOLD_MAX} more")
        return "\n".join(lines)


def check_legality(
    device_factory: DeviceFactory, rows: Iterable[LegalityRow] | None = None
) -> Conformance:
    """Make every call of the legality table while a stream captures, each on a fresh device.

    Raises:
        InputError: no table is given, and none is installed.
    """
    compared, mismatches = 0, []
    for row in _installed("legality") if rows is None else rows:
        compared += 1
        device = device_factory()
        expected = (row.err, row.status, row.end, row.nodes)
        try:
            actual: object = LegalityProgram(device).answer(row)
        except CapturegateError as error:
            actual = error
        finally:
            device.close()
        if actual != expected:
            name = f"{row.call} from {row.rel}, {row.mode} capture of a {row.cap} stream"
            mismatches.append(Mismatch(name=name, expected=str(expected), actual=str(actual)))
    return Conformance(compared=compared, mismatches=tuple(mismatches))


def check_recordings(
    device_factory: DeviceFactory, recordings: Iterable[RecordedProgram] | None = None
) -> Conformance:
    """Run recorded call programs one after the other, all on one device while it comes to rest.

    Raises:
        InputError: no recording is given, and none is installed.
    """
    compared, mismatches = 0, []
    device = device_factory()
    runner = Runner(device)
    for case in _installed("programs") if recordings is None else recordings:
        compared += 1
        try:
            seen = runner.run(case.program)
        except CapturegateError as error:
            mismatches.append(Mismatch(name=case.name, expected="an answer", actual=str(error)))
            runner.close()
            device = device_factory()
            runner = Runner(device)
            continue
        found = first_difference(case.observation, seen)
        if found is not None:
            mismatches.append(_mismatch(case, seen, *found))
    runner.close()
    device.close()
    return Conformance(compared=compared, mismatches=tuple(mismatches))


def _mismatch(case: RecordedProgram, seen: Observation, index: int, field: str) -> Mismatch:
    if index < 0:
        sides = [str(getattr(side, field)) for side in (case.observation, seen)]
        return Mismatch(name=f"{case.name}, at the end", expected=sides[0], actual=sides[1])
    sides = [str(getattr(side.calls[index], field)) for side in (case.observation, seen)]
    name = f"{case.name}, call {index + 1} {case.program[index]}, {field}"
    return Mismatch(name=name, expected=sides[0], actual=sides[1])


def _installed(kind: str) -> Iterable[Any]:
    """What the installed distributions recorded of a kind, `programs` or `legality`."""
    points = [point for point in entry_points(group=TRUTH) if point.name.startswith(kind)]
    if not points:
        raise InputError(
            f"no recorded {kind} are installed",
            hint=f"give them, or install a distribution with an entry point {TRUTH}",
        )
    return (one for point in points for one in cast(Callable[[], Iterable[Any]], point.load())())
