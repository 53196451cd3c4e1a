"""Engines that lack what the harness will use: refused at validation, and told what it is."""

import re

import pytest
from click.testing import CliRunner

from capturegate.cli.main import main

PARTS = {
    "config_keys": "    config_keys = {}\n",
    "predicates": "    predicates = {}\n",
    "tells_pool": "    tells_pool = False\n",
    "counters()": "    def counters(self):\n        return {'done': 1}\n",
    "outputs()": "    def outputs(self):\n        return []\n",
    "buffers()": "    def buffers(self):\n        return []\n",
    "close()": "    def close(self):\n        pass\n",
}
REST = """\
    def __init__(self, backend, config, *, oracle):
        pass

    @verb
    def step(self):
        return {}
"""
SCENARIO = """\
scenario: small
about: One step.
engine: {engine}
steps:
  - step: {{check: {{done: 0}}}}
"""


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """The exit code and the output of a run on an engine with those parts."""
    monkeypatch.chdir(tmp_path)

    def judged(parts, *, bases="", command="run"):
        module = f"toy_{re.sub('[^a-z]', '_', '_'.join(parts))}"
        (tmp_path / f"{module}.py").write_text(
            "from capturegate.adapter import Adapter, verb\n\n\n"
            f"class Toy{bases}:\n{''.join(PARTS[part] for part in parts)}{REST}"
        )
        path = tmp_path / "small.scenario.yaml"
        path.write_text(SCENARIO.format(engine=f"{module}:Toy"))
        done = CliRunner().invoke(main, [command, "small.scenario.yaml"])
        return done.exit_code, done.output.replace(module, "toy")

    return judged


def test_an_engine_that_has_everything_runs(judged):
    code, output = judged(list(PARTS))
    assert (code, "lacks" in output) == (0, False)


@pytest.mark.parametrize("gone", list(PARTS))
def test_an_engine_that_lacks_a_part_is_refused_where_it_is_named(judged, gone):
    said = (
        f"error: small.scenario.yaml:3:1: engine 'toy:Toy': toy.Toy lacks {gone}\n"
        "  expected: an adapter: a class with config_keys, predicates, tells_pool, counters(), "
        "outputs(), buffers(), close()\n"
        "  help: `capturegate.adapter.Adapter` says what each is for\n"
    )
    assert (2, said) == judged([part for part in PARTS if part != gone])


def test_everything_that_is_lacking_is_told_at_once(judged):
    code, output = judged(["predicates", "outputs()"])
    said = "toy.Toy lacks config_keys, tells_pool, counters(), buffers(), close()\n"
    assert (code, said in output) == (2, True)


def test_what_the_protocol_only_declares_is_not_there(judged):
    code, output = judged(
        ["config_keys", "predicates", "tells_pool", "outputs()", "close()"], bases="(Adapter)"
    )
    assert (code, "toy.Toy lacks counters(), buffers()\n" in output) == (2, True)


def test_an_argument_that_a_file_cannot_give_is_refused(judged, monkeypatch):
    pick = "\n    @verb\n    def pick(self, only: str = ''):\n        return {}\n"
    monkeypatch.setitem(PARTS, "close()", PARTS["close()"] + pick)
    code, output = judged(list(PARTS))
    assert 2 == code
    assert "the verb pick() has an argument 'only', which is a word of scenario files" in output
    assert "expected: another name than check, id, only, require, times" in output
