"""How a run ends: by signals, without a reader, on a full disk, and with files it may not write."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import wait_for, wait_until_gone

ENGINE = """
import os, signal
from pathlib import Path

from capturegate.adapter import verb


class Toy:
    config_keys = {}
    predicates = {}
    tells_pool = False

    def __init__(self, backend, config, *, oracle):
        pass

    @verb
    def pass_(self):
        return {"done": 1}

    @verb
    def wait(self, file: str):
        Path(file).write_text(f"{os.getpid()}\\n")
        while True:
            signal.pause()

    def counters(self):
        return {}

    def outputs(self):
        return []

    def buffers(self):
        return []

    def close(self):
        pass
"""

COMMAND = [sys.executable, "-P", "-m", "capturegate"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.py").write_text(ENGINE)
    scenario("passes", "pass_: {check: {done: 1}}")
    scenario("fails", "pass_: {check: {done: 2}}")
    return tmp_path


def scenario(name, step):
    Path(f"{name}.scenario.yaml").write_text(
        f"scenario: {name}\nabout: About {name}.\nengine: toy:Toy\nsteps:\n  - {step}\n"
    )


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_signal_keeps_what_was_judged_and_ends_every_process(project, number, code):
    scenario("waits", "wait: {file: note, check: {done: 1}}")
    options = ["--workers", "1", "--results", "r.jsonl", "--json", "run.json"]
    process = subprocess.Popen(
        [*COMMAND, "run", "passes.scenario.yaml", "waits.scenario.yaml", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A child of a background job, or of nohup, would be born deaf to it.
        preexec_fn=lambda: signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        ),
    )
    note = project / "note"
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    process.send_signal(number)
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (code, "")
    assert "interrupted: 1 cases were not run" in stdout
    assert stdout.splitlines()[-1].startswith("cases: 1 | 1 passed")
    assert len((project / "r.jsonl").read_text().splitlines()) == 1
    assert json.loads((project / "run.json").read_text())["exit_code"] == code
    wait_until_gone(int(note.read_text()))


def test_a_signal_that_is_ignored_stays_so(project):
    scenario("waits", "wait: {file: note, check: {done: 1}}")
    process = subprocess.Popen(
        [*COMMAND, "run", "waits.scenario.yaml"],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    note = project / "note"
    wait_for(lambda: note.exists() and note.read_text().endswith("\n"))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


def test_an_interrupt_before_there_is_anything_to_tell_is_quiet():
    code = (
        "import os, signal, sys\n"
        "class Import:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Import())\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from capturegate.cli.start import start\n"
        "start()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize(("name", "code"), [("passes", 0), ("fails", 1)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_does_not_change_the_verdict(project, name, code, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*COMMAND, "run", f"{name}.scenario.yaml"],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize("arguments", [["run", "passes.scenario.yaml"], ["--help"]])
def test_a_full_device_as_standard_output_is_told(project, arguments):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (
        3,
        b"error: standard output: No space left on device\n",
    )


def limited(nbytes):
    """Files of this process may not grow past a size, as if the disk were full."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes))


def test_results_that_cannot_be_written_are_told_and_what_ran_is_reported(project):
    done = run("run", ".", "--workers", "1", "--results", "r.jsonl", preexec_fn=limited(100))
    assert (done.returncode, done.stderr) == (3, "error: r.jsonl: File too large\n")
    assert "stopped: 1 cases were not run" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("cases: 1 |")


def test_json_that_cannot_be_written_in_the_end_is_told_beside_the_report(project):
    done = run("run", "passes.scenario.yaml", "--json", "run.json", preexec_fn=limited(100))
    assert (done.returncode, done.stderr) == (3, "error: --json run.json: File too large\n")
    assert done.stdout.splitlines()[-1].startswith("cases: 1 | 1 passed")


@pytest.mark.parametrize("option", ["--json", "--results", "--resume"])
@pytest.mark.parametrize("target", ["/dev/full", "/dev/null", "/dev/zero", "pipe", "."])
def test_what_is_no_regular_file_is_refused_before_anything_runs(project, option, target):
    os.mkfifo("pipe")
    scenario("waits", "wait: {file: note, check: {done: 1}}")
    done = run("run", "waits.scenario.yaml", option, target)
    assert (done.returncode, done.stderr) == (
        2,
        f"error: {option} {target} is not a regular file\n",
    )
    assert not Path("note").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "no/such/folder.json"], "--json no/such/folder.json cannot be written"),
        (["--results", "no/r.jsonl"], "--results no/r.jsonl cannot be written"),
        (
            ["--json", "passes.scenario.yaml"],
            "--json passes.scenario.yaml would write over the scenario passes.scenario.yaml",
        ),
        (
            ["--results", "./passes.scenario.yaml"],
            "--results passes.scenario.yaml would write over the scenario passes.scenario.yaml",
        ),
        (["--json", "a", "--results", "./a"], "--results a would write over the file of --json"),
        (["--results", "toy.py"], "toy.py:1:1: the line is no result"),
        (["--time-limit", "nan"], "nan is not a number of seconds"),
        (["--time-limit", "inf"], "Invalid value for '--time-limit'"),
        (["--time-limit", "0"], "Invalid value for '--time-limit'"),
        (["--time-limit", "-1"], "Invalid value for '--time-limit'"),
        ([""], "a path is empty"),
    ],
)
def test_what_would_do_harm_or_nothing_is_refused(project, arguments, message):
    before = {path: path.read_bytes() for path in project.iterdir()}
    done = run("run", "passes.scenario.yaml", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert before == {path: path.read_bytes() for path in project.iterdir()}


def test_json_may_go_to_an_open_descriptor(project):
    done = run("run", "passes.scenario.yaml", "--quiet", "--json", "/dev/stderr")
    assert json.loads(done.stderr)["exit_code"] == 0


def test_a_lane_in_which_python_does_not_start_is_told_and_the_others_run(project):
    Path("lanes.scenario.yaml").write_text(
        "scenario: lanes\nabout: Two lanes.\nengine: toy:Toy\n"
        "lanes:\n  good: {}\n  homeless: {env: {PYTHONHOME: /nowhere}}\n"
        "steps:\n  - pass_: {check: {done: 1}}\n"
    )
    done = run("run", "lanes.scenario.yaml", env=os.environ | {"COLUMNS": "200"})
    assert done.returncode == 2
    said = "lanes.scenario.yaml:6:3: Python does not start in the environment of lane 'homeless'"
    assert f"  input     {said}" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1].startswith("cases: 2 | 1 passed | 1 failed")


def test_a_process_that_an_engine_leaves_is_told_and_changes_no_verdict(project):
    Path("toy.py").write_text(
        ENGINE.replace(
            'return {"done": 1}',
            'import subprocess; subprocess.Popen(["sleep", "1000"], start_new_session=True)\n'
            '        return {"done": 1}',
        )
    )
    done = run("run", "passes.scenario.yaml")
    assert done.returncode == 0
    assert "– warning  passes[default/default]@fake" in done.stdout  # noqa: RUF001
    assert "  left running, and killed: sleep 1000" in done.stdout.splitlines()
