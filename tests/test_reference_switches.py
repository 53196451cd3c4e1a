"""Switches are read once per process and take nothing but 0 and 1."""

import os
import subprocess
import sys

import pytest

PROBE = """
import os
from capturegate_reference.switches import switches
first = switches()
os.environ["{variable}"] = "{later}"
assert switches() is first
print("sentinel", first.{field})
"""


def read_in_a_child(variable, value, later, field):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAPTUREGATE_")}
    if value is not None:
        env[variable] = value
    program = PROBE.format(variable=variable, later=later, field=field)
    return subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("variable", "field", "default"),
    [
        ("CAPTUREGATE_POOL_BYPASS", "pool_bypass", "False"),
        ("CAPTUREGATE_POOL_BORROW", "pool_borrow", "True"),
        ("CAPTUREGATE_ASYNC_EXECUTOR", "async_executor", "False"),
        ("CAPTUREGATE_DECODE_GRAPH", "decode_graph", "True"),
    ],
)
def test_an_unset_switch_has_its_default_and_keeps_it_for_the_process(variable, field, default):
    later = "0" if default == "True" else "1"
    assert f"sentinel {default}\n" == read_in_a_child(variable, None, later, field).stdout


def test_one_is_on_and_zero_is_off_whatever_the_environment_says_later():
    on = read_in_a_child("CAPTUREGATE_POOL_EXACT", "1", "0", "pool_exact")
    off = read_in_a_child("CAPTUREGATE_POOL_BORROW", "0", "1", "pool_borrow")
    assert (on.stdout, off.stdout) == ("sentinel True\n", "sentinel False\n")


@pytest.mark.parametrize("value", ["", "yes", "2", "true", " 1"])
def test_any_other_value_is_refused_by_name(value):
    done = read_in_a_child("CAPTUREGATE_POOL_BYPASS", value, "0", "pool_bypass")
    assert "sentinel" not in done.stdout
    assert f"the switch CAPTUREGATE_POOL_BYPASS is set to {value!r}" in done.stderr
