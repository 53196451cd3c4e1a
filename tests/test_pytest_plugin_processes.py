import importlib.util
import os
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import plugin_samples
from waiting import wait_for, wait_until_gone

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parent.parent


@pytest.fixture
def project(pytester, monkeypatch):
    """A folder with the toy engine and two scenarios, one of them red."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TOY_LOG", str(pytester.path / "toy.log"))
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n")
    (pytester.path / "toy.py").write_text(plugin_samples.TOY)
    (pytester.path / "toy.scenario.yaml").write_text(plugin_samples.SCENARIO)
    return pytester


def log_of(project):
    """What engines logged: a word, their process and its parent, the zygote."""
    path = project.path / "toy.log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(word, int(pid), int(parent)) for word, pid, parent in map(str.split, lines)]


@pytest.mark.parametrize("dist", ["load", "loadfile"])
def test_workers_run_items_and_the_counts_are_of_the_whole_run(project, dist):
    (project.path / "red.scenario.yaml").write_text(plugin_samples.ALLOCATING)
    (project.path / "skip.scenario.yaml").write_text(plugin_samples.SKIPPING)
    project.makepyfile(test_it="def test_it(check):\n    check(True, 'a')\n")
    result = project.runpytest_subprocess("-n", "2", "--dist", dist, "--junit-xml", "junit.xml")
    result.assert_outcomes(passed=11, failed=1, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "*in toy.Toy.record",
            "FAILED red.scenario.yaml::*::no-driver-allocation-in-window - broken: 1 driver *",
            "cases: 5 | 3 passed | 1 failed | 1 skipped · checks: 16 | 15 passed | 1 failed",
        ]
    )
    assert 14 == (project.path / "junit.xml").read_text().count("<testcase ")
    if dist == "loadfile":
        assert 4 == [word for word, _, _ in log_of(project)].count("engine")


def test_an_unknown_lane_is_refused_on_workers_too(project):
    result = project.runpytest_subprocess("-n", "2", "--capturegate-lane", "fast")
    result.assert_outcomes(errors=6)
    result.stdout.fnmatch_lines(["no collected case has the lane 'fast'; they have default"])
    assert [] == log_of(project)


def test_nothing_is_left_when_the_session_ends(project):
    project.runpytest_subprocess().assert_outcomes(passed=6)
    zygotes = {parent for _, _, parent in log_of(project)}
    assert 1 == len(zygotes)
    assert not Path(f"/proc/{zygotes.pop()}").exists()


def test_a_worker_that_is_killed_leaves_nothing(project):
    project.makepyfile(test_z="import os\ndef test_z():\n    os.kill(os.getpid(), 9)\n")
    result = project.runpytest_subprocess("-n", "1")
    result.assert_outcomes(passed=6, failed=1)
    assert 4 == len(log_of(project))
    for pid in {parent for _, _, parent in log_of(project)}:
        wait_until_gone(pid)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGKILL, -9)])
def test_a_run_that_is_ended_in_the_middle_of_a_case_leaves_nothing(project, number, code):
    (project.path / "toy.scenario.yaml").write_text(
        plugin_samples.SCENARIO.replace("plain: {}", "plain: {does: hang}")
    )
    command = [sys.executable, "-m", "pytest"]
    with (project.path / "out.txt").open("wb") as out:
        run = subprocess.Popen(
            command,
            cwd=project.path,
            stdout=out,
            stderr=out,
            # A child of a background job would be born deaf to an interrupt.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    wait_for(lambda: "hangs" in [word for word, _, _ in log_of(project)])
    run.send_signal(number)
    assert code == run.wait()
    for _, child, zygote in log_of(project):
        wait_until_gone(child)
        wait_until_gone(zygote)


USERS_TEST = """\
import capturegate
import backends

def test_imports(check, capture_backend):
    check(backends.MINE, "the user's own package")
    check(capturegate.__file__.startswith({venv!r}), "the wheel's capturegate")
    check(type(capture_backend.device).__module__ == "capturegate_backends.fake.device", "ours")
"""


def test_a_users_folder_outside_the_checkout_works_with_the_wheel(tmp_path):
    python = installed_wheel(tmp_path)
    folder = tmp_path / "users"
    (folder / "backends").mkdir(parents=True)
    (folder / "backends" / "__init__.py").write_text("MINE = True\n")
    (folder / "toy.py").write_text(
        "import backends\nlog_of_backends = backends.MINE\n" + plugin_samples.TOY
    )
    (folder / "toy.scenario.yaml").write_text(plugin_samples.SCENARIO)
    (folder / "it.mutation.yaml").write_text(plugin_samples.PLAN_OF_TWO_ARMS)
    venv = str(python.parent.parent)
    (folder / "test_it.py").write_text(USERS_TEST.format(venv=venv))
    command = [python, "-m", "pytest", "-p", "no:hypothesispytest", "-W", "error", "-v"]
    environment = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert "8 passed" in ran.stdout.splitlines()[-1], ran.stdout + ran.stderr
    counted = "cases: 2 | 2 passed | 0 failed | 0 skipped · checks: 13 | 13 passed | 0 failed"
    assert counted in ran.stdout.splitlines()
    assert 0 == ran.returncode


def installed_wheel(folder):
    """The Python of a fresh environment with the wheel; its dependencies are those of this one."""
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = folder / "wheels"
    run([*pip, "wheel", "--no-deps", *isolation, "--wheel-dir", wheels, ROOT])
    run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"])
    python = folder / "venv" / "bin" / "python"
    (wheel,) = wheels.iterdir()
    run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel])
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # A folder that a .pth file names is searched, but no .pth file in it is read: the editable
    # install of this checkout stays out.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def run(command):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert 0 == ran.returncode, ran.stdout + ran.stderr
