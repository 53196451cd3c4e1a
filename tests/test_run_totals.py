import pytest

import report_samples as samples
from capturegate.run.result import CheckOutcome, Verdict
from capturegate.run.totals import exit_code_of, never_judged_in, totals_of


def test_the_closing_line_counts_cases_and_checks():
    results = [samples.green(), samples.red(case="other"), samples.skipped()]
    line = "cases: 3 | 1 passed | 1 failed | 1 skipped · checks: 7 | 3 passed | 4 failed"
    assert line == str(totals_of(results, []))


def test_gates_that_nobody_named_are_not_counted():
    case = samples.result(
        gates=[samples.gate("a"), samples.gate("b", named=False)], checks=[samples.check("c.d")]
    )
    assert totals_of([case], []).checks == 2


def test_a_check_that_an_expected_break_blocked_is_neither_passed_nor_failed():
    broken = samples.gate("a", Verdict.BROKEN, expected=Verdict.BROKEN)
    blocked = samples.check("c.d", CheckOutcome.UNKNOWN, blocked_by="a")
    totals = totals_of([samples.result(gates=[broken], checks=[blocked])], [])
    assert (totals.cases_passed, totals.checks, totals.checks_passed) == (1, 1, 1)


def test_a_skip_is_not_excused_by_a_gate_that_came_to_no_verdict_in_the_judging_lane():
    vacuous = samples.gate("a", Verdict.VACUOUS, expected=Verdict.VACUOUS)
    held = samples.gate("b")
    results = [samples.result(gates=[vacuous, held]), samples.skipped()]
    assert never_judged_in(results, unfiltered=True) == [results[1].case]


def test_a_skip_is_excused_by_the_lane_that_judges_it():
    results = [samples.green(), samples.skipped()]
    assert never_judged_in(results, unfiltered=True) == []


@pytest.mark.parametrize(
    "other",
    [
        samples.green(arm="refusing"),
        samples.green(case="other"),
        samples.skipped(lane="pooled", judged_in="bypass"),
        samples.result(harness_error="died"),
    ],
    ids=["other arm", "other scenario", "skipped as well", "not judged"],
)
def test_a_skip_is_not_excused_by(other):
    results = [samples.skipped(), other]
    assert "decode[bypass/census]@fake" in never_judged_in(results, unfiltered=True)


def test_a_filtered_run_may_leave_the_judging_lane_out():
    assert never_judged_in([samples.skipped()], unfiltered=False) == []


def test_a_filtered_run_that_has_the_judging_lane_needs_its_verdict():
    results = [samples.skipped(), samples.result(harness_error="died")]
    assert never_judged_in(results, unfiltered=False) == ["decode[bypass/census]@fake"]


@pytest.mark.parametrize(
    ("results", "never_judged", "code"),
    [
        ([samples.green()], [], 0),
        ([samples.green(), samples.skipped()], [], 0),
        ([samples.green(), samples.red()], [], 1),
        ([samples.green(), samples.skipped()], ["decode[bypass/census]@fake"], 1),
        ([samples.result()], [], 1),
        ([samples.green(), samples.result(harness_error="died")], [], 3),
        ([samples.skipped()], [], 5),
        ([], [], 5),
    ],
    ids=["green", "skips", "red", "never judged", "unjudged", "harness", "only skips", "empty"],
)
def test_the_exit_code(results, never_judged, code):
    assert code == exit_code_of(results, never_judged)
