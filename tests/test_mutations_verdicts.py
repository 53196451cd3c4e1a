"""What a mutation comes to, from two sets of literal results."""

from __future__ import annotations

import pytest

from capturegate.errors import Location
from capturegate.run.result import (
    CaseResult,
    CheckOutcome,
    CheckResult,
    Failure,
    FrameRecord,
    GateResult,
    Verdict,
    Witness,
)
from capturegate_mutations.plan import Plan, Wanted
from capturegate_mutations.verdict import (
    Member,
    Proof,
    changed_members,
    changes_of,
    compare,
    members_of,
    without_blocked,
)

A = "a[pooled/census]"
B = "b[pooled/census]"


def plan(expect, also=None) -> Plan:
    def wanted(mapping):
        return {
            case: {name: v if isinstance(v, Wanted) else Wanted(verdict=v) for name, v in m.items()}
            for case, m in mapping.items()
        }

    return Plan(
        name="x",
        about="x",
        flips=(),
        expect=wanted(expect),
        also=wanted(also or {}),
        reasons={},
        path="x",
        where=Location("x"),
    )


def seen(**members) -> dict[str, Member]:
    return {
        name.replace("_", "."): m if isinstance(m, Member) else Member(verdict=m)
        for name, m in members.items()
    }


def blocked(by: str) -> Member:
    return Member(verdict="unknown", blocked_by=by)


def proof_of(expect, changes, also=None) -> str:
    return compare(plan(expect, also), changes)[0].value


def test_exactly_the_expected_changes_are_a_proof():
    assert proof_of({A: {"w": "broken", "h": "held"}}, {A: seen(w="broken", h="held")}) == "proved"


def test_nothing_changed_is_survived():
    assert proof_of({A: {"w": "broken"}}, {}) == "survived"


def test_another_gate_of_the_expected_case_is_the_wrong_reason():
    assert proof_of({A: {"w": "broken"}}, {A: seen(h="broken")}) == "wrong-reason"


def test_another_verdict_of_the_expected_gate_is_the_wrong_reason():
    assert proof_of({A: {"w": "broken"}}, {A: seen(w="vacuous")}) == "wrong-reason"


def test_another_witness_is_the_wrong_reason():
    wanted = {A: {"w": Wanted(verdict="broken", witness="Pool.get")}}
    right = Member(verdict="broken", stack=("pool.Pool.get",))
    wrong = Member(verdict="broken", stack=("pool.CarPool.get", "pool.Pool.getter"))

    assert proof_of(wanted, {A: seen(w=right)}) == "proved"
    assert proof_of(wanted, {A: seen(w=wrong)}) == "wrong-reason"


def test_a_missing_case_is_wrong_red():
    expect = {A: {"w": "broken"}, B: {"w": "broken"}}

    assert proof_of(expect, {A: seen(w="broken")}) == "wrong-red"


def test_a_missing_gate_beside_a_met_one_is_wrong_red():
    assert proof_of({A: {"w": "broken", "h": "broken"}}, {A: seen(w="broken")}) == "wrong-red"


def test_a_plan_that_expects_too_little_is_extra_red():
    assert proof_of({A: {"w": "broken"}}, {A: seen(w="broken", h="broken")}) == "extra-red"
    assert proof_of({A: {"w": "broken"}}, {A: seen(w="broken"), B: seen(w="broken")}) == "extra-red"


def test_only_changes_of_cases_that_nobody_expected_are_not_a_proof():
    assert proof_of({A: {"w": "broken"}}, {B: seen(w="broken")}) == "wrong-red"


def test_tolerated_collateral_may_come_along_with_its_own_verdict_only():
    expect, also = {A: {"w": "broken"}}, {A: {"h": "broken"}}

    assert proof_of(expect, {A: seen(w="broken", h="broken")}, also) == "proved"
    assert proof_of(expect, {A: seen(w="broken")}, also) == "proved"
    assert proof_of(expect, {A: seen(w="broken", h="vacuous")}, also) == "extra-red"


def test_tolerated_collateral_alone_proves_nothing():
    assert (
        proof_of({A: {"w": "broken"}}, {B: seen(h="broken")}, {B: {"h": "broken"}}) == "wrong-red"
    )


def test_unknown_counts_unless_a_listed_member_blocks_it():
    expect = {A: {"h": "broken"}}

    assert proof_of(expect, {A: seen(h="broken", e=blocked("h"))}) == "proved"
    assert proof_of(expect, {A: seen(h="broken", e=blocked("w"))}) == "extra-red"
    red = Member(verdict="broken", blocked_by="h")
    assert proof_of(expect, {A: seen(h="broken", e=red)}) == "extra-red"
    assert proof_of(expect, {A: seen(h="broken", e=blocked(""))}) == "extra-red"


def test_a_listed_member_of_another_case_blocks_nothing():
    changes = {A: seen(h="broken"), B: seen(e=blocked("h"))}

    assert proof_of({A: {"h": "broken"}}, changes) == "extra-red"


