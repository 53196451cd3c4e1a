"""Files and times that plugged-in commands are given: looked at before anything runs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main
from capturegate_backends.conform.ledger import Ledger
from capturegate_backends.conform.scenario_runs import ScenarioRuns
from capturegate_backends.truth.recordings import write_recording

ABOUT = {"device": "a device", "driver": "580.1", "cuda": "2"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """One file of each kind that the commands read, and no command that gets to its work."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("notes").write_text("my own")
    write_recording(Path("rec.jsonl.gz"), ABOUT, [])
    Ledger().save(Path("ledger.json"))
    ScenarioRuns(description=ABOUT, fake={}, device={}).save(Path("runs.json"))
    ScenarioRuns(description={"device": "a"}, fake={}, device={}).save(Path("bare.json"))
    for work in (
        "capturegate_backends.conform.compare.compare_with",
        "capturegate_backends.conform.fuzz.fuzz",
        "capturegate_backends.conform.record.record",
        "capturegate_mutations.session.Session.run",
    ):
        monkeypatch.setattr(work, lambda *_, **__: pytest.fail("it works"))


def refused(*arguments):
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    done = CliRunner().invoke(main, arguments)
    assert before == {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    assert (done.exit_code, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.parametrize("option", ["--record", "--json", "--page"])
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("rec.jsonl.gz", "would write over the recording rec.jsonl.gz"),
        ("./ledger.json", "would write over the ledger ledger.json"),
        ("runs.json", "would write over the file of --scenarios runs.json"),
        ("no/such/file", "cannot be written"),
        ("folder", "is not a regular file"),
        ("/dev/full", "is not a regular file"),
    ],
)
def test_conform_looks_at_each_file_that_it_will_write(files, option, target, said):
    inputs = ["--recording", "rec.jsonl.gz", "--ledger", "ledger.json", "--scenarios", "runs.json"]
    said = f"error: {option} {Path(target)} {said}\n"
    assert refused("conform", *inputs, option, target).startswith(said)


def test_conform_writes_no_shipped_recording_over_while_it_compares_with_it(files):
    from capturegate_backends.truth.recordings import shipped

    path = str(shipped()[0])
    assert f"would write over the recording {path}" in refused("conform", "--json", path)


@pytest.mark.parametrize(("first", "second"), [("--record", "--json"), ("--page", "--json")])
def test_two_outputs_of_conform_are_two_files(files, first, second):
    said = f"error: {second} new would write over the file of {first}\n"
    assert refused("conform", first, "new", second, "./new").startswith(said)


@pytest.mark.parametrize("more", [[], ["--page", "page.md"], ["--record", "new"]])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "gpu"], "error: unknown backend 'gpu'\n"),
        (["--ledger", "none.json"], "error: --ledger none.json is not there\n"),
        (["--ledger", "notes"], "error: notes: not a fuzzing ledger"),
        (["--ledger", "folder"], "error: folder: not a fuzzing ledger"),
        (["--scenarios", "none.json"], "error: none.json: not a file of scenario runs"),
        (["--scenarios", "notes"], "error: notes: not a file of scenario runs"),
        (["--scenarios", "bare.json"], "error: bare.json: the scenario runs lack driver, cuda\n"),
    ],
)
def test_conform_looks_at_what_it_reads_before_it_compares(files, more, arguments, said):
    assert refused("conform", *arguments, *more).startswith(said)


def test_a_recording_that_does_not_say_its_driver_is_refused(files):
    write_recording(Path("odd.jsonl.gz"), {"device": "a device"}, [])
    said = "error: a recording does not say which driver it is of\n"
    assert refused("conform", "--recording", "odd.jsonl.gz") == said


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no/such/ledger.json", "--ledger no/such/ledger.json cannot be written\n"),
        ("folder", "--ledger folder is not a regular file\n"),
        ("/dev/stdout", "--ledger /dev/stdout is not a regular file\n"),
        ("notes", "notes: not a fuzzing ledger"),
    ],
)
def test_fuzz_looks_at_its_ledger_before_it_runs(files, target, said):
    arguments = ["--backend", "fake", "--ledger", target]
    assert refused("fuzz", *arguments).startswith(f"error: {said}")


@pytest.mark.parametrize(
    "command", [("fuzz", "--backend", "fake", "--seconds"), ("mutate", "--time-limit")]
)
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_what_is_no_time_is_refused(files, command, value):
    said = f"error: Invalid value for '{command[-1]}': {value} is not a number of seconds\n"
    assert refused(*command, value).startswith(said)


PLAN = "mutation: m\n"


@pytest.mark.parametrize("option", ["--json", "--markdown", "--results"])
@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("a.mutation.yaml", "would write over the plan a.mutation.yaml"),
        ("b.scenario.yaml", "would write over the scenario b.scenario.yaml"),
        ("no/such/file", "cannot be written"),
    ],
)
def test_mutate_writes_over_no_file_of_a_folder_that_it_reads(files, option, target, said):
    Path("a.mutation.yaml").write_text(PLAN)
    Path("b.scenario.yaml").write_text("scenario: b\n")
    said = f"error: {option} {target} {said}\n"
    assert refused("mutate", ".", "--scenarios", ".", option, target).startswith(said)


def test_mutate_keeps_the_rows_that_it_resumes_from(files):
    said = "error: --json notes would write over the file of --resume notes\n"
    assert refused("mutate", "--resume", "notes", "--json", "notes").startswith(said)


def test_mutate_may_add_to_the_rows_that_it_resumes_from(files, monkeypatch):
    from capturegate_mutations.report.summary import Sheet

    sheet = Sheet(cases=0, workers=1)
    monkeypatch.setattr("capturegate_mutations.session.Session.run", lambda _: sheet)
    arguments = ["mutate", "--resume", "notes", "--results", "./notes", "--json", "-"]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, json.loads(done.stdout)["mutations"]) == (sheet.exit_code, [])
