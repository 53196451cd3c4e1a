"""The fake against the recordings, the fuzzer, its ledger, and the two commands."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main
from capturegate.errors import InputError
from capturegate.programs import Observation, Runner, Seen
from capturegate.run.orphans import children_of
from capturegate.run.plan import expand, load
from capturegate_backends.conform import compare, fuzz
from capturegate_backends.conform.commands import conform
from capturegate_backends.conform.commands import fuzz as fuzz_command
from capturegate_backends.conform.compare import compare_with
from capturegate_backends.conform.count import triples
from capturegate_backends.conform.fuzz import Difference, Result
from capturegate_backends.conform.ledger import Ledger, load_ledger
from capturegate_backends.conform.page import page
from capturegate_backends.conform.pool import run_workers
from capturegate_backends.conform.scenario_runs import load_run
from capturegate_backends.fake import rules
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.truth.recordings import (
    RecordedCase,
    Recording,
    read_recording,
    shipped,
    write_recording,
)
from waiting import wait_for, wait_until_gone

EVERY = 8
POISONED = [["begin", 0, "n1", "global"], ["malloc", 0, "m1", 64]]
ABOUT = {"device": "a device", "driver": "580.1", "cuda": "2"}


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {path.name: read_recording(path) for path in shipped()}


def _case(program: list[list[object]]) -> RecordedCase:
    seen = Runner(FakeDevice()).run(program)
    return RecordedCase(name="one", program=program, observation=seen)


def _lie(case: RecordedCase) -> RecordedCase:
    first = dataclasses.replace(case.observation.calls[0], error="cudaErrorUnknown")
    calls = (first, *case.observation.calls[1:])
    return dataclasses.replace(case, observation=dataclasses.replace(case.observation, calls=calls))


def test_the_fake_answers_recorded_programs_as_the_device_did(
    recordings: dict[str, Recording],
) -> None:
    wide = recordings["programs-h200.jsonl.gz"].cases
    found = recordings["differences-h200.jsonl.gz"].cases
    assert len(wide) >= 15120
    result = compare_with("fake", [*wide[::EVERY], *found])
    print(f"{result.cases} recorded programs compared, of {len(wide) + len(found)}")
    assert result.kinds == Counter()
    assert result.cases >= 2000


def test_a_rule_that_is_wrong_is_caught_by_the_recordings(
    recordings: dict[str, Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    book = rules.rule_book("580")
    flipped = tuple(
        dataclasses.replace(rule, effect=rules.Effect.NOTHING)
        if rule.when is rules.When.ANY_CAPTURE
        else rule
        for rule in book.rules
    )
    monkeypatch.setitem(rules._BOOKS, "580", dataclasses.replace(book, rules=flipped))
    wide = recordings["programs-h200.jsonl.gz"].cases
    devices = [case for case in wide if case.name.endswith("thread-0/device-sync")]
    result = compare_with("fake", devices)
    assert (result.cases, len(result.mismatches)) == (27, 27)
    assert result.mismatches[0].kind.startswith("device_sync captures:")


def test_a_recording_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl.gz"
    write_recording(path, ABOUT, [_case(POISONED)])
    first = path.read_bytes()
    read = read_recording(path)
    assert read.description == ABOUT
    assert read.cases == (_case(POISONED),)
    write_recording(path, read.description, read.cases)
    assert path.read_bytes() == first


@pytest.mark.parametrize("content", [b"", b"no gzip", b"\x1f\x8b\x08\x00"])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a recording of call programs"):
        read_recording(path)


def _damaged(damage: str) -> bytes:
    """A recording that was written well, and what can become of its bytes."""
    head = json.dumps({"format": "capturegate call programs 1", **ABOUT})
    whole = gzip.compress(f"{head}\n{_case(POISONED).line()}\n".encode(), mtime=0)
    return {
        "cut off": whole[:-20],
        "body": whole[:20] + b"\xff" * 8 + whole[28:],
        "checksum": whole[:-8] + bytes(4) + whole[-4:],
        "a list": gzip.compress(b"[]\n"),
        "a text": gzip.compress(b'"recording"\n'),
        "a call": gzip.compress(f'{head}\n{{"name": "n", "program": [], "calls": [7]}}\n'.encode()),
    }[damage]


@pytest.mark.parametrize("damage", ["cut off", "body", "checksum", "a list", "a text", "a call"])
def test_a_damaged_recording_is_wrong_input_that_names_the_file(
    tmp_path: Path, damage: str
) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(_damaged(damage))
    ran = CliRunner().invoke(main, ["conform", "--recording", str(path)])
    assert (ran.exit_code, ran.stdout) == (2, ""), ran.output
    assert ran.stderr.startswith(f"error: {path}: not a recording of call programs")
    assert "\n  help: `capturegate conform --record FILE` writes one" in ran.stderr


def test_triples_say_call_error_and_the_change_of_the_captures() -> None:
    case = _case([*POISONED, ["end", 0, "n1", "g1"]])
    assert list(triples(case.program, case.observation)) == [
        "begin cudaSuccess >A",
        "malloc cudaErrorStreamCaptureUnsupported A>I",
        "end cudaErrorStreamCaptureInvalidated I>",
    ]


def test_conform_says_how_many_programs_agree_and_exits_by_it(tmp_path: Path) -> None:
    good, bad, empty = (tmp_path / f"{name}.jsonl.gz" for name in ("good", "bad", "empty"))
    write_recording(good, ABOUT, [_case(POISONED)])
    write_recording(bad, ABOUT, [_case(POISONED), _lie(_case(POISONED))])
    write_recording(empty, ABOUT, [])
    answers = {}
    for path in (good, bad, empty):
        ran = CliRunner().invoke(conform, ["--recording", str(path)], standalone_mode=False)
        answers[path.stem.split(".")[0]] = (ran.return_value, ran.output.splitlines()[-1])
    assert answers == {
        "good": (0, "programs: 1 | 1 as recorded | 0 differ"),
        "bad": (1, "programs: 2 | 1 as recorded | 1 differ"),
        "empty": (5, "programs: 0 | 0 as recorded | 0 differ"),
    }


def test_an_unknown_backend_is_the_users_mistake() -> None:
    with pytest.raises(InputError, match="unknown backend 'gpu'"):
        compare_with("gpu", [])
    ran = CliRunner().invoke(fuzz_command, ["--backend", "gpu", "--seconds", "1"])
    assert isinstance(ran.exception, InputError)


class _Lying:
    """A runner whose device answers one call wrongly."""

    def __init__(self, device: FakeDevice) -> None:
        self._runner = Runner(device)
        self._device = device

    def run(self, program: list[list[object]]) -> Observation:
        seen = self._runner.run(program)
        calls = tuple(
            Seen("cudaErrorUnknown", one.value, one.last, one.captures)
            if call[0] == "begin" and one.error == "cudaSuccess"
            else one
            for call, one in zip(program, seen.calls, strict=True)
        )
        return dataclasses.replace(seen, calls=calls)


def test_a_difference_is_found_and_shrunk_to_its_smallest_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = fuzz._Pair("fake")
    pair._reference = _Lying(FakeDevice())  # type: ignore[assignment]
    program = [["set_device", 0], *POISONED, ["set_device", 0]]
    kind = pair.compare(program)[0]
    assert kind == 'begin error: ["cudaErrorUnknown", "cudaSuccess"]'
    found = fuzz._smallest(pair, program, kind, 3)
    assert (found["seed"], found["program"]) == (3, [["begin", 0, "n1", "global"]])


def test_fuzzing_two_fakes_finds_nothing_and_counts_what_it_tried() -> None:
    result = fuzz.fuzz("fake", 0.1, 50, 1)
    assert result.kinds == Counter()
    assert result.totals["programs"] > 0
    assert result.next_seed == 50 + result.totals["programs"]


def _kill(first: int, stride: int, cell: object, path: str, extra: object) -> None:
    import os

    with Path(path).open("a") as out:
        for job in range(first, 6, stride):
            cell.value = job  # type: ignore[attr-defined]
            out.write(f"{job}\n")
            out.flush()
            if job == 2:
                os._exit(7)


def test_a_job_that_kills_its_process_is_named_and_the_others_are_done(tmp_path: Path) -> None:
    path = tmp_path / "out"
    lost = run_workers(_kill, 1, [str(path)], None)
    assert [(one.job, one.exit_code) for one in lost] == [(2, 7)]
    assert path.read_text().split() == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
@pytest.mark.parametrize(
    "arguments",
    [["fuzz", "--seconds", "100000"], ["conform", "--record", "recorded.jsonl.gz"]],
    ids=["fuzz", "record"],
)
def test_a_killed_command_leaves_neither_processes_nor_files(
    tmp_path: Path, arguments: list[str]
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-P", "-m", "capturegate", *arguments, "--backend", "fake"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
    )
    wait_for(lambda: len(list(tmp_path.glob("*/*.jsonl"))) == 2)
    children = children_of(parent.pid)
    parent.kill()
    parent.wait()
    try:
        for child in children:
            wait_until_gone(child.pid)
        wait_for(lambda: not list(tmp_path.iterdir()))
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
    assert len(children) >= 2


def test_what_cannot_be_written_in_the_end_is_told_beside_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    recording = tmp_path / "one.jsonl.gz"
    write_recording(recording, ABOUT, [_case(POISONED)])
    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Ledger, "save", full)
    monkeypatch.setattr(fuzz, "fuzz", lambda *_: _result(7, 0))
    said = {}
    for option in ("--json", "--page"):
        arguments = ["conform", "--recording", str(recording), option, str(tmp_path / "out")]
        said[option] = CliRunner().invoke(main, arguments)
    arguments = ["fuzz", "--backend", "fake", "--ledger", str(tmp_path / "out")]
    said["--ledger"] = CliRunner().invoke(main, arguments)
    assert {option: (ran.exit_code, ran.stderr) for option, ran in said.items()} == {
        option: (3, f"error: {option} {tmp_path / 'out'}: No space left on device\n")
        for option in ("--json", "--page", "--ledger")
    }
    assert all(ran.stdout.startswith("programs: ") for ran in said.values())


def test_json_of_conform_says_which_programs_differ(tmp_path: Path) -> None:
    path, out = tmp_path / "bad.jsonl.gz", tmp_path / "out.json"
    write_recording(path, ABOUT, [_case(POISONED), _lie(_case(POISONED))])
    ran = CliRunner().invoke(main, ["conform", "--recording", str(path), "--json", str(out)])
    told = json.loads(out.read_text())
    assert (ran.exit_code, told["programs"], len(told["differences"])) == (1, 2, 1)
    alone = CliRunner().invoke(main, ["conform", "--recording", str(path), "--json", "-"])
    assert json.loads(alone.stdout) == told


def _result(programs: int, differences: int) -> Result:
    return Result(
        description=ABOUT,
        totals=Counter({"programs": programs, "differences": differences}),
        differences=[Difference(kind="k", seed=1, program=[], expected={}, actual={})],
        next_seed=programs,
    )


def test_the_ledger_adds_up_and_goes_on_after_the_last_seed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = load_ledger(path)
    ledger.add(_result(100, 1), seed=0, seconds=1, processes=2)
    ledger.add(_result(200, 0), seed=100, seconds=1, processes=2)
    ledger.save(path)
    again = load_ledger(path)
    assert again.totals["programs"] == 300
    assert (again.next_seed, again.clean_programs, len(again.differences)) == (200, 200, 2)


def test_a_ledger_is_about_one_device(tmp_path: Path) -> None:
    ledger = Ledger(description={"device": "another"})
    with pytest.raises(InputError, match="the ledger is about"):
        ledger.add(_result(1, 0), seed=0, seconds=1, processes=1)
    path = tmp_path / "bad.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="not a fuzzing ledger"):
        load_ledger(path)


def test_the_page_shows_recordings_runs_rare_triples_and_fixes() -> None:
    case = _case(POISONED)
    recording = Recording(description=ABOUT, cases=(case,))
    ledger = Ledger(fixes={"k": "It was wrong; now it is right."})
    ledger.add(_result(100, 1), seed=0, seconds=1, processes=2)
    comparison = compare.compare_with("fake", [case])
    text = page({"one": recording}, comparison, ledger)
    assert "| one | a device | 580.1 | 2 | 1 | 2 |" in text
    assert "The fake answers 1 of 1 recorded programs as the device did." in text
    assert "| `begin cudaSuccess >A` | 0 |" in text
    assert "It was wrong; now it is right." in text


def test_the_shipped_page_is_what_the_tool_writes(recordings: dict[str, Recording]) -> None:
    root = Path(__file__).parent.parent
    ledger = load_ledger(root / "backends/capturegate_backends/truth/fuzz-h200.json")
    comparison = compare.Comparison(cases=sum(len(r.cases) for r in recordings.values()))
    runs = load_run(root / "backends/capturegate_backends/truth/scenarios-h200.json")
    written = (root / "docs/conformance.md").read_text("utf-8")
    cases = [case.name for case in expand(load([]), "fake")]
    assert written == page(recordings, comparison, ledger, [runs], cases)


def test_a_driver_that_nobody_recorded_is_unknown_and_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "new.jsonl.gz"
    write_recording(path, {**ABOUT, "driver": "999.1"}, [_case(POISONED)])
    ran = CliRunner().invoke(main, ["conform", "--recording", str(path)])
    assert ran.exit_code == 2
    assert "no recorded rules for driver '999'" in ran.output
    assert "as recorded" not in ran.output