def test_what_blocks_may_itself_be_blocked_but_not_by_itself():
    chain = seen(r="failed", w=blocked("r"), b=blocked("w"))
    circle = seen(w=blocked("b"), b=blocked("w"))

    assert {"r"} == set(without_blocked(chain, frozenset({"r"})))
    assert {"w", "b"} == set(without_blocked(circle, frozenset({"r"})))


def test_a_listed_unknown_is_compared_like_any_verdict():
    changes = {A: seen(r="failed", w=blocked("r"))}

    assert proof_of({A: {"r": "failed", "w": "unknown"}}, changes) == "proved"


def test_a_check_that_is_gone_is_absent():
    changed = changed_members(seen(drain_freed="passed", w="held"), seen(w="vacuous"))

    assert {n: m.verdict for n, m in changed.items()} == {"drain.freed": "absent", "w": "vacuous"}


def result(case: str, **fields) -> CaseResult:
    return CaseResult(
        case=f"{case}[l/r]@fake", scenario=case, lane="l", arm="r", backend="fake", **fields
    )


def gate(verdict: Verdict, **fields) -> GateResult:
    return GateResult(gate="w", verdict=verdict, **fields)


def test_a_red_arm_that_loses_its_witness_has_changed():
    def broken_at(function):
        stack = [FrameRecord(dotted=function, path="p", line=1)]
        return gate(
            Verdict.BROKEN,
            expected=Verdict.BROKEN,
            witness=Witness(summary="s", stack=stack),
            witness_expected="Pool.get",
        )

    before = {"a[l/r]": result("a", gates=[broken_at("m.Pool.get")])}
    after = {"a[l/r]": result("a", gates=[broken_at("m.Other.get")])}

    assert {"a[l/r]": {"w"}} == {k: set(m) for k, m in changes_of(before, after).items()}
    assert changes_of(before, before) == {}


@pytest.mark.parametrize(
    ("raised", "verdict", "members"),
    [
        ("NameError", Verdict.HELD, {"w": "held", "failure": "NameError"}),
        ("NameError", Verdict.BROKEN, {"w": "broken", "failure": "NameError"}),
        ("CudaError", Verdict.HELD, {"w": "held", "failure": "CudaError"}),
        ("CudaError", Verdict.BROKEN, {"w": "broken"}),
    ],
)
def test_an_exception_is_a_change_of_its_own_unless_a_refused_call_is_red_for_it(
    raised, verdict, members
):
    failure = Failure(type=raised, message="m", step="s")

    found = members_of(result("a", gates=[gate(verdict)], failure=failure))

    assert members == {name: member.verdict for name, member in found.items()}


def test_a_mutant_that_dies_of_its_own_mistake_is_proved_only_by_a_plan_that_says_so():
    died = {A: seen(w="broken", failure="NameError")}

    assert proof_of({A: {"w": "broken"}}, died) == "extra-red"
    assert proof_of({A: {"w": "broken", "failure": "KeyError"}}, died) == "wrong-reason"
    assert proof_of({A: {"w": "broken", "failure": "NameError"}}, died) == "proved"


def test_a_gate_that_nobody_named_is_a_change_only_where_it_breaks():
    held = {"a[l/r]": result("a", gates=[gate(Verdict.HELD, named=False)])}
    gone = {"a[l/r]": result("a")}
    broken = {"a[l/r]": result("a", gates=[gate(Verdict.BROKEN, named=False)])}
    named = {"a[l/r]": result("a", gates=[gate(Verdict.HELD)])}

    assert {} == changes_of(held, gone)
    assert {} == changes_of(gone, held)
    assert "broken" == changes_of(gone, broken)["a[l/r]"]["w"].verdict
    assert "absent" == changes_of(named, gone)["a[l/r]"]["w"].verdict


def test_checks_are_members_by_their_id_not_by_their_place():
    def check(name, outcome):
        return CheckResult(
            id=name, required=False, outcome=outcome, observed="", expected="", where=""
        )

    one, two = check("s.a", CheckOutcome.PASSED), check("s.b", CheckOutcome.FAILED)
    before = {"a[l/r]": result("a", checks=[one, two])}
    after = {"a[l/r]": result("a", checks=[two, one])}

    assert changes_of(before, after) == {}


def test_results_of_other_cases_or_of_none_are_never_compared():
    with pytest.raises(ValueError, match="cases of its baseline"):
        changes_of({}, {})
    with pytest.raises(ValueError, match="cases of its baseline"):
        changes_of({"a[l/r]": result("a")}, {})


def test_only_proved_is_the_word_for_green():
    assert Proof.PROVED == "proved"
    assert len(Proof) == 10


@pytest.mark.parametrize(("accounted", "changed"), [(True, {}), (False, {"failure": "CudaError"})])
def test_an_arm_that_is_to_raise_has_to_raise_what_it_accounts_for(accounted, changed):
    def refused(*, accounted):
        failure = Failure(type="CudaError", message="m", step="s", accounted=accounted)
        return result("a", gates=[gate(Verdict.BROKEN)], failure=failure)

    found = changes_of({A: refused(accounted=True)}, {A: refused(accounted=accounted)})
    assert changed == {name: m.verdict for name, m in found.get(A, {}).items()}
