"""What a plan expects to change has to be there: gates, checks of its cases, configurations."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main
from capturegate.errors import InputError
from capturegate.scenario import loader
from capturegate.scenario.loader import files_below
from mutation_toys import PLAIN, SCENARIO, expecting, replacing, write_toy

ADD, SUBTRACT = "self.base + amount", "self.base - amount"
FAILED = expecting(PLAIN, work__total="failed")


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def invoke(plans: dict[str, str], *arguments: str, toy: str = SCENARIO):
        write_toy(tmp_path, plans, toy=toy)
        result = CliRunner().invoke(
            main,
            [
                *("mutate", str(tmp_path / "plans")),
                *("--scenarios", str(tmp_path / "toy.scenario.yaml"), *arguments),
            ],
        )
        return result.exit_code, result.stderr.replace(f"{tmp_path / 'plans'}/", "")

    return invoke


@pytest.mark.parametrize(
    ("member", "said"),
    [
        ("capture-complete", "unknown gate 'capture-complete' in toy[plain/default]"),
        ("work.totl", "unknown check 'work.totl' in toy[plain/default]"),
        ("wrok.total", "unknown check 'wrok.total' in toy[plain/default]"),
    ],
)
def test_a_member_that_no_gate_and_no_check_has_is_wrong_input(mutate, member, said):
    plan = replacing(ADD, SUBTRACT, f"  {PLAIN}:\n    {member}: failed\n")
    exit_code, message = mutate({"wrong": plan})
    assert (2, True) == (exit_code, message.startswith(f"error: wrong.mutation.yaml:9:3: {said}"))
    assert "did you mean" in message


def test_a_check_of_another_arm_is_no_check_of_this_one(mutate):
    toy = SCENARIO.replace("lanes:", "arms: {default: {}, other: {}}\nlanes:")
    toy = toy.replace("{total: 5}", "{total: {other: 5}}")
    exit_code, message = mutate({"wrong": replacing(ADD, SUBTRACT, FAILED)}, toy=toy)
    assert (2, True) == (exit_code, f"unknown check 'work.total' in {PLAIN}" in message)

    other = "toy[plain/other]"
    right = replacing(ADD, SUBTRACT, expecting(other, work__total="failed"))
    assert 0 == mutate({"wrong": right}, toy=toy)[0]


def test_a_code_in_place_of_a_gates_name_is_told_the_name(mutate):
    plan = replacing(ADD, SUBTRACT, f"  {PLAIN}:\n    CG004: broken\n")
    exit_code, message = mutate({"coded": plan})
    assert 2 == exit_code
    assert "help: CG004 is capture-completes; a plan names gates by their names" in message


def test_a_configuration_that_the_engine_has_not_is_refused_at_the_flip(mutate):
    plan = f"flips:\n  - {{scenario: toy, set_config: {{nope: 1}}}}\nexpect:\n{FAILED}"
    exit_code, message = mutate({"configured": plan})
    assert 2 == exit_code
    assert message.startswith("error: configured.mutation.yaml:4:5: the flipped scenario is wrong:")
    assert "'nope'" in message


def test_plans_that_were_not_chosen_need_nothing_of_the_scenarios(mutate):
    aside = replacing(ADD, SUBTRACT, "  pool-pins[pooled/pinned]:\n    put.driver_frees: failed\n")
    plans = {"mine": replacing(ADD, SUBTRACT, FAILED), "other": aside}
    assert 0 == mutate(plans, "-k", "mine")[0]
    exit_code, message = mutate(plans)
    assert 2 == exit_code
    assert "1 mutation(s) expect nothing of the scenarios chosen: other" in message


def test_a_folder_that_cannot_be_read_is_not_passed_over(tmp_path, monkeypatch):
    def walk(folder, onerror):
        onerror(PermissionError(13, os.strerror(13), str(folder / "closed")))
        return iter(())

    monkeypatch.setattr(loader.os, "walk", walk)
    with pytest.raises(InputError, match="closed: the folder cannot be read: Permission denied"):
        files_below(tmp_path, ".scenario.yaml")
