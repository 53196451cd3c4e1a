"""Files that are refused, each with its exact diagnostic, within bounds of time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capturegate.errors import InputError
from capturegate.scenario.loader import load_scenario

FOLDER = Path(__file__).parent / "refusals"
REFUSED = sorted(FOLDER.glob("*.scenario.yaml"))

# Refuses one file under 2 s of processor time, and prints its peak memory and the message.
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
from capturegate.errors import InputError
from capturegate.scenario.loader import load_scenario
try:
    load_scenario(sys.argv[1])
except InputError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    print(error)
"""


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.name.split(".")[0])
def test_a_broken_file_is_refused_with_exactly_this_message(path):
    expected = path.with_name(path.name.replace(".scenario.yaml", ".expected"))

    with pytest.raises(InputError) as caught:
        load_scenario(path)

    message = str(caught.value).replace(str(path), path.name)
    assert expected.read_text(encoding="utf-8").rstrip("\n") == message


def test_the_folder_holds_refusals_and_every_expected_message_has_its_file():
    expected = {path.name.removesuffix(".expected") for path in FOLDER.glob("*.expected")}

    assert len(REFUSED) >= 60
    assert expected == {path.name.removesuffix(".scenario.yaml") for path in REFUSED}


def _fifty_megabytes(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(50):
            file.write(b"# padding\n" * 100_000)


def _bomb(path: Path) -> None:
    lines = ['a0: &a0 ["lol"]']
    for level in range(1, 30):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    path.write_text("\n".join(lines))


HOSTILE = {
    "fifty megabytes": (_fifty_megabytes, "the file has 50,000,000 bytes"),
    "a bomb": (_bomb, "the anchor '&a0' is not allowed"),
    "a million brackets": (
        lambda path: path.write_text("[" * 1_000_000),
        "nesting depth",
    ),
    "nine hundred brackets": (
        lambda path: path.write_text("[" * 900 + "]" * 900),
        "this is nested too deeply",
    ),
    "half a million items": (
        lambda path: path.write_text("[" + "1," * 499_990 + "]"),
        "the file holds too many values",
    ),
    "thousands of unknown keys": (
        lambda path: path.write_text("".join(f"stepz{n}: 1\n" for n in range(20_000))),
        "unknown key 'stepz0' in a scenario",
    ),
    "a number of a million digits": (
        lambda path: path.write_text("a: " + "9" * 999_990),
        "is not a number as every reader of YAML spells it",
    ),
    "a word of a million letters": (
        lambda path: path.write_text("a" * 999_990),
        "a scenario file is the text 'aaaa",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_within_2_s_and_200_mb(name, tmp_path):
    make, message = HOSTILE[name]
    path = tmp_path / "hostile.scenario.yaml"
    make(path)

    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=False
    )

    assert (child.returncode, child.stderr) == (0, "")
    peak_kib, _, said = child.stdout.partition("\n")
    assert message in said
    assert len(said) < 10_000
    assert int(peak_kib) < 200 * 1024
