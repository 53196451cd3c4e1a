"""The seed's story on a copy of the checkout: the pre-grow moved back behind the flag.

The command runs on edited files, through PYTHONPATH, as a developer would break them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("harness", "backends", "mutations", "scenarios")

W = "no-driver-allocation-in-window"
H = "capture-completes"
B = "pregrow-is-used"
E = "replay-matches-eager"
T = "replay-touches-only-its-own"

CENSUS = {W: "broken", B: "unknown"}
REFUSING = {
    W: "broken",
    H: "broken",
    B: "unknown",
    E: "unknown",
    "profile-covers-window": "unknown",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the source roots in which the pre-grow sits inside `if dbuf`."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "harness/capturegate_reference/decode.py"
    source = path.read_text()
    (call,) = re.findall(r"^( +)([\w.]+\.pre_grow_for_capture\(.*\))$", source, re.MULTILINE)
    indent, statement = call
    broken = f"{indent}if dbuf:\n{indent}    {statement}\n"
    path.write_text(source.replace(f"{indent}{statement}\n", broken))
    return copy


def run(checkout, *arguments):
    """Run the command on the copy; the exit code and the two streams."""
    paths = os.pathsep.join(str(checkout / folder) for folder in FOLDERS)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CAPTUREGATE_")}
    environment |= {"PYTHONPATH": paths, "COLUMNS": "110", "NO_COLOR": "1"}
    program = (
        "import sys, capturegate, capturegate_reference;"
        "files = [capturegate.__file__, capturegate_reference.__file__];"
        f"assert all(f.startswith({str(checkout)!r}) for f in files), files;"
        "from capturegate.cli.main import main; sys.argv[0] = 'capturegate'; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, "run", *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def report(checkout):
    """The JSON report of the whole run on the copy."""
    done = run(checkout, "--json", "-")
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


def changed(report):
    """Every gate that is not as expected and every check that did not pass, per case."""
    found = {}
    for case in report["cases"]:
        if case["skip"]:
            continue
        gates = {g["gate"]: g["verdict"] for g in case["gates"] if g["verdict"] != g["expected"]}
        checks = {c["id"] for c in case["checks"] if c["outcome"] == "failed"}
        if gates or checks:
            found[f"{case['scenario']}[{case['lane']}/{case['arm']}]"] = (gates, checks)
    return found


def is_server(case):
    return case.startswith("server-")


def test_exactly_the_drained_captures_without_a_ring_go_red_and_the_ring_twins_stay_green(report):
    expected = {"tenant-in-the-way[pooled/stays]": (CENSUS, set())}
    for scenario in ("decode-nonspec-dense", "decode-nonspec-moe", "wide-then-narrow"):
        expected[f"{scenario}[pooled/census]"] = (CENSUS, set())
        expected[f"{scenario}[pooled/refusing]"] = (REFUSING, set())
    expected["wide-then-narrow[pooled/control]"] = (REFUSING, set())
    for admitted in ("between", "before"):
        expected[f"prompt-scratch-apart[pooled/{admitted}]"] = (REFUSING, set())
    dead = {W: "broken", H: "broken", E: "unknown"}
    expected["async-lever[control/default]"] = (dead, set())
    expected["pinned-scratch[pooled/control]"] = (dead | {T: "unknown"}, set())
    assert {c: red for c, red in changed(report).items() if not is_server(c)} == expected


def test_exactly_the_servers_without_the_lever_die_of_it(report):
    dead = {case for case in changed(report) if is_server(case)}
    assert dead == {
        "server-default[pooled/default]",
        "server-longest-prefix[pooled/fifo]",
        "server-longest-prefix[pooled/lpm]",
        "server-prefix-caching[pooled/cached]",
        "server-short-of-memory[pooled/control]",
        "server-short-of-memory[pooled/short]",
        # Where nobody shares pages everybody speculates, and every step is the ring's.
        "server-speculation-discontinuity[pooled/sharing]",
    }


def test_what_is_unknown_is_blocked_by_what_is_broken(report):
    blocked = {
        (gate["gate"], gate["blocked_by"])
        for case in report["cases"]
        for gate in case["gates"]
        if gate["verdict"] == "unknown" != gate["expected"]
    }
    assert blocked == {(B, W), (E, H), (T, H), ("profile-covers-window", H)}


def test_the_census_counts_every_missing_block_and_the_refusing_arm_the_first(report):
    inside = {
        case["arm"]: gate["figures"]
        for case in report["cases"]
        for gate in case["gates"]
        if case["scenario"] == "decode-nonspec-dense" and gate["gate"] == W
        if case["lane"] == "pooled"
    }
    assert inside["refusing"]["inside"] == 1
    assert inside["census"]["inside"] == inside["census"]["step"] >= 20


def test_the_first_screen_names_the_pools_miss_with_file_and_line(checkout):
    done = run(checkout, "-k", "decode-nonspec-dense")
    screen = "\n".join(done.stdout.splitlines()[:40])
    source = (checkout / "harness/capturegate_reference/pool.py").read_text().splitlines()
    lines = [n for n, text in enumerate(source, 1) if ".malloc(" in text]
    assert any(re.search(rf"pool\.py:{line}\b", screen) for line in lines), screen
    assert re.search(r"class\W+\d+", screen)
    assert "capturegate run" in done.stdout
