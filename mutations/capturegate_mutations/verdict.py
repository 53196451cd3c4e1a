"""Comparing a mutant with the baseline: what changed, and whether that is what the plan says."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from capturegate.run.result import CaseResult, GateResult, Verdict
from capturegate_mutations.plan import ABSENT, FAILURE, CaseKey, Plan, Wanted


class Proof(enum.StrEnum):
    """What came of a mutation. Only PROVED is green."""

    PROVED = "proved"
    SURVIVED = "survived"
    WRONG_RED = "wrong-red"
    EXTRA_RED = "extra-red"
    WRONG_REASON = "wrong-reason"
    INVALID = "invalid"
    BASELINE_RED = "baseline-red"
    FLAKY = "flaky"
    TIMEOUT = "timeout"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The state of one gate or check of a case.

    `stack` holds the dotted names of the witness's frames. `witness_ok` is False for a gate with
    the arm's verdict but without the witness that the arm expects.
    """

    verdict: str
    blocked_by: str = ""
    stack: tuple[str, ...] = ()
    witness_ok: bool = True

    def answers(self, wanted: Wanted) -> bool:
        """Whether this is the wanted verdict, with the wanted witness."""
        end = f".{wanted.witness}"
        return self.verdict == wanted.verdict and (
            not wanted.witness or any(f".{dotted}".endswith(end) for dotted in self.stack)
        )


Members = Mapping[str, Member]
Changes = Mapping[CaseKey, Members]

_REFUSAL = "CudaError"
"""What a refused call raises: a gate or a check accounts for it, as for any other refusal."""

_ABSENT = Member(verdict=ABSENT)


def key_of(result: CaseResult) -> CaseKey:
    """`scenario[lane/arm]` of a result."""
    return f"{result.scenario}[{result.lane}/{result.arm}]"


def members_of(result: CaseResult, *, is_to_raise: bool = False) -> dict[str, Member]:
    """Every gate and check of a case by its id.

    A gate that nobody named is one only where it is broken: as long as it is not, whether it
    found something to judge is nobody's claim. An engine's exception is one of its own, unless a
    refused call raised it and something is red for it: a mutant that dies of its own mistake, such
    as an unbound name, proves nothing by being red. A case that `is_to_raise` has to raise what
    its arm accounts for, and any other refusal is one of its own too.
    """
    members = {
        gate.gate: _gate_member(gate)
        for gate in result.gates
        if gate.named or gate.verdict in (Verdict.BROKEN, Verdict.UNKNOWN)
    }
    for check in result.checks:
        members[check.id] = Member(verdict=check.outcome.value, blocked_by=check.blocked_by)
    red = any(member.verdict in ("broken", "failed") for member in members.values())
    failure = result.failure
    if failure is not None:
        told = red and failure.type == _REFUSAL and (failure.accounted or not is_to_raise)
        if not told:
            members[FAILURE] = Member(verdict=failure.type)
    return members


def _gate_member(gate: GateResult) -> Member:
    same_verdict = gate.named and gate.verdict == gate.expected
    return Member(
        verdict=gate.verdict.value,
        blocked_by=gate.blocked_by,
        stack=tuple(frame.dotted for frame in gate.witness.stack) if gate.witness else (),
        witness_ok=gate.as_expected or not same_verdict,
    )


def changed_members(baseline: Members, mutant: Members) -> dict[str, Member]:
    """The members whose state differs; what is gone is `absent`."""
    changed = {}
    for name in dict.fromkeys((*baseline, *mutant)):
        before = baseline.get(name, _ABSENT)
        after = mutant.get(name, _ABSENT)
        if (before.verdict, before.witness_ok) != (after.verdict, after.witness_ok):
            changed[name] = after
    return changed


def changes_of(
    baseline: Mapping[CaseKey, CaseResult], mutant: Mapping[CaseKey, CaseResult]
) -> dict[CaseKey, dict[str, Member]]:
    """What changed, case by case; cases without a change are left out.

    Raises:
        ValueError: the mutant did not run the baseline's cases.
    """
    if baseline.keys() != mutant.keys() or not baseline:
        raise ValueError("a mutant is compared on the cases of its baseline, at least one")
    found = {}
    for key, before in baseline.items():
        is_to_raise = before.failure is not None and before.failure.accounted
        after = members_of(mutant[key], is_to_raise=is_to_raise)
        changed = changed_members(members_of(before), after)
        if changed:
            found[key] = changed
    return found


def without_blocked(changed: Members, listed: frozenset[str]) -> dict[str, Member]:
    """The changed members less the unknown ones that a listed member blocks, directly or not."""
    return {name: m for name, m in changed.items() if not _blocked(name, changed, listed)}


def _blocked(name: str, changed: Members, listed: frozenset[str]) -> bool:
    seen: set[str] = set()
    while name not in listed and name not in seen and name in changed:
        seen.add(name)
        member = changed[name]
        if member.verdict != "unknown":
            return False
        name = member.blocked_by
    return name in listed and bool(seen)


Entry = tuple[str, str, str]
"""A case, a gate or check id, and a verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A plan's expectations beside what was seen, sorted into what fits and what does not."""

    met: tuple[Entry, ...] = ()
    missing: tuple[Entry, ...] = ()
    other: tuple[Entry, ...] = ()
    extra: tuple[Entry, ...] = ()
    tolerated: tuple[Entry, ...] = ()


def compare(plan: Plan, changes: Changes) -> tuple[Proof, Comparison]:
    """The proof's verdict, and how it came about.

    `other` holds changes of an expected case that took the place of what was expected: another
    verdict, another witness, or another gate where something expected is missing.
    """
    met: list[Entry] = []
    missing: list[Entry] = []
    other: list[Entry] = []
    extra: list[Entry] = []
    tolerated: list[Entry] = []
    for case in dict.fromkeys((*plan.expect, *changes)):
        expected = plan.expect.get(case, {})
        also = plan.also.get(case, {})
        changed = without_blocked(changes.get(case, {}), frozenset((*expected, *also)))
        missing_here = [name for name in expected if name not in changed]
        for name, member in changed.items():
            entry = (case, name, member.verdict)
            wanted = expected.get(name)
            if wanted is not None:
                (met if member.answers(wanted) else other).append(entry)
            elif name in also and member.answers(also[name]):
                tolerated.append(entry)
            elif missing_here:
                other.append(entry)
            else:
                extra.append(entry)
        missing += [(case, name, str(expected[name])) for name in missing_here]
    found = Comparison(
        met=tuple(met),
        missing=tuple(missing),
        other=tuple(other),
        extra=tuple(extra),
        tolerated=tuple(tolerated),
    )
    return _proof(found, changed_at_all=any(changes.values())), found


def _proof(found: Comparison, *, changed_at_all: bool) -> Proof:
    if not changed_at_all:
        return Proof.SURVIVED
    if found.other:
        return Proof.WRONG_REASON
    if found.missing:
        return Proof.WRONG_RED
    if found.extra:
        return Proof.EXTRA_RED
    return Proof.PROVED
