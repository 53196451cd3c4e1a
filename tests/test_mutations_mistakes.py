"""Flips that cannot be applied: wrong input, told with their place in the plan, before any run."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main
from mutation_toys import ADAPTER, CORE, PLAIN, expecting, replacing, write_toy

FAILED = expecting(PLAIN, work__total="failed")
ADD = "self.base + amount"
HELP = "\n  help: "
ONCE = "\n  expected: exactly one match" + HELP


def line_of(text: str) -> int:
    """The line of the toy's core that has a text first."""
    return CORE[: CORE.index(text)].count("\n") + 1


def deleting(call: str) -> str:
    return (
        f"flips:\n  - target: toy_core:Core.total\n    delete: {{call: {call}}}\nexpect:\n{FAILED}"
    )


def on_scenario(flip: str) -> str:
    return f"flips:\n  - {{scenario: toy, {flip}}}\nexpect:\n{FAILED}"


TOTAL = line_of("def total")
CALL = TOTAL + 1
MIN = TOTAL + 2

MISTAKES = {
    "text-missing": (
        replacing("return min(self.bases + amount, self.limit)", "0", FAILED),
        (
            "text 'return min(self.bases + amount, self.limit)' matches nothing in the target, "
            f"at CORE:{TOTAL}{ONCE}did you mean 'return min(self.base + amount, self.limit)'?"
        ),
    ),
    "text-nowhere-near": (
        replacing("@@@", "0", FAILED),
        (
            f"text '@@@' matches nothing in the target, at CORE:{TOTAL}{ONCE}"
            "the code may have changed since"
        ),
    ),
    "text-thrice": (
        replacing("amount", "0", FAILED),
        (
            "text 'amount' matches 3 times in the target: "
            f"CORE:{TOTAL}, CORE:{CALL}, CORE:{MIN}, at CORE:{TOTAL}{ONCE}"
            "take in more of the text around it, or name a smaller target"
        ),
    ),
    "call-missing": (
        deleting("self.worm"),
        (
            f"call 'self.worm' matches nothing in the target, at CORE:{TOTAL}{ONCE}"
            "did you mean 'self.warm'?"
        ),
    ),
    "target-missing": (
        replacing("x", "y", FAILED, "toy_core:Core.totl"),
        (
            f"'Core.totl' of module toy_core matches nothing in the target, at CORE:1{ONCE}"
            "did you mean 'Core.total'?"
        ),
    ),
    "module-missing": (
        replacing("x", "y", FAILED, "toy_nowhere:f"),
        (
            "module 'toy_nowhere' has no Python source"
            "\n  expected: a module that can be imported from here, written in Python"
            f"{HELP}a target is written module:Qualified.name"
        ),
    ),
    "does-not-compile": (
        replacing(ADD, "(", FAILED),
        (
            "the flipped source does not compile: invalid syntax "
            f"(toy_core.py, line {MIN}), at CORE"
            f"{HELP}what a flip puts in has to keep the indentation of the lines around it"
        ),
    ),
    "identical": (
        replacing("min(", "min( ", FAILED),
        (
            "the flip changes no bytecode, at CORE"
            f"{HELP}a mutation that changes nothing proves nothing"
        ),
    ),
    "step-missing": (
        on_scenario("remove_step: nothing"),
        (
            "'remove_step: nothing' changes nothing in scenario 'toy'"
            "\n  expected: something that the scenario has, and another value than it has"
            f"{HELP}its steps are work, capture"
        ),
    ),
    "times-of-nothing": (
        on_scenario("set_times: {capture: 2, nothing: 2}"),
        (
            "'set_times: nothing' changes nothing in scenario 'toy'"
            "\n  expected: something that the scenario has, and another value than it has"
            f"{HELP}its steps are work, capture"
        ),
    ),
    "scenario-missing": (
        "flips:\n  - {scenario: toys, remove_step: capture}\nexpect:\n" + FAILED,
        f"no scenario 'toys'\n  expected: one of toy{HELP}did you mean 'toy'?",
    ),
    "nobody-asks": (
        "flips:\n  - {predicate: toy.on, answers: false}\nexpect:\n" + FAILED,
        "no case asks the predicate 'toy.on'\n  expected: one of toy.off, in a lane that asks it",
    ),
}


@pytest.fixture
def mutate(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def invoke(plans: dict[str, str], *arguments: str):
        ran = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
        write_toy(tmp_path, plans, toy_adapter=ran + ADAPTER)
        result = CliRunner().invoke(
            main,
            [
                *("mutate", str(tmp_path / "plans")),
                *("--scenarios", str(tmp_path / "toy.scenario.yaml")),
                *("--results", str(tmp_path / "rows"), *arguments),
            ],
        )
        names = {str(tmp_path / "toy_core.py"): "CORE", f"{tmp_path / 'plans'}/": ""}
        said = result.stderr
        for path, name in names.items():
            said = said.replace(path, name)
        return result, said

    invoke.folder = tmp_path
    return invoke


@pytest.mark.parametrize("name", MISTAKES)
def test_a_flip_that_cannot_be_applied_is_wrong_input_with_its_place(mutate, name):
    plan, said = MISTAKES[name]

    result, message = mutate({name: plan})

    assert message == f"error: {name}.mutation.yaml:4:5: {said}\n"
    assert (2, "") == (result.exit_code, result.stdout)


def test_all_mistakes_of_all_plans_are_told_and_nothing_runs(mutate):
    both = replacing("@@@", "0", FAILED).replace(
        "expect:", "  - target: toy_core:Core.nothing\n    return_value: 0\nexpect:"
    )
    plans = {"b-both": both, "a-right": replacing(ADD, "0", FAILED), "c": MISTAKES["identical"][0]}

    result, message = mutate(plans)

    places = [line.split(" ")[0] for line in message.splitlines() if ".mutation.yaml" in line]
    assert 2 == result.exit_code
    assert places == [
        "error:",
        "b-both.mutation.yaml:8:5:",
        "c.mutation.yaml:4:5:",
    ]
    assert message.startswith("error: b-both.mutation.yaml:4:5: text '@@@' matches nothing")
    assert not (mutate.folder / "ran").exists()
    assert not (mutate.folder / "rows").exists()


def test_a_mistake_of_a_plan_that_was_not_chosen_stops_nothing(mutate):
    plans = {"right": replacing(ADD, "self.base - amount", FAILED), "wrong": deleting("nothing")}

    result, _ = mutate(plans, "-k", "right")

    assert 0 == result.exit_code, result.output
    assert (mutate.folder / "ran").exists()


def test_a_draft_with_a_mistake_is_wrong_input_too(mutate):
    result, message = mutate({"call-missing": MISTAKES["call-missing"][0]}, "--learn")

    assert (2, "") == (result.exit_code, result.stdout)
    assert "call-missing.mutation.yaml:4:5: call 'self.worm' matches nothing" in message
