import io
import textwrap

import pytest
from rich.console import Console

import report_samples as samples
from capturegate.report.terminal import print_run
from capturegate.report.text import Printer, clean, shortened, terminal
from capturegate.run.result import CheckOutcome, Verdict


def printed(report, *, width=100, encoding="utf-8", quiet=False):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(file=file, width=width, color_system=None, highlight=False, markup=False)
    print_run(report, Printer(console), quiet=quiet)
    file.flush()
    text = file.buffer.getvalue().decode(encoding)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def golden(text):
    return textwrap.dedent(text).removeprefix("\n")


def test_a_green_run_reads_like_this():
    cases = [
        samples.green(arm="refusing"),
        samples.green(),
        samples.skipped(arm="refusing"),
        samples.skipped(),
    ]
    expected = golden("""
        backend fake, seed 0  lane/arm, gates, checks passed, time

        decode
          ✓ pooled/refusing  ✓ T001 0/24  ✓ T002 1/40                                           3/3   0.12 s
          ✓ pooled/census    ✓ T001 0/24  ✓ T002 1/40                                           3/3   0.12 s
          – bypass/refusing  skipped: pool.bypassed
          – bypass/census    skipped: pool.bypassed

        ✓ as expected  ✗ not as expected  – skipped
        T001 no-allocation (inside/step)
        T002 capture-completes (windows/nodes)

        – skipped  2 cases
          pool.bypassed: there is no pool. Judged in lane pooled.

        cases: 4 | 2 passed | 0 failed | 2 skipped · checks: 6 | 6 passed | 0 failed
    """)  # noqa: E501, RUF001
    assert expected == printed(samples.report(cases))


def test_a_red_run_reads_like_this():
    expected = golden("""
        backend fake, seed 0  lane/arm, gates, checks passed, time

        decode
          ✗ pooled/census  ✗ T001 broken 1/24  ✗ T002 unknown                                   0/4   0.12 s
                           at toy/pool.py:88 in Pool.get: class 1024, free 0, needed 1000

        ✓ as expected  ✗ not as expected  – skipped
        T001 no-allocation (inside/step)
        T002 capture-completes

        ✗ decode[pooled/census]@fake

          no-allocation (T001): broken
          gate      Nothing is allocated in the window.
          what      1 allocation inside the window, 1 of them refused
          at        toy/pool.py:88 in Pool.get
          from      toy/engine.py:31 in Engine.step
          from      lib/drive.py:9 in drive
          event     cudaMalloc of 1024 bytes, step 3:capture, returned cudaErrorStreamCaptureUnsupported
                    pool.get, size_class 1024, free 0, needed_bytes 1000, step 3:capture
          figures   inside 1, step 24, class 1024, free 0, needed 1000
          expected  held
          observed  broken
          do        Grow the pool before the window.

          the engine raised in step capture
          what      PoolError: no block
          at        toy/pool.py:88 in Pool.get
          from      lib/drive.py:9 in drive

          check cold.captures: failed
          at        toy.scenario.yaml:12:7
          expected  0
          observed  2

          blocked   capture-completes (T002), by no-allocation
          blocked   capture.captures, by no-allocation
          again     capturegate run -k 'decode[pooled/census]@fake'

        cases: 1 | 0 passed | 1 failed | 0 skipped · checks: 4 | 0 passed | 4 failed
    """)  # noqa: E501, RUF001
    assert expected == printed(samples.report([samples.red()]))


