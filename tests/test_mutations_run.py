"""Whole runs on a toy engine: every way in which a mutation can fail to be a proof."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main
from capturegate_mutations.session import Request, Session
from mutation_toys import CORE, OFF, PLAIN, SCENARIO, expecting, replacing, write_toy

FAILED = expecting(PLAIN, work__total="failed")
BROKEN = expecting(PLAIN, capture_completes="broken")
ADD = "self.base + amount"

PLANS = {
    "proved": replacing(ADD, "self.base - amount", FAILED),
    "gate": replacing(
        "memset_async(self.buffer, 7, 64, self.stream)",
        "graph_create()",
        BROKEN,
        "toy_core:Core.capture",
    ),
    "default-argument": replacing("LIMIT = 100", "LIMIT = 4", FAILED, "toy_core"),
    "survived": replacing("(self.base", "(0 + self.base", FAILED),
    "wrong-verdict": replacing(ADD, "0", expecting(PLAIN, work__total="unknown")),
    "another-gate": replacing(ADD, "0", BROKEN),
    "too-much-expected": replacing(ADD, "0", FAILED + "    capture-completes: broken\n"),
    "too-little-expected": replacing(
        "self.warm(amount)",
        "self.backend.stream_begin_capture(self.stream, CaptureMode.RELAXED); self.base = 0",
        FAILED,
    ),
    "dies-of-a-mistake": replacing(
        "graph = self.backend.stream_end_capture(self.stream)",
        "",
        BROKEN,
        "toy_core:Core.capture",
    ),
    "dies-as-it-says": replacing(
        "graph = self.backend.stream_end_capture(self.stream)",
        "",
        expecting(PLAIN, capture_completes="broken", failure="NameError"),
        "toy_core:Core.capture",
    ),
    "carries-the-proof": replacing("json", "json_", FAILED, "capturegate.run.child:main"),
    "fails-to-import": replacing("import os", "import no_such_module_anywhere", FAILED, "toy_core"),
    "exits-on-import": replacing("import os", "import sys; sys.exit(0)", FAILED, "toy_core"),
    "sys-exit": replacing("self.warm(amount)", "raise SystemExit(0)", FAILED),
    "os-exit": replacing("self.warm(amount)", "os._exit(0)", FAILED),
    "kills-itself": replacing("self.warm(amount)", "os.kill(os.getpid(), 9)", FAILED),
    "segfault": replacing("self.warm(amount)", "import ctypes; ctypes.string_at(0)", FAILED),
    "endless-calls": replacing("self.warm(amount)", "self.warm(10**9)", FAILED),
    "swallows-the-budget": replacing(
        "self.warm(amount)",
        "try: self.warm(10**9)\n        except BaseException: self.base = 0",
        FAILED,
    ),
    "swallows-it-at-the-end": replacing(
        "self.backend.free(self.buffer)",
        "try: self.warm(10**9)\n        except BaseException: pass",
        FAILED,
        "toy_core:Core.close",
    ),
    "instrument": replacing(
        "if not window.nodes",
        "if window.nodes",
        BROKEN,
        "capturegate.gates.capture_completes:fault_of",
    ),
    "step-removed": (
        "flips:\n  - {scenario: toy, remove_step: capture}\n"
        "expect:\n" + expecting(PLAIN, capture_completes="vacuous", capture__captures="absent")
    ),
    "gate-unnamed": (
        "flips:\n  - {scenario: toy, remove_gate: capture-completes}\n"
        "expect:\n" + expecting(PLAIN, capture_completes="absent")
    ),
    "times-set": (
        "flips:\n  - {scenario: toy, set_times: {capture: 2}}\n"
        "expect:\n" + expecting(PLAIN, capture__captures="failed")
    ),
    "config-set": "flips:\n  - {scenario: toy, set_config: {base: 4}}\nexpect:\n" + FAILED,
    "not-skipped": (
        "flips:\n  - {predicate: toy.off, answers: false, lane: idle}\nexpect:\n"
        + expecting(OFF, work__total="passed", capture__captures="passed", capture_completes="held")
    ),
}

VERDICTS = {
    "proved": "proved",
    "gate": "proved",
    "default-argument": "proved",
    "survived": "survived",
    "wrong-verdict": "wrong-reason",
    "another-gate": "wrong-reason",
    "too-much-expected": "wrong-red",
    "too-little-expected": "extra-red",
    "carries-the-proof": "invalid",
    "fails-to-import": "crash",
    "exits-on-import": "crash",
    "sys-exit": "wrong-reason",
    "dies-of-a-mistake": "extra-red",
    "dies-as-it-says": "proved",
    "os-exit": "crash",
    "kills-itself": "crash",
    "segfault": "crash",
    "endless-calls": "timeout",
    "swallows-the-budget": "timeout",
    "swallows-it-at-the-end": "timeout",
    "instrument": "proved",
    "step-removed": "proved",
    "gate-unnamed": "proved",
    "times-set": "extra-red",
    "config-set": "proved",
    "not-skipped": "proved",
}

REASONS = {
    "carries-the-proof": "capturegate.run.child carries the proof",
    "fails-to-import": "no_such_module_anywhere",
    "exits-on-import": "SystemExit",
    "os-exit": "exited with code 0",
    "kills-itself": "SIGKILL, during case toy[plain/default]",
    "segfault": "SIGSEGV, during case toy[plain/default]",
    "endless-calls": "more than 20000 calls on one backend",
    "swallows-the-budget": "more than 20000 calls on one backend",
    "swallows-it-at-the-end": "more than 20000 calls on one backend",
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    write_toy(folder, PLANS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        sheet = Session(request=request_for(folder)).run()
    return {row.mutation: row for row in sheet.rows}


def request_for(folder: Path, **fields) -> Request:
    return Request(plans=(folder / "plans",), scenarios=(folder / "toy.scenario.yaml",), **fields)


@pytest.mark.parametrize("name", VERDICTS)
def test_a_mutation_comes_to_what_it_is(rows, name):
    assert VERDICTS[name] == rows[name].proof.value, rows[name].reason
    assert REASONS.get(name, "") in rows[name].reason


def test_every_plan_of_this_test_has_a_verdict_and_none_is_green_but_the_proved(rows):
    assert set(rows) == set(PLANS) == set(VERDICTS)
    green = {name for name, row in rows.items() if row.proof.value == "proved"}
    assert {name for name, verdict in VERDICTS.items() if verdict == "proved"} == green


def test_a_row_tells_the_flip_the_figures_and_the_checks(rows):
    row = rows["gate"]

    assert "-        self.backend.memset_async(self.buffer, 7, 64, self.stream)" in row.hunk
    assert {PLAIN: {"capture-completes": "broken"}} == row.observed
    assert [(PLAIN, "capture-completes", 1, 0)] == [
        (f.case, f.gate, f.baseline["nodes"], f.mutant["nodes"]) for f in row.figures
    ]
    assert ((3, 3), (2, 3)) == (row.checks_baseline, row.checks_mutant)
    assert row.rerun.startswith("capturegate mutate ")
    assert "-k gate --scenarios " in row.rerun


def test_a_hang_ends_at_the_time_limit(tmp_path, monkeypatch):
    hang = replacing("self.warm(amount)", "while True: pass", FAILED)
    write_toy(tmp_path, {"hang": hang})
    monkeypatch.syspath_prepend(str(tmp_path))

    sheet = Session(request=request_for(tmp_path, time_limit_s=3.0)).run()

    assert ["timeout"] == [row.proof.value for row in sheet.rows]
    assert "killed, during case toy[plain/default]" in sheet.rows[0].reason


def test_a_red_baseline_is_refused_for_every_plan(tmp_path, monkeypatch):
    write_toy(tmp_path, {"proved": PLANS["proved"]}, toy=SCENARIO.replace("total: 5", "total: 6"))
    monkeypatch.syspath_prepend(str(tmp_path))

    sheet = Session(request=request_for(tmp_path)).run()

    assert ["baseline-red"] == [row.proof.value for row in sheet.rows]
    assert PLAIN in sheet.rows[0].reason
    assert sheet.exit_code == 1


def test_a_baseline_that_differs_the_second_time_is_flaky(tmp_path, monkeypatch):
    core = CORE.replace(
        "self.warm(amount)",
        f"open('{tmp_path}/ran', 'a').write('x'); self.warm(len(open('{tmp_path}/ran').read()))",
    )
    write_toy(tmp_path, {"proved": PLANS["proved"].replace(ADD, "self.base")}, toy_core=core)
    monkeypatch.syspath_prepend(str(tmp_path))

    sheet = Session(request=request_for(tmp_path)).run()

    assert ["flaky"] == [row.proof.value for row in sheet.rows]


def invoke(folder: Path, *arguments: str):
    scenarios = ["--scenarios", str(folder / "toy.scenario.yaml")]
    return CliRunner().invoke(main, ["mutate", str(folder / "plans"), *scenarios, *arguments])


def test_the_command_is_green_only_when_every_plan_is_proved(tmp_path, monkeypatch):
    write_toy(tmp_path, {name: PLANS[name] for name in ("proved", "survived")})
    monkeypatch.syspath_prepend(str(tmp_path))
    results = tmp_path / "rows.jsonl"

    both = invoke(tmp_path, "--json", "-", "--results", str(results))
    one = invoke(tmp_path, "-k", "proved", "--resume", str(results))

    document = json.loads(both.stdout)
    assert (1, 1) == (both.exit_code, document["exit_code"])
    assert {"proved": "proved", "survived": "survived"} == {
        item["mutation"]: item["proof"] for item in document["mutations"]
    }
    assert 0 == one.exit_code, one.output
    assert "mutations: 1 | 1 proved · 0 mutants x 2 cases" in one.stdout


@pytest.mark.skipif(find_spec("cuda") is not None, reason="cuda-python is installed here")
def test_a_backend_that_does_not_work_here_is_refused_before_anything_is_written(
    tmp_path, monkeypatch
):
    write_toy(tmp_path, {"proved": PLANS["proved"]})
    monkeypatch.syspath_prepend(str(tmp_path))
    rows = tmp_path / "rows.jsonl"

    refused = invoke(tmp_path, "--backend", "cupy", "--results", str(rows))

    assert refused.exit_code == 2
    assert refused.stderr.startswith("error: the cupy backend needs"), refused.stderr
    assert not rows.exists()


def test_files_that_change_during_the_run_leave_no_verdict(tmp_path, monkeypatch):
    new = f'open("{tmp_path}/toy_adapter.py", "a").write("#"); self.warm(amount)'
    write_toy(tmp_path, {"writes": replacing("self.warm(amount)", new, FAILED)})
    monkeypatch.syspath_prepend(str(tmp_path))

    result = invoke(tmp_path)

    assert 3 == result.exit_code
    assert "" == result.stdout
    assert "no verdict counts: tracked files changed during the run" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-k", "nothing-like-it"], "-k 'nothing-like-it' selects none of the 1 mutations"),
        (["-k", "("], "-k '(' cannot be read"),
        (["--backend", "nowhere"], "unknown backend 'nowhere'"),
        (["--resume", "no-such-file"], "the rows cannot be read"),
        (["--json", "no/such/folder"], "--json no/such/folder cannot be written"),
        (["--markdown", "no/such/folder"], "--markdown no/such/folder cannot be written"),
        (["--results", "no/such/folder"], "--results no/such/folder cannot be written"),
    ],
)
def test_wrong_input_is_exit_2_with_a_message(tmp_path, monkeypatch, arguments, message):
    write_toy(tmp_path, {"proved": PLANS["proved"]})
    monkeypatch.syspath_prepend(str(tmp_path))

    result = invoke(tmp_path, *arguments)

    assert 2 == result.exit_code
    assert result.stderr.startswith(f"error: {message}")


@pytest.mark.parametrize("option", ["--results", "--resume"])
@pytest.mark.parametrize("content", [b"my notes", b"\xff\x00\n", b'{"schema": 1, "result": {}}\n'])
def test_a_file_of_somebody_else_is_refused_and_kept(tmp_path, monkeypatch, option, content):
    write_toy(tmp_path, {"proved": PLANS["proved"]})
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "mine"
    file.write_bytes(content)

    result = invoke(tmp_path, option, str(file))

    assert 2 == result.exit_code
    assert "the line is no row" in result.stderr
    assert content == file.read_bytes()


def test_a_scenario_that_does_not_fit_its_engine_is_wrong_input(tmp_path, monkeypatch):
    write_toy(
        tmp_path,
        {"proved": PLANS["proved"]},
        toy=SCENARIO.replace("work: {amount: 2", "work: {amounts: 2"),
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    result = invoke(tmp_path)

    assert 2 == result.exit_code
    assert "amounts" in result.stderr


def test_a_keyword_is_an_expression_and_a_whole_name_means_that_plan_alone(tmp_path, monkeypatch):
    plans = dict.fromkeys(("flip", "flip-too", "other"), PLANS["proved"])
    write_toy(tmp_path, plans)
    monkeypatch.syspath_prepend(str(tmp_path))

    def chosen(keyword: str) -> list[str]:
        document = json.loads(invoke(tmp_path, "-k", keyword, "--json", "-").stdout)
        return [row["mutation"] for row in document["mutations"]]

    assert ["flip"] == chosen("flip")
    assert ["flip-too", "flip"] == chosen("fli and not other")


def test_learn_prints_the_measured_set_and_writes_nothing(tmp_path, monkeypatch):
    draft = PLANS["gate"].split("expect:")[0]
    write_toy(tmp_path, {"gate": draft})
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.yaml")}

    result = invoke(tmp_path, "--learn")

    expected = "expect:\n  toy[plain/default]:\n    capture-completes: broken\n"
    assert 0 == result.exit_code, result.output
    assert expected in result.stdout
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*.yaml")}


def test_probes_that_change_something_leave_no_verdict(tmp_path, monkeypatch):
    probed = '"__capturegate_probe__" in self.total.__code__.co_names'
    reads_itself = CORE.replace("self.warm(amount)", f"self.warm(amount + ({probed}))")
    write_toy(tmp_path, {"proved": PLANS["proved"]}, toy_core=reads_itself)
    monkeypatch.syspath_prepend(str(tmp_path))

    result = invoke(tmp_path)

    assert 3 == result.exit_code
    assert f"serving the modules' own code with probes changed {PLAIN}" in result.stderr
