"""Reports from literal rows: terminal, JSON, Markdown, learned sets, and rows kept in a file."""

from __future__ import annotations

import io
import json

import pytest

import capturegate
import report_samples as samples
from capturegate.errors import InputError
from capturegate.run.plan import expand, load
from capturegate.run.store import RESULTS
from capturegate_mutations.evidence import Figures, Row, row_from_json
from capturegate_mutations.report.json import as_json
from capturegate_mutations.report.learned import as_yaml
from capturegate_mutations.report.markdown import as_markdown
from capturegate_mutations.report.summary import Sheet, closing_line, folded
from capturegate_mutations.report.terminal import print_sheet
from capturegate_mutations.store import ROWS, fingerprint
from capturegate_mutations.verdict import Proof
from mutation_toys import write_toy

CASE = "toy[plain/default]"

PROVED = Row(
    mutation="halved",
    about="Half of it.",
    path="plans/halved.mutation.yaml",
    proof=Proof.PROVED,
    hunk="--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = [red]2[/]\n+x = 1",
    expected={CASE: {"w": "broken"}},
    observed={CASE: {"w": "broken"}},
    figures=[
        Figures(
            case=CASE,
            gate="w",
            baseline={"inside": 0, "step": 9, "windows": 1},
            mutant={"inside": 9, "step": 9, "windows": 1, "class": 4},
        )
    ],
    cases_run=1,
    cases=3,
    checks_baseline=(5, 5),
    checks_mutant=(4, 5),
    duration_s=0.5,
    rerun="capturegate mutate -k halved",
    fingerprint="f1",
)

EXTRA = Row(
    mutation="gone",
    about="All of it.",
    path="plans/gone.mutation.yaml",
    proof=Proof.EXTRA_RED,
    hunk="scenario toy: remove_step: drain",
    expected={CASE: {"w": "broken"}},
    observed={CASE: {"w": "broken", "h": "broken"}},
    extra=[f"{CASE} h: broken"],
    cases_run=3,
    cases=3,
    checks_baseline=(5, 5),
    checks_mutant=(3, 5),
    duration_s=0.25,
    rerun="capturegate mutate -k gone",
)

SHEET = Sheet(
    rows=[PROVED, EXTRA],
    cases=3,
    cases_run=4,
    mutants=2,
    workers=2,
    duration_s=3.0,
    mutants_s=0.5,
    controls="controls: seen",
)

CLOSING = (
    "mutations: 2 | 1 proved | 1 extra-red · 2 mutants x 3 cases in 0.5 s, 4 of 6 had to run · "
    "4.0 mutants/s · whole sheet 3.0 s, 2 workers"
)

TERMINAL = f"""\
✓ halved: proved
  Half of it.
  │ @@ -1 +1 @@
  │ -x = [red]2[/]
  │ +x = 1
  expected  exactly what was observed
  observed  {CASE}  w: broken
  figures   {CASE} w: inside / step 9 / 9 (was 0 / 9), class 4
  checks    baseline 5 of 5 green, mutant 4 of 5
  cases     1 of 3 ran, the flip reaches no other
  again     capturegate mutate -k halved

✗ gone: extra-red
  All of it.
  │ scenario toy: remove_step: drain
  expected  {CASE}  w: broken
  observed  {CASE}  w: broken, h: broken
  extra     {CASE} h: broken
  checks    baseline 5 of 5 green, mutant 3 of 5
  cases     3 of 3 ran
  again     capturegate mutate -k gone

controls: seen
halved  proved        1 changed, 1 expected       0.50 s
gone    extra-red     2 changed, 1 expected       0.25 s
{CLOSING}
"""


def test_the_terminal_report_of_a_proof_and_a_failure():
    stream = io.StringIO()

    print_sheet(SHEET, stream, width=100)

    assert TERMINAL == stream.getvalue()


def test_control_characters_of_a_plan_never_reach_the_terminal():
    stream = io.StringIO()
    row = Row(mutation="m", about="a\x1b[31mb", path="p", proof=Proof.INVALID, reason="r\x07")

    print_sheet(Sheet(rows=[row]), stream, width=100)

    assert "a\N{REPLACEMENT CHARACTER}[31mb" in stream.getvalue()
    assert "\x07" not in stream.getvalue()


def test_a_quiet_report_keeps_what_is_not_proved():
    out = io.StringIO()
    print_sheet(Sheet(rows=[PROVED, EXTRA], cases=3), out, width=100, quiet=True)
    text = out.getvalue()
    assert ("halved: proved" in text, f"{EXTRA.mutation}: extra-red" in text) == (False, True)
    assert text.splitlines()[-1].startswith("mutations: 2 | 1 proved | 1 extra-red")


def test_a_sheet_is_green_only_with_rows_that_are_all_proved():
    assert 0 == Sheet(rows=[PROVED]).exit_code
    assert 1 == Sheet(rows=[PROVED, EXTRA]).exit_code
    assert 1 == Sheet(rows=[]).exit_code


@pytest.mark.parametrize("proof", [proof for proof in Proof if proof is not Proof.PROVED])
def test_no_other_verdict_is_green(proof):
    row = Row(mutation="m", about="a", path="p", proof=proof)

    assert 1 == Sheet(rows=[PROVED, row]).exit_code


