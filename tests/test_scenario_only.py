"""Steps and expectations that are for some arms or lanes of a scenario only."""

from __future__ import annotations

import json

import pytest

from capturegate.run.execute import judge_case
from capturegate.run.plan import expand
from capturegate.run.request import case_from_request, case_request
from capturegate.scenario.loader import load_scenario

SCENARIO = """
scenario: toy
about: A toy.
engine: toy_engines:Doubling
arms: {twice: {}, once: {}}
lanes: {day: {}, night: {}}
steps:
  - step: {id: cold}
  - step: {id: extra, only: [twice], check: {state: later}}
  - step:
      id: last
      check:
        captures: {twice: 0, once: 1}
        replays: {night: 1}
        state: later
"""


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "toy.scenario.yaml"
    path.write_text(SCENARIO)
    return {case.name: case for case in expand([load_scenario(path)], "fake")}


def test_a_step_is_taken_in_the_arms_that_it_is_for(cases):
    taken = {name: [step.id for step in case.steps] for name, case in cases.items()}

    assert taken == {
        "toy[day/twice]": ["cold", "extra", "last"],
        "toy[day/once]": ["cold", "last"],
        "toy[night/twice]": ["cold", "extra", "last"],
        "toy[night/once]": ["cold", "last"],
    }


def test_a_case_is_held_to_the_expectations_of_its_arm_and_lane(cases):
    held = {
        name: [(check.id, check.expectation.text) for check in case.steps[-1].checks]
        for name, case in cases.items()
    }

    assert held == {
        "toy[day/twice]": [("last.captures", "0"), ("last.state", "later")],
        "toy[day/once]": [("last.captures", "1"), ("last.state", "later")],
        "toy[night/twice]": [
            ("last.captures", "0"),
            ("last.replays", "1"),
            ("last.state", "later"),
        ],
        "toy[night/once]": [
            ("last.captures", "1"),
            ("last.replays", "1"),
            ("last.state", "later"),
        ],
    }


def test_an_expectation_of_an_arm_stands_at_the_arms_name(cases):
    [captures, *_] = cases["toy[day/once]"].steps[-1].checks

    assert (13, 30) == (captures.where.line, captures.where.column)


def test_each_arm_is_judged_by_its_own_expectations(cases):
    """The second step of the toy captures, and every later one replays."""
    results = {name: judge_case(case) for name, case in cases.items()}

    assert {name: result.as_expected for name, result in results.items()} == {
        "toy[day/twice]": True,
        "toy[day/once]": True,
        "toy[night/twice]": True,
        "toy[night/once]": True,
    }
    assert [(check.id, check.observed) for check in results["toy[day/once]"].checks] == [
        ("last.captures", "1"),
        ("last.state", "later"),
    ]


def test_an_arm_that_does_what_the_other_is_to_do_is_red(tmp_path):
    path = tmp_path / "toy.scenario.yaml"
    path.write_text(SCENARIO.replace("{twice: 0, once: 1}", "{twice: 1, once: 0}"))
    results = [judge_case(case) for case in expand([load_scenario(path)], "fake")]

    assert [False] * 4 == [result.as_expected for result in results]


def test_a_case_keeps_what_it_is_held_to_on_its_way_to_a_child(cases):
    for case in cases.values():
        request = json.loads(json.dumps(case_request(case)))
        assert case.steps == case_from_request(request).steps
