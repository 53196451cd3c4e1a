"""The page for users' own engines, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs/own-engine.md").read_text(encoding="utf-8")
FILES = ("my_engine.py", "mine.scenario.yaml", "mine.mutation.yaml")
BLOCKS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^    ((?:capturegate|python) .*)$", PAGE, flags=re.MULTILINE)
PRINTED = {
    "capturegate run mine.scenario.yaml": "cases: 1 | 1 passed | 0 failed | 0 skipped",
    "capturegate mutate mine.mutation.yaml --scenarios mine.scenario.yaml": "mutations: 1 | 1 prov",
    "python -m pytest": "5 passed",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the page has one write, under the names that it gives."""
    folder = tmp_path_factory.mktemp("fresh")
    for name, text in zip(FILES, BLOCKS, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_the_page_names_every_file_and_every_command():
    assert all(f"`{name}`" in PAGE for name in FILES)
    assert list(PRINTED) == COMMANDS


@pytest.mark.parametrize("command", PRINTED)
def test_each_command_of_the_page_is_green_in_a_fresh_folder(folder, command):
    bin_folder = Path(sys.executable).parent
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(bin_folder / shlex.split(command)[0]), *shlex.split(command)[1:]],
        cwd=folder,
        env=os.environ | {"PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert PRINTED[command] in done.stdout