@pytest.mark.parametrize(
    ("gate", "verdict", "expected", "action"),
    [
        ("no-allocation", "broken", "held", "Grow the pool before the window."),
        ("no-allocation", "vacuous", "held", "Drain the pool before."),
        (
            "capture-completes",
            "vacuous",
            "held",
            (
                "Let a step do what the gate judges, or leave the gate out: one that had nothing "
                "to judge proves nothing."
            ),
        ),
        (
            "no-allocation",
            "unknown",
            "held",
            "Make what the reason says possible: a gate that could not judge is never green.",
        ),
        (
            "no-allocation",
            "held",
            "broken",
            (
                "Bring back the mistake that this arm expects, or change what it expects: nothing "
                "broke here."
            ),
        ),
    ],
)
def test_what_to_do_depends_on_the_verdict(gate, verdict, expected, action):
    wrong = samples.gate(gate, Verdict(verdict), expected=Verdict(expected), named=True)
    lines = printed(samples.report([samples.result(gates=[wrong])]), width=200).splitlines()
    (said,) = [line for line in lines if line.startswith("  do        ")]
    assert said == f"  do        {action}"


@pytest.mark.parametrize(("expected", "hints"), [("broken", 1), ("held", 0)])
def test_what_a_break_on_purpose_blocks_has_to_be_expected_as_well(expected, hints):
    lost = samples.gate("capture-completes", Verdict.BROKEN, expected=Verdict(expected), named=True)
    blocked = samples.gate("no-allocation", Verdict.UNKNOWN, blocked_by="capture-completes")
    text = printed(samples.report([samples.result(gates=[lost, blocked])]), width=200)
    said = (
        "  blocked   no-allocation (T001), by capture-completes\n"
        "  do        expect 'no-allocation: unknown' in this arm as well: "
        "capture-completes broke, as expected, and this comes of it\n"
    )
    assert text.count(said) == hints


def test_quiet_leaves_only_what_broke_and_the_counts():
    text = printed(samples.report([samples.green(), samples.red(case="other")]), quiet=True)
    assert text.startswith("\n✗ other[pooled/census]@fake\n")
    assert "pooled/refusing" not in text
    last = "cases: 2 | 1 passed | 1 failed | 0 skipped · checks: 7 | 3 passed | 4 failed"
    assert last == text.splitlines()[-1]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_those_to_copy(width):
    names = ["no-allocation", "capture-completes", "third-gate", "fourth-gate", "fifth-gate"]
    case = samples.result(
        case="decode-nonspec-dense",
        arm="refusing",
        gates=[samples.gate(name, figures={"a": 10, "b": 200}) for name in names],
    )
    deep = samples.red(case="deep")
    folders = "/".join(["a-folder-with-a-long-name"] * 6)
    deep.gates[0].witness.stack[1].path = f"{folders}/pool.py"
    deep.failure.stack[1].path = f"{folders}/pool.py"
    deep.checks[0].where = f"{folders}/toy.scenario.yaml:12:7"
    broken = samples.result(case="lost", harness_error=f"no answer\n{'x' * 300}")
    rows = printed(samples.report([case, deep, broken]), width=width).splitlines()
    wide = [row for row in rows if len(row) > width and not row.startswith(("  again", "cases: "))]
    assert wide == []
    assert len(rows) > 20
    assert any(row.startswith("  at        …/") and "pool.py:88 in " in row for row in rows)
    assert any(row.startswith("  at        …/") and "scenario.yaml:12:7" in row for row in rows)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (40, "a/bb/ccc/file.py:12"),
        (18, "…/ccc/file.py:12"),
        (12, "…/file.py:12"),
        (5, "file.py:12"),
    ],
)
def test_a_path_loses_its_first_folders_and_never_its_file_and_line(width, expected):
    assert expected == shortened("a/bb/ccc/file.py:12", width, "…")


def test_a_width_of_nothing_is_eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert terminal().width == 80


def test_a_mistake_that_a_case_found_is_told_and_was_not_judged():
    case = samples.result(input_error="f.yaml:1:2: bad\n  help: do")
    text = printed(samples.report([case]))
    assert "not judged: input" in text
    assert "  input     f.yaml:1:2: bad\n              help: do\n" in text
    assert samples.report([case]).exit_code == 2


