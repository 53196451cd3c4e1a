"""Plans: what is refused and how it is said, what is read, and what the shipped ones cover."""

from __future__ import annotations

from pathlib import Path

import pytest

from capturegate.errors import InputError
from capturegate.gates.registry import all_gates
from capturegate.run.plan import expand, load
from capturegate_mutations.plan import CodeFlip, PredicateFlip, ScenarioFlip
from capturegate_mutations.reader import find_plans, load_plan, load_plans, shipped_plans

FOLDER = Path(__file__).parent / "plans_refused"
REFUSED = sorted(FOLDER.glob("*.mutation.yaml"))
CASES = ["toy[plain/default]", "toy[idle/default]", "other[plain/red]"]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.name.split(".")[0])
def test_a_broken_plan_is_refused_with_exactly_this_message(path):
    expected = path.with_name(path.name.replace(".mutation.yaml", ".expected"))

    with pytest.raises(InputError) as caught:
        load_plan(path, CASES)

    message = str(caught.value).replace(str(path), path.name)
    assert expected.read_text(encoding="utf-8").rstrip("\n") == message


def test_the_folder_holds_refusals_and_every_expected_message_has_its_file():
    expected = {path.name.removesuffix(".expected") for path in FOLDER.glob("*.expected")}

    assert len(REFUSED) >= 30
    assert expected == {path.name.removesuffix(".mutation.yaml") for path in REFUSED}


PLAN = """
mutation: everything
about: >-
  All kinds
  of flips.
flips:
  - target: m:A.f
    wrap_in_if: {call: a.b, test: "x > 0"}
  - target: m:A.f
    move: {statement: "x = 1", before: {statement: "y = 2"}}
  - target: m
    replace: {old: " text", new: ""}
  - {target: "m:g", return_value: 0}
  - {scenario: toy, set_config: {model: moe, size: 3}}
  - {predicate: pool.bypassed, answers: false, lane: idle}
expect:
  toy[{plain,idle}/default]: {w: broken, work.total: failed}
  other[plain/red]: {w: {verdict: broken, witness: Pool.get}}
also:
  other[plain/red]: {e: unknown, reason: it comes along}
"""


def test_a_plan_is_read_with_its_alternatives_expanded(tmp_path):
    path = tmp_path / "x.mutation.yaml"
    path.write_text(PLAN)

    plan = load_plan(path, CASES)

    wrap, move, replace, returns, config, predicate = plan.flips
    assert "All kinds of flips." == plan.about
    assert CASES == list(plan.expect)
    assert {"w": "broken", "work.total": "failed"} == {
        name: wanted.verdict for name, wanted in plan.expect["toy[idle/default]"].items()
    }
    assert "Pool.get" == plan.expect["other[plain/red]"]["w"].witness
    assert {"other[plain/red]": "it comes along"} == plan.reasons
    assert isinstance(wrap, CodeFlip)
    assert ("m", "A.f", "wrap_in_if") == (wrap.module, wrap.qualname, wrap.operator)
    assert {"test": "x > 0"} == wrap.arguments.texts
    assert {"here", "before"} == set(move.arguments.anchors)
    assert "statement" == move.arguments.anchors["before"].kind
    assert {"old": " text", "new": ""} == replace.arguments.texts
    assert {"value": "0"} == returns.arguments.texts
    assert isinstance(config, ScenarioFlip)
    assert {"model": "moe", "size": 3} == config.values
    assert isinstance(predicate, PredicateFlip)
    assert (False, "idle") == (predicate.answers, predicate.lane)


def test_two_plans_of_one_name_are_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.mutation.yaml").write_text(PLAN)

    with pytest.raises(InputError, match="mutation 'everything' exists already, in "):
        load_plans(find_plans([tmp_path]), CASES)


def test_a_path_without_plans_is_refused(tmp_path):
    with pytest.raises(InputError, match="no plan in this folder"):
        find_plans([tmp_path])
    with pytest.raises(InputError, match="no such file or folder"):
        find_plans([tmp_path / "nothing"])


def test_hidden_folders_hold_no_plans(tmp_path):
    for folder in (".venv/lib", "shown"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.mutation.yaml").write_text(PLAN)

    assert [tmp_path / "shown/x.mutation.yaml"] == find_plans([tmp_path])


def test_a_draft_need_not_expect_anything(tmp_path):
    path = tmp_path / "x.mutation.yaml"
    path.write_text(PLAN.split("expect:")[0])

    assert {} == load_plan(path, CASES, draft=True).expect
    with pytest.raises(InputError, match="key 'expect' is missing"):
        load_plan(path, CASES)


@pytest.fixture(scope="module")
def shipped():
    return load_plans(shipped_plans(), [case.name for case in expand(load([]), "fake")])


FOUNDATION = {
    "capture-completes",
    "no-driver-allocation-in-window",
    "profile-covers-window",
    "pregrow-is-used",
    "replay-matches-eager",
}


def test_every_gate_is_broken_by_a_plan_in_a_case_in_which_it_alone_changes(shipped):
    alone = {
        name
        for plan in shipped
        for members in plan.expect.values()
        for name, wanted in members.items()
        if len(members) == 1 and wanted.verdict == "broken"
    }

    assert set() == FOUNDATION - alone
    assert set() == alone - set(all_gates())


def test_the_shipped_plans_are_the_rows_of_the_table(shipped):
    assert {
        "allocation-beside-the-pool",
        "begin-without-end",
        "bypass-captured-anyway",
        "bypass-not-skipped",
        "drain-removed-on-unfixed-driver",
        "pregrow-behind-dbuf",
        "pregrow-inside-window",
        "pregrow-returns-zero",
        "profile-short-by-one",
        "replay-does-nothing",
        "step-boundary-removed",
        "window-counts-nothing",
    } <= {plan.name for plan in shipped}
