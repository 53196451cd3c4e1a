import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from capturegate.cli import main as main_module
from capturegate.cli.main import exit_code_of_call, main
from capturegate.errors import InputError
from capturegate.run import plan


def invoke(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_the_help_names_the_commands_and_the_exit_codes():
    done = invoke("--help")
    assert done.exit_code == 0
    for line in (
        "run         Run scenarios and judge them.",
        "list        List cases, gates, engines and backends.",
        "explain     Say what a gate checks and how to fix it.",
        "3 the harness itself failed, 5 nothing was judged, 128 and its number",
        "for a signal: 129 hung up, 130 interrupted, 143 terminated.",
    ):
        assert line in done.output


def test_the_help_loads_nothing_heavy():
    code = (
        "import sys; from capturegate.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(sorted({m for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].strip("[]").replace("'", "").split(", "))
    assert "click" in loaded
    heavy = {"numpy", "yaml", "rich", "capturegate_backends.fake", "capturegate_backends.cupy"}
    assert set() == loaded & heavy


def test_the_version_is_told():
    assert invoke("--version").output == "capturegate, version 0.1.0\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["explain", "a", "b"]])
def test_a_wrong_command_line_exits_with_2(arguments):
    assert invoke(*arguments).exit_code == 2


FAILED = """\
error: Capturegate itself failed: ValueError: odd
  help: run it again with --debug for the traceback
"""


def raising(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (InputError("bad", hint="do"), 2, "error: bad\n  help: do\n"),
        (click.UsageError("no such thing"), 2, "error: no such thing\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (ValueError("odd"), 3, FAILED),
    ],
)
def test_every_error_has_its_exit_code_and_message(error, code, said, capsys, monkeypatch):
    monkeypatch.delenv("CAPTUREGATE_DEBUG", raising=False)
    assert code == exit_code_of_call(raising(error))
    assert ("", said) == capsys.readouterr()


def test_debug_shows_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("CAPTUREGATE_DEBUG", "1")
    assert exit_code_of_call(raising(ValueError("odd"))) == 3
    assert "in call" in capsys.readouterr().err


def test_what_a_command_returns_is_the_exit_code():
    assert (exit_code_of_call(lambda: 5), exit_code_of_call(lambda: None)) == (5, 0)


def test_a_reader_that_has_gone_gets_no_traceback():
    code = "import sys; from capturegate.cli.main import main; main(['explain', 'CG001'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), stderr) == (0, b"")


@click.command()
def plugged():
    """Do what was plugged in."""
    click.echo("it ran")


class Point:
    def __init__(self, name, command):
        self.name = name
        self._command = command

    def load(self):
        if self._command is None:
            raise ImportError("no module named gone")
        return self._command


def test_plugged_in_commands_are_listed_and_run_and_a_broken_one_spoils_nothing(monkeypatch):
    points = {"extra": Point("extra", plugged), "gone": Point("gone", None)}
    monkeypatch.setattr(main_module, "_plugged", lambda: points)
    listed = invoke("--help").output
    assert "extra       Do what was plugged in." in listed
    assert "gone        Cannot be loaded: ImportError: no module named gone" in listed
    assert invoke("extra").output == "it ran\n"
    assert invoke("gone").exit_code == 3


def test_explain_without_a_gate_lists_them_all():
    lines = invoke("explain").output.splitlines()
    codes = [line.split()[0] for line in lines]
    assert {"CG001", "CG002", "CG003", "CG004", "CG005"} <= set(codes)
    assert sorted(codes) == codes


@pytest.mark.parametrize("word", ["CG004", "cg004", "capture-completes"])
def test_explain_prints_the_gates_own_words_under_their_headings(word):
    output = invoke("explain", word).output
    assert output.startswith("CG004 capture-completes\n\nEvery capture completes")
    headings = ["What it checks", "Why it is unsafe", "Goes red when", "How to fix it", "Proven by"]
    assert headings == [line for line in output.splitlines() if line in headings]


@pytest.mark.parametrize(
    ("word", "near"), [("CG04", "CG004"), ("capture-complete", "capture-completes")]
)
def test_explain_suggests_what_was_meant(word, near):
    done = invoke("explain", word)
    assert done.exit_code == 2
    assert f"error: there is no gate {word!r}" in done.output
    assert f"did you mean '{near}'?" in done.output


SCENARIO = """
scenario: {name}
about: Something.
engine: toy:Toy
lanes:
  a: {{}}
  b: {{env: {{X: "1"}}}}
steps:
  - grow: {{check: {{count: 1}}}}
gates: [capture-completes]
"""


@pytest.fixture
def scenarios(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.scenario.yaml").write_text(SCENARIO.format(name=name))


def test_list_prints_the_cases_and_what_is_installed(scenarios):
    lines = invoke("list", ".").output.splitlines()
    assert lines[:3] == ["cases: 4", "  one[a/default]@fake", "  one[b/default]@fake"]
    assert "  CG004  capture-completes" in lines
    assert "  fake  capturegate_backends.fake.device" in lines


def test_list_writes_json_to_a_file_beside_the_text(scenarios, tmp_path):
    lines = invoke("list", ".", "--json", "list.json").output.splitlines()
    assert lines[0] == "cases: 4"
    assert len(json.loads((tmp_path / "list.json").read_text())["cases"]) == 4


def test_list_says_which_backend_cannot_be_used_and_why(scenarios, monkeypatch):
    def not_here(names, pool):
        return {name: InputError("no driver") if name == "cupy" else None for name in names}

    monkeypatch.setattr(plan, "unusable", not_here)
    listed = invoke("list", ".")
    assert "  cupy  capturegate_backends.cupy.device  not usable here: no driver" in listed.output
    data = json.loads(invoke("list", ".", "--json", "-").output)
    assert data["unusable"] == {"cupy": "no driver"}
    done = invoke("list", ".", "--backend", "cupy")
    assert (done.exit_code, done.output) == (2, "error: no driver\n")


def test_a_working_directory_that_is_gone_is_the_users_to_mend(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = invoke("explain")
    assert done.exit_code == 2
    assert done.output == "error: the working directory is not there any more\n"


def test_list_takes_the_selection_and_prints_json(scenarios):
    data = json.loads(invoke("list", ".", "--lane", "b", "-k", "two", "--json", "-").output)
    assert data["cases"] == [
        {
            "id": "two[b/default]@fake",
            "scenario": "two",
            "lane": "b",
            "arm": "default",
            "backend": "fake",
            "engine": "toy:Toy",
            "path": "two.scenario.yaml",
            "gates": ["capture-completes"],
        }
    ]
    assert {"code": "CG004", "name": "capture-completes"} in data["gates"]
    assert data["engines"]["reference.decode"] == "capturegate_reference.adapters:DecodeAdapter"
