"""Every thing that the rule book says has a plan, and the core of the recordings is of them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from capturegate.scenario.loader import load_scenarios
from capturegate_backends.conform.recorded import core_cases, step_id
from capturegate_backends.conform.rule_flips import RuleFlip, rule_flips, source_text
from capturegate_backends.fake.rules import rule_book
from capturegate_backends.truth.recordings import shipped_cases
from capturegate_mutations.plan import CodeFlip, Plan
from capturegate_mutations.reader import find_plans, load_plans

FOLDER = Path(str(files("capturegate_mutations"))) / "rule_plans"
CASE = "fake-conforms[default/default]"


@pytest.fixture(scope="module")
def flips() -> dict[str, RuleFlip]:
    return {flip.name: flip for flip in rule_flips(source_text())}


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {plan.name: plan for plan in load_plans(find_plans([FOLDER]), [CASE])}


def test_there_is_a_plan_for_each_thing_the_rule_book_says_and_no_other(
    flips: dict[str, RuleFlip], plans: dict[str, Plan]
) -> None:
    assert flips.keys() == plans.keys()
    print(f"{len(plans)} rule plans")
    assert len(plans) >= 110


def test_each_plan_flips_that_thing_and_expects_a_recorded_program_to_notice(
    flips: dict[str, RuleFlip], plans: dict[str, Plan]
) -> None:
    for name, plan in plans.items():
        (flip,) = plan.flips
        assert isinstance(flip, CodeFlip)
        said = flips[name]
        assert (flip.arguments.texts["old"], flip.arguments.texts["new"]) == (said.old, said.new)
        wanted = plan.expect[CASE]
        assert wanted
        assert {w.verdict for w in wanted.values()} == {"failed"}


def test_every_rule_restriction_record_and_silent_call_is_among_the_flips(
    flips: dict[str, RuleFlip],
) -> None:
    book = rule_book("580")
    kinds = {
        kind: [n for n in flips if n.startswith(f"rule-{kind}-")]
        for kind in ("effect", "restriction", "record", "silent", "member")
    }
    rules = flips.keys() - {name for names in kinds.values() for name in names}
    assert len(rules) == len(book.rules)
    assert len(kinds["restriction"]) == len(book.restrictions)
    assert len(kinds["record"]) == len(book.records)
    assert len(kinds["silent"]) == len(book.silent)
    no_effect = {"NOT_CAPTURING", "TARGET_LEGACY", "CHILD_OWNS_MEMORY"}
    told = [r for r in book.rules if r.when.name not in no_effect and r.error != "cudaSuccess"]
    # To poison what is invalidated is nothing.
    assert len(kinds["effect"]) == len(told) - 1


def test_each_flip_changes_the_text_once(flips: dict[str, RuleFlip]) -> None:
    text = source_text()
    for flip in flips.values():
        assert text.count(flip.old) == 1, flip.name
        assert flip.new != flip.old


def test_the_sources_are_recordings() -> None:
    book = rule_book("580")
    sources = {rule.source for rule in book.rules} | {r.source for r in book.restrictions}
    assert sources == {"legality-h200", "programs-h200"}


def test_the_core_is_of_the_recordings_and_the_scenario_runs_all_of_it() -> None:
    core = core_cases()
    recorded = {case.name: case for case in shipped_cases() if case.name in core}
    assert core == recorded
    (scenario,) = load_scenarios([FOLDER / "fake-conforms.scenario.yaml"])
    assert [step.id for step in scenario.steps] == [step_id(name) for name in core]
    assert [step.args["program"] for step in scenario.steps] == list(core)
    assert {check.counter for step in scenario.steps for check in step.checks} == {"differences"}


def test_a_new_class_of_calls_or_rule_is_a_new_flip() -> None:
    text = source_text()
    rule = "    _rule(_END, When.UNJOINED, _UNJOINED, _ENDS, _RECORDED),\n"
    more = "    _rule(_WAIT, When.ANY_CAPTURE, _MERGE, _POISONS, _RECORDED),\n"
    before = {flip.name for flip in rule_flips(text)}
    after = {flip.name for flip in rule_flips(text.replace(rule, rule + more))}
    assert after - before == {"rule-wait-any-capture", "rule-effect-wait-any-capture"}
    fewer = {flip.name for flip in rule_flips(text.replace('    "malloc_host",\n', "", 1))}
    assert before - fewer == {"rule-member-unsafe-malloc-host"}
