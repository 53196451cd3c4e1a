"""What a whole run came to: counts, guarantees that nobody judged, the exit code."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from capturegate.run.result import CaseResult, GateResult, Verdict


class ExitCode(enum.IntEnum):
    """What the command's exit code says."""

    AS_EXPECTED = 0
    NOT_AS_EXPECTED = 1
    WRONG_INPUT = 2
    HARNESS_FAILED = 3
    NOTHING_JUDGED = 5
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Counts of a run. Checks are gates that scenarios name, checks and requires."""

    cases: int
    cases_passed: int
    cases_failed: int
    cases_skipped: int
    checks: int
    checks_passed: int
    checks_failed: int

    def __str__(self) -> str:
        return (
            f"cases: {self.cases} | {self.cases_passed} passed | {self.cases_failed} failed "
            f"| {self.cases_skipped} skipped · checks: {self.checks} "
            f"| {self.checks_passed} passed | {self.checks_failed} failed"
        )


def checks_in(result: CaseResult) -> tuple[int, int]:
    """How many checks a case passed, and how many it came to.

    What an expected break kept from being judged is neither passed nor failed.
    """
    if result.skip is not None:
        return 0, 0
    named = [g.as_expected for g in result.gates if g.named and not _is_blocked(g)]
    checks = [
        check.as_expected
        for check in result.checks
        if check.as_expected or not result.check_as_expected(check)
    ]
    return sum(named) + sum(checks), len(named) + len(checks)


def _is_blocked(gate: GateResult) -> bool:
    return gate.verdict is Verdict.UNKNOWN and gate.as_expected


def totals_of(results: Sequence[CaseResult], never_judged: Sequence[str]) -> Totals:
    """The counts of a run; a guarantee that nobody judged counts as a failed case."""
    passed = skipped = checks = checks_passed = 0
    for result in results:
        good, all_of_them = checks_in(result)
        checks += all_of_them
        checks_passed += good
        if result.skip is not None:
            skipped += result.case not in never_judged
        else:
            passed += result.as_expected
    return Totals(
        cases=len(results),
        cases_passed=passed,
        cases_failed=len(results) - passed - skipped,
        cases_skipped=skipped,
        checks=checks,
        checks_passed=checks_passed,
        checks_failed=checks - checks_passed,
    )


def never_judged_in(results: Sequence[CaseResult], *, unfiltered: bool) -> list[str]:
    """The skipped cases whose guarantee no other lane judged.

    A skip names the lane that judges instead. That lane's case has to be in the run, and each gate
    that it names has to have come to held or broken in this arm or another one; only a filtered
    run may lack it, as a full one is where it shows.
    """
    settled = {
        (r.scenario, r.lane, r.backend, gate.gate)
        for r in results
        for gate in r.gates
        if gate.verdict in (Verdict.HELD, Verdict.BROKEN)
    }
    by_place = {(r.scenario, r.arm, r.lane, r.backend): r for r in results}
    found = []
    for result in results:
        if result.skip is None:
            continue
        place = (result.scenario, result.arm, result.skip.judged_in, result.backend)
        other = by_place.get(place)
        if other is None:
            lost = unfiltered
        else:
            lost = not other.judged or any(
                (other.scenario, other.lane, other.backend, gate.gate) not in settled
                for gate in other.gates
                if gate.named
            )
        if lost:
            found.append(result.case)
    return found


def exit_code_of(results: Sequence[CaseResult], never_judged: Sequence[str]) -> ExitCode:
    """The exit code of a run that came to its end."""
    if any(result.harness_error for result in results):
        return ExitCode.HARNESS_FAILED
    if any(result.input_error for result in results):
        return ExitCode.WRONG_INPUT
    if never_judged or not all(result.as_expected for result in results):
        return ExitCode.NOT_AS_EXPECTED
    if not any(result.judged for result in results):
        return ExitCode.NOTHING_JUDGED
    return ExitCode.AS_EXPECTED