def test_a_warning_is_told_and_changes_nothing():
    case = samples.green()
    case.warnings.append("left running, and killed: sleep 9")
    text = printed(samples.report([case]), quiet=True)
    assert "warning  decode[pooled/census]@fake\n  left running, and killed: sleep 9\n" in text
    assert samples.report([case]).exit_code == 0


def test_a_red_arm_that_breaks_as_expected_is_green_and_says_the_verdict():
    case = samples.result(
        gates=[samples.gate("no-allocation", Verdict.BROKEN, expected=Verdict.BROKEN)]
    )
    text = printed(samples.report([case]))
    assert "  ✓ pooled/census  ✓ T001 broken" in text
    assert "cases: 1 | 1 passed" in text


def test_a_missed_witness_is_told():
    case = samples.red()
    case.gates[0].expected = Verdict.BROKEN
    case.gates[0].witness_expected = "Pool.put"
    text = printed(samples.report([case]))
    assert "  expected  broken, with Pool.put in the stack of the witness\n" in text


def test_a_gate_that_nobody_named_shows_itself_when_it_breaks():
    hidden = samples.gate("quiet-gate", Verdict.HELD, named=False)
    assert "quiet-gate" not in printed(
        samples.report([samples.result(gates=[samples.gate("no-allocation"), hidden])])
    )
    loud = samples.gate("quiet-gate", Verdict.BROKEN, named=False, reason="loud")
    text = printed(samples.report([samples.result(gates=[samples.gate("no-allocation"), loud])]))
    assert "✗ quiet-gate broken" in text
    assert "  what      loud\n" in text


def test_what_the_harness_could_not_judge_is_told_line_by_line():
    case = samples.result(harness_error="the process died by SIGSEGV\nlast words")
    text = printed(samples.report([case]))
    assert "not judged: harness" in text
    assert "  harness   the process died by SIGSEGV\n            last words\n" in text


def test_a_case_in_which_nothing_was_judged_says_so():
    check = samples.check("a.b", CheckOutcome.UNKNOWN, blocked_by="capture-completes")
    text = printed(samples.report([samples.result(checks=[check])]))
    assert "nothing: no gate and no check of this case said anything" in text


def test_a_guarantee_that_nobody_judged_is_named():
    text = printed(samples.report([samples.skipped(judged_in="elsewhere")]))
    assert "✗ never judged  decode[bypass/census]@fake" in text
    assert "cases: 1 | 0 passed | 1 failed | 0 skipped" in text


def test_a_run_of_nothing_but_skips_says_that_nothing_was_judged():
    text = printed(samples.report([samples.skipped()], unfiltered=False))
    assert "nothing was judged: every selected case is skipped" in text


def test_an_interrupted_run_says_what_is_missing():
    assert "interrupted: 3 cases were not run" in printed(
        samples.report([samples.green()], missing=3)
    )


def test_markup_and_control_characters_are_shown_and_do_nothing():
    case = samples.result(
        case="[bold]x\x1b[2J",
        gates=[samples.gate("no-allocation", Verdict.BROKEN, reason="a\rb\u202e[red]c[/red]")],
    )
    text = printed(samples.report([case]))
    assert "what      a\\rb\\u202e[red]c[/red]\n" in text
    assert "✗ [bold]x\\x1b[2J[pooled/census]@fake\n" in text
    assert "\x1b" not in text


def test_an_ascii_terminal_gets_ascii_marks():
    text = printed(samples.report([samples.red()]), encoding="ascii")
    assert "  x pooled/census  x T001 broken 1/24" in text


def test_the_line_to_copy_is_quoted_and_has_what_the_run_had():
    report = samples.report(
        [samples.red()], arguments=["my dir/a.yaml"], seed=7, backend="cupy", unfiltered=False
    )
    expected = (
        "capturegate run 'my dir/a.yaml' -k 'decode[pooled/census]@fake' --backend cupy --seed 7"
    )
    assert expected == report.rerun("decode[pooled/census]@fake")


def test_clean_leaves_ordinary_text_alone():
    assert clean("größe [x] ✓") == "größe [x] ✓"