def test_the_closing_line_counts_verdicts_and_mutants_a_second():
    assert CLOSING == closing_line(SHEET)


def test_the_json_report_has_its_keys_and_the_exit_code():
    document = json.loads(as_json(SHEET))

    assert {"schema", "tool", "mutations", "totals", "controls", "scope", "exit_code"} == set(
        document
    )
    assert (1, 1, 2, 1) == (
        document["schema"],
        document["exit_code"],
        document["totals"]["mutations"],
        document["totals"]["proved"],
    )
    assert PROVED == row_from_json(document["mutations"][0])


def test_the_markdown_report_shows_the_hunk_the_figures_and_the_difference():
    text = as_markdown(SHEET)

    assert (
        "| `halved` | proved | 5 / 5 | 4 / 5 | inside / step 9 / 9 (was 0 / 9), class 4 |" in text
    )
    assert "```diff\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-x = [red]2[/]\n+x = 1\n```" in text
    assert "- extra: toy\\[plain/default\\] h: broken" in text
    assert "\nCases: 1 of 3 ran, the flip reaches no other.\n" in text
    assert "\nCases: 3 of 3 ran.\n" in text
    assert text.endswith(CLOSING.replace("|", "\\|") + "\n")


def test_nothing_that_a_plan_says_marks_up_the_markdown_report():
    row = Row(
        mutation="m",
        about="# a <b>*b*</b>\n| [c](d) `e`",
        path="p",
        proof=Proof.INVALID,
        reason="~~~\n````\n# f\x1b",
        hunk="-```\n+<script>",
        extra=["<i> *x*"],
        rerun="capturegate mutate 'a``b|c'",
    )

    text = as_markdown(Sheet(rows=[row], controls="*seen*"))

    assert "\n\\# a \\<b\\>\\*b\\*\\</b\\> \\| \\[c\\](d) \\`e\\`\n" in text
    assert "\n`````text\n~~~\n````\n# f\\x1b\n`````\n" in text
    assert "\n````diff\n-```\n+<script>\n````\n" in text
    assert "\n- extra: \\<i\\> \\*x\\*\n" in text
    assert "Run again: ``` capturegate mutate 'a``b|c' ```" in text
    assert "\n\\*seen\\*\n" in text


@pytest.mark.parametrize("about", ["- a", "+ a", "1. a", "1) a", "= a"])
def test_a_line_that_would_begin_a_list_does_not(about):
    row = Row(mutation="m", about=about, path="p", proof=Proof.INVALID)

    assert f"\n{about}\n" not in as_markdown(Sheet(rows=[row]))


def test_a_learned_set_reads_as_the_expect_of_a_plan():
    row = Row(mutation="m", about="a", path="p.yaml", proof=Proof.EXTRA_RED)
    row.observed = {
        "a-x[l/r]": {"w": "broken"},
        "a-y[l/r]": {"w": "broken"},
        "a-x[l/s]": {"s.b": "failed"},
    }

    assert (
        "# measured: m. Review every line before it goes into p.yaml\n"
        "expect:\n"
        "  a-{x,y}[l/r]:\n"
        "    w: broken\n"
        "  a-x[l/s]:\n"
        "    s.b: failed\n"
    ) == as_yaml(row)


def test_case_names_are_folded_by_arm_and_by_the_end_of_the_scenario():
    names = ["a-x[l/r]", "a-x[l/s]", "a-y[l/r]", "a-y[l/s]", "b[l/r]", "a[m/r]", "a-x[m/r]"]

    assert ["a-{x,y}[l/{r,s}]", "b[l/r]", "a[m/r]", "a-x[m/r]"] == folded(names)


def test_rows_survive_a_torn_line_and_are_found_by_their_fingerprint(tmp_path):
    file = tmp_path / "rows.jsonl"
    with ROWS.writer(file) as writer:
        writer.append("f1", PROVED)
    with file.open("a") as stream:
        stream.write('{"schema": 1, "fingerprint": "cut sho')
    with ROWS.writer(file) as writer:
        writer.append("f2", EXTRA)

    assert {"f1": PROVED, "f2": EXTRA} == ROWS.read(file)


def test_results_of_a_run_are_no_rows(tmp_path):
    file = tmp_path / "results.jsonl"
    with RESULTS.writer(file) as writer:
        writer.append("f", samples.green())

    with pytest.raises(InputError, match="the line is no row: KeyError"):
        ROWS.read(file)


def test_a_fingerprint_changes_with_everything_that_a_row_rests_on(tmp_path, monkeypatch):
    write_toy(tmp_path, {})
    cases = expand(load([tmp_path / "toy.scenario.yaml"]), "fake")
    plan = tmp_path / "p"
    plan.write_text("1")
    marks = [
        fingerprint(str(plan), "tree", cases, 0),
        fingerprint(str(plan), "other", cases, 0),
        fingerprint(str(plan), "tree", cases[:1], 0),
        fingerprint(str(plan), "tree", cases, 1),
        fingerprint(str(plan), "tree", (), 0),
        fingerprint(str(plan), "tree", (), 1),
    ]
    plan.write_text("2")
    marks.append(fingerprint(str(plan), "tree", cases, 0))
    monkeypatch.setattr(capturegate, "__version__", "another")
    marks.append(fingerprint(str(plan), "tree", cases, 0))

    assert 8 == len(set(marks))
