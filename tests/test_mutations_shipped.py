"""Plans rest on gates: what they come to on a shipped scenario that no longer names its gate."""

from __future__ import annotations

from pathlib import Path

import pytest

import capturegate_scenarios
from capturegate_mutations.session import Request, Session

FLIP = """
about: The step boundary is gone.
flips:
  - target: capturegate_reference.decode:DecodeDriver.step
    delete: {call: pool.mark_step_boundary}
"""
ALONE = f"""\
mutation: alone
{FLIP}
expect:
  wide-then-narrow[pooled/{{refusing,census}}]: {{pregrow-is-used: broken}}
"""
AMONG_OTHERS = f"""\
mutation: among-others
{FLIP}
  - {{scenario: wide-then-narrow, set_times: {{replay_step: 2}}}}
expect:
  wide-then-narrow[pooled/{{refusing,census}}]:
    pregrow-is-used: broken
    replay_step.replays: failed
  wide-then-narrow[pooled/control]: {{replay_step.replays: failed}}
"""


@pytest.mark.parametrize(
    ("removed", "verdicts"),
    [
        ("", {"alone": "proved", "among-others": "proved"}),
        ("  - pregrow-is-used\n", {"alone": "survived", "among-others": "wrong-red"}),
    ],
)
def test_a_plan_notices_that_its_gate_is_no_longer_named(tmp_path, removed, verdicts):
    shipped = Path(capturegate_scenarios.__file__).parent / "seed/wide-then-narrow.scenario.yaml"
    text = shipped.read_text()
    assert removed in text
    scenario = tmp_path / shipped.name
    scenario.write_text(text.replace(removed, ""))
    (tmp_path / "alone.mutation.yaml").write_text(ALONE)
    (tmp_path / "among-others.mutation.yaml").write_text(AMONG_OTHERS)

    sheet = Session(request=Request(plans=(tmp_path,), scenarios=(scenario,))).run()

    assert verdicts == {row.mutation: row.proof.value for row in sheet.rows}
    assert [2, 5] == sorted(sum(map(len, row.expected.values())) for row in sheet.rows)
