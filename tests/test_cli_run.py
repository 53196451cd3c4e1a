import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from waiting import wait_for

ENGINE = """
import os, signal, sys
from pathlib import Path

from capturegate.adapter import verb
from capturegate.errors import InputError

IMPORTED_WITH = os.environ.get("CAPTUREGATE_TOY", "unset")


class Toy:
    config_keys = {"start": (int, 0)}
    predicates = {
        "toy.off": lambda: IMPORTED_WITH == "off",
        "toy.out": lambda: IMPORTED_WITH == "out",
    }
    tells_pool = False

    def __init__(self, backend, config, *, oracle):
        self.count = config["start"]

    @verb
    def grow(self, by: int):
        print("noise on stdout")
        os.write(1, b"noise on descriptor 1")
        self.count += by
        return {"by": by}

    @verb
    def switch(self):
        return {"switch": IMPORTED_WITH}

    @verb
    def touch(self, file: str):
        Path(file).write_text(f"{os.getpid()}")
        while True:
            signal.pause()

    @verb
    def die(self):
        os.write(2, b"last words")
        os.kill(os.getpid(), signal.SIGSEGV)

    @verb
    def mistake(self):
        raise InputError("the toy is used wrongly", hint="use it rightly")

    def counters(self):
        return {"count": self.count}

    def outputs(self):
        return []

    def buffers(self):
        return []

    def close(self):
        pass
"""

