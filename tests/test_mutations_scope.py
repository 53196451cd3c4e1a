"""Plans proved on chosen scenarios: what they expect of other shipped cases is set aside, aloud."""

from pathlib import Path

import pytest

import capturegate_mutations
import capturegate_scenarios
from capturegate.errors import InputError
from capturegate_mutations.session import Request, Session
from capturegate_mutations.verdict import Proof

PLANS = Path(capturegate_mutations.__file__).parent / "plans"
SCENARIOS = Path(capturegate_scenarios.__file__).parent


def sheet_of(plan, scenario):
    request = Request(plans=(PLANS / plan,), scenarios=(SCENARIOS / scenario,))
    return Session(request=request).run()


def test_a_plan_is_exact_over_the_scenarios_chosen():
    sheet = sheet_of(
        "seed/pregrow-behind-dbuf.mutation.yaml", "seed/wide-then-narrow.scenario.yaml"
    )
    assert [row.proof for row in sheet.rows] == [Proof.PROVED]
    assert sheet.cases == 6
    assert sheet.scope.startswith("scope: the 6 cases of the scenarios chosen")


def test_a_predicate_answers_the_chosen_among_its_scenarios():
    sheet = sheet_of(
        "seed/bypass-not-skipped.mutation.yaml", "seed/decode-nonspec-dense.scenario.yaml"
    )
    assert [row.proof for row in sheet.rows] == [Proof.PROVED]


def test_a_plan_that_expects_nothing_of_them_is_refused():
    with pytest.raises(InputError, match="expect nothing of the scenarios chosen"):
        sheet_of("seed/pregrow-behind-dbuf.mutation.yaml", "seed/pool-arithmetic.scenario.yaml")
