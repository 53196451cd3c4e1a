"""A flip on a skip predicate that is answered to the cases of some scenarios only."""

from __future__ import annotations

import pytest

from capturegate.errors import InputError
from capturegate_mutations.session import Request, Session
from mutation_toys import SCENARIO, expecting, write_toy

RUNS = {"work__total": "passed", "capture__captures": "passed", "capture_completes": "held"}


def flipping(scenarios: str, *cases: str) -> str:
    return (
        f"flips:\n  - {{predicate: toy.off, answers: false, lane: idle{scenarios}}}\nexpect:\n"
        + "".join(expecting(case, **RUNS) for case in cases)
    )


def sheet_of(folder, monkeypatch, plans, **fields):
    monkeypatch.syspath_prepend(str(folder))
    write_toy(folder, plans)
    twin = folder / "twin.scenario.yaml"
    twin.write_text(SCENARIO.replace("scenario: toy", "scenario: twin"))
    scenarios = (folder / "toy.scenario.yaml", twin)
    return Session(request=Request(plans=(folder / "plans",), scenarios=scenarios, **fields)).run()


@pytest.mark.parametrize("all_cases", [False, True])
def test_only_the_scenarios_that_are_named_get_the_answer(tmp_path, monkeypatch, all_cases):
    toy, twin = "toy[idle/default]", "twin[idle/default]"
    plans = {
        "all-of-them": flipping("", toy, twin),
        "both-named": flipping(", scenarios: [twin, toy]", toy, twin),
        "one-named": flipping(", scenarios: [twin]", twin),
    }
    sheet = sheet_of(tmp_path, monkeypatch, plans, all_cases=all_cases)
    observed = {row.mutation: (row.proof.value, sorted(row.observed)) for row in sheet.rows}
    assert observed == {
        "all-of-them": ("proved", [toy, twin]),
        "both-named": ("proved", [toy, twin]),
        "one-named": ("proved", [twin]),
    }
    ran = {row.mutation: row.cases_run for row in sheet.rows}
    assert ran == ({"all-of-them": 2, "both-named": 2, "one-named": 1} if not all_cases else ran)
    hunks = {row.mutation: row.hunk for row in sheet.rows}
    assert hunks["one-named"] == "predicate toy.off in lane idle of twin: answers false"


def test_a_scenario_that_never_asks_makes_the_flip_a_mistake(tmp_path, monkeypatch):
    plans = {"nobody": flipping(", scenarios: [toy, triplet]", "toy[idle/default]")}
    said = "no case of scenario 'triplet' asks the predicate 'toy.off' in lane 'idle'"
    with pytest.raises(InputError, match=said):
        sheet_of(tmp_path, monkeypatch, plans)


def test_an_empty_list_of_scenarios_is_refused(tmp_path, monkeypatch):
    plans = {"empty": flipping(", scenarios: []", "toy[idle/default]")}
    with pytest.raises(InputError, match="'scenarios' is empty"):
        sheet_of(tmp_path, monkeypatch, plans)