GROWS = """
scenario: grows
about: The toy grows by what it is told.
engine: toy:Toy
arms:
  small: {start: 1}
  large: {start: 100}
lanes:
  plain: {}
  idle: {env: {CAPTUREGATE_TOY: "off"}, skip_if: toy.off, reason: it is off, judged_in: plain}
steps:
  - grow: {by: 2, check: {count: 2}}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with an engine of its own, and the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(ENGINE)
    write(tmp_path / "grows.scenario.yaml", GROWS)
    return tmp_path


def write(path, text):
    path.write_text(textwrap.dedent(text).lstrip("\n"))


def scenario(project, name, steps):
    write(
        project / f"{name}.scenario.yaml",
        f"scenario: {name}\nabout: About {name}.\nengine: toy:Toy\nsteps:\n{steps}",
    )


def run(*arguments, **env):
    command = [sys.executable, "-P", "-m", "capturegate", *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CAPTUREGATE_")}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment | env, check=False
    )


def test_a_green_run_exits_with_0_and_prints_no_noise(project):
    done = run("run", "grows.scenario.yaml")
    assert (done.stderr, done.returncode) == ("", 0)
    lines = done.stdout.splitlines()
    closing = "cases: 4 | 2 passed | 0 failed | 2 skipped · checks: 2 | 2 passed | 0 failed"
    assert closing == lines[-1]
    assert "  toy.off: it is off. Judged in lane plain." in lines
    assert "noise" not in done.stdout


def test_cases_are_printed_in_the_order_of_the_scenario(project):
    done = run("run", "grows.scenario.yaml", "--workers", "3")
    places = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  ✓ ")]
    assert places == ["plain/small", "plain/large"]


def test_a_red_run_exits_with_1_and_says_what_to_copy(project):
    scenario(project, "shrinks", "  - grow: {by: 2, check: {count: -2}}")
    done = run("run", "shrinks.scenario.yaml", "grows.scenario.yaml")
    assert done.returncode == 1
    assert "  check grow.count: failed" in done.stdout
    assert "  at        shrinks.scenario.yaml:5:" in done.stdout
    (again,) = [line for line in done.stdout.splitlines() if line.startswith("  again")]
    copied = subprocess.run(
        ["bash", "-c", again.removeprefix("  again").strip().replace("capturegate", "$CMD", 1)],
        env=os.environ | {"CMD": f"{sys.executable} -P -m capturegate"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert copied.returncode == 1
    assert copied.stdout.splitlines()[-1].startswith("cases: 1 | 0 passed | 1 failed")


def test_the_lane_is_in_the_environment_before_the_engine_is_imported(project):
    write(
        project / "switch.scenario.yaml",
        """
        scenario: switch
        about: The engine reads its switch when it is imported.
        engine: toy:Toy
        lanes:
          lit: {env: {CAPTUREGATE_TOY: "lit"}}
          scrubbed: {}
        steps:
          - switch: {check: {switch: unset}}
        """,
    )
    done = run("run", "switch.scenario.yaml", "--json", "-", CAPTUREGATE_TOY="from the shell")
    observed = {c["lane"]: c["checks"][0]["observed"] for c in json.loads(done.stdout)["cases"]}
    assert observed == {"lit": "lit", "scrubbed": "unset"}


def test_json_on_standard_output_is_json_alone(project):
    done = run("run", "grows.scenario.yaml", "-k", "small and plain", "--json", "-")
    data = json.loads(done.stdout)
    assert [case["case"] for case in data["cases"]] == ["grows[plain/small]@fake"]
    assert (data["exit_code"], done.returncode, done.stderr) == (0, 0, "")


def test_json_in_a_file_comes_beside_the_text(project):
    done = run("run", "grows.scenario.yaml", "--json", "run.json")
    data = json.loads((project / "run.json").read_text())
    assert (data["totals"]["cases"], len(data["cases"])) == (4, 4)
    assert done.stdout.splitlines()[-1].startswith("cases: 4 |")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["grows.scenario.yaml", "--lane", "plane"], "unknown lane 'plane'"),
        (["grows.scenario.yaml", "--arm", "smal"], "unknown arm 'smal'"),
        (["grows.scenario.yaml", "--backend", "fak"], "unknown backend 'fak'"),
        (["grows.scenario.yaml", "-k", "zzz"], "-k 'zzz' selects none of the 4 cases"),
        (["grows.scenario.yaml", "-k", "a b"], "-k 'a b' cannot be read"),
        (["grows.scenario.yaml", "--resume", "none.jsonl"], "the results cannot be read"),
        (["grows.scenario.yaml", "--workers", "0"], "Invalid value for '--workers'"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_input_exits_with_2_and_a_message_without_traceback(project, arguments, message):
    done = run("run", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_misspelt_lane_is_answered_with_the_right_one(project):
    assert "'plain'" in run("run", "grows.scenario.yaml", "--lane", "plai").stderr


@pytest.mark.parametrize(
    ("engine", "step", "message"),
    [
        ("toy:Toi", "grow: {by: 1}", "bad.scenario.yaml:3:1: engine 'toy:Toi' cannot be imported"),
        ("nothing", "grow: {by: 1}", "bad.scenario.yaml:3:1: unknown engine 'nothing'"),
        ("toy:Toy", "gro: {by: 1}", "bad.scenario.yaml:5:5: unknown verb 'gro'"),
        ("toy:Toy", "grow: {by: one}", "bad.scenario.yaml:5:"),
    ],
)
def test_a_scenario_that_does_not_fit_its_engine_is_refused(project, engine, step, message):
    write(
        project / "bad.scenario.yaml",
        f"scenario: bad\nabout: It is bad.\nengine: {engine}\nsteps:\n  - {step}\n"
        "gates: [capture-completes]\n",
    )
    done = run("run", "bad.scenario.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_that_only_a_case_finds_exits_with_2(project):
    scenario(project, "mistake", "  - mistake: {check: {count: 0}}")
    done = run("run", "mistake.scenario.yaml", "grows.scenario.yaml", "--results", "r.jsonl")
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert "✗ mistake[default/default]@fake" in lines
    assert "  input     mistake.scenario.yaml:5:5: the toy is used wrongly" in lines
    assert "              help: use it rightly" in lines
    closing = "cases: 5 | 2 passed | 1 failed | 2 skipped · checks: 2 | 2 passed | 0 failed"
    assert closing == lines[-1]
    # What was not judged is tried again by a resumed run.
    assert len((project / "r.jsonl").read_text().splitlines()) == 4


def test_a_crash_of_the_child_exits_with_3_and_tells_its_last_words(project):
    scenario(project, "dies", "  - die: {check: {count: 0}}")
    done = run("run", "dies.scenario.yaml")
    assert done.returncode == 3
    assert "  harness   the process died by SIGSEGV" in done.stdout
    assert "last words" in done.stdout


def test_a_case_past_its_time_limit_exits_with_3(project):
    scenario(project, "waits", "  - touch: {file: note, check: {count: 0}}")
    done = run("run", "waits.scenario.yaml", "--time-limit", "0.3")
    assert done.returncode == 3
    assert "  harness   still running after 0.3 s, and killed" in done.stdout


def test_a_run_of_skips_alone_exits_with_5(project):
    done = run("run", "grows.scenario.yaml", "--lane", "idle")
    assert done.returncode == 5
    assert "nothing was judged: every selected case is skipped" in done.stdout


def test_a_skip_whose_judging_lane_skips_as_well_is_never_judged(project):
    out = '{env: {CAPTUREGATE_TOY: "out"}, skip_if: toy.out, reason: out, judged_in: idle}'
    write(project / "grows.scenario.yaml", GROWS.replace("plain: {}", f"plain: {out}"))
    done = run("run", "grows.scenario.yaml")
    assert done.returncode == 1
    assert done.stdout.count("✗ never judged") == 4


def test_a_resumed_run_runs_only_what_is_missing(project):
    first = run("run", "grows.scenario.yaml", "-k", "small", "--results", "r.jsonl")
    assert (first.returncode, len((project / "r.jsonl").read_text().splitlines())) == (0, 2)
    second = run("run", "grows.scenario.yaml", "--resume", "r.jsonl")
    assert (second.returncode, second.stderr) == (0, "2 results taken from r.jsonl\n")
    assert len((project / "r.jsonl").read_text().splitlines()) == 4


def test_a_resumed_run_takes_no_result_of_other_code(project):
    first = run("run", "grows.scenario.yaml", "-k", "small", "--results", "r.jsonl")
    assert (first.returncode, len((project / "r.jsonl").read_text().splitlines())) == (0, 2)
    # The engine is broken now: whatever runs again would show it.
    (project / "toy.py").write_text(ENGINE.replace("self.count += by", "self.count -= by"))
    second = run("run", "grows.scenario.yaml", "--resume", "r.jsonl", "--json", "-")
    failed = json.loads(second.stdout)["not_as_expected"]
    assert failed == ["grows[plain/small]@fake", "grows[plain/large]@fake"]


def test_a_result_of_another_seed_is_not_taken_over(project):
    run("run", "grows.scenario.yaml", "--results", "r.jsonl")
    run("run", "grows.scenario.yaml", "--resume", "r.jsonl", "--seed", "1")
    assert len((project / "r.jsonl").read_text().splitlines()) == 8


def test_ctrl_c_keeps_what_was_judged_and_exits_with_130(project):
    scenario(project, "waits", "  - touch: {file: note, check: {count: 0}}")
    command = [sys.executable, "-P", "-m", "capturegate", "run", "--workers", "1"]
    process = subprocess.Popen(
        [*command, "grows.scenario.yaml", "waits.scenario.yaml", "--results", "r.jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A child of a background job would be born deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    results = project / "r.jsonl"
    note = project / "note"
    wait_for(lambda: note.exists() and results.read_bytes().count(b"\n") == 4)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (130, "")
    assert "interrupted: 1 cases were not run" in stdout
    assert "cases: 4 | 2 passed" in stdout
    assert len(results.read_text().splitlines()) == 4


def test_quiet_prints_only_the_counts_of_a_green_run(project):
    done = run("run", "grows.scenario.yaml", "--quiet")
    closing = "cases: 4 | 2 passed | 0 failed | 2 skipped · checks: 2 | 2 passed | 0 failed"
    assert ["", closing] == done.stdout.splitlines()
