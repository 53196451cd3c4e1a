import json

import report_samples as samples
from capturegate.report.json import dumps, run_as_json
from capturegate.run.result import CaseResult


def test_the_json_report_has_these_keys():
    data = run_as_json(samples.report([samples.green(), samples.skipped()]))
    assert list(data) == [
        "schema",
        "tool",
        "backend",
        "cases",
        "not_as_expected",
        "never_judged",
        "totals",
        "missing",
        "exit_code",
    ]
    assert (data["schema"], data["missing"], data["exit_code"]) == (1, 0, 0)
    assert data["tool"] == {"name": "capturegate", "version": "0.1.0"}
    assert data["backend"] == {"name": "fake", "seed": 0, "device": "fake", "driver": "13.0"}


def test_cases_can_be_read_back():
    results = [samples.green(), samples.red(case="other"), samples.skipped()]
    data = json.loads(dumps(run_as_json(samples.report(results))))
    assert results == [CaseResult.from_json(case) for case in data["cases"]]


def test_what_makes_the_run_red_is_listed():
    results = [samples.red(), samples.skipped(arm="other")]
    data = run_as_json(samples.report(results))
    assert data["not_as_expected"] == ["decode[pooled/census]@fake"]
    assert data["never_judged"] == ["decode[bypass/other]@fake"]
    assert data["exit_code"] == 1
    assert data["totals"] == {
        "cases": 2,
        "cases_passed": 0,
        "cases_failed": 2,
        "cases_skipped": 0,
        "checks": 4,
        "checks_passed": 0,
        "checks_failed": 4,
    }
