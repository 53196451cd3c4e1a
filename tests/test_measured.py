"""The figures of docs/reference-engine.md, against what was measured on a device."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "reference-engine.md").read_text()
PROMPTS = json.loads((DOCS / "measured/prompt-graphs-h200.json").read_text())
EXPERIMENTS = json.loads((DOCS / "measured/experiments-h200.json").read_text())
MODELS = ("submission-bound", "compute-bound")
ROWS = {
    "prompt time, off / on": "prompt_gain",
    "host's share in submission, off": "host_share_off",
    "host's share in submission, on": "host_share_on",
    "batch-one decode step, on / off": "decode_on_over_off",
    "release of the prompt graphs, once, in decode steps": "release_in_steps",
}


def cells_of(row):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip(" *") for cell in line.split("|")[2:4]]


@pytest.mark.parametrize("row", ROWS)
def test_a_figure_of_the_page_is_the_one_that_was_measured(row):
    for cell, model in zip(cells_of(row), MODELS, strict=True):
        decimals = len(cell.partition(".")[2])
        assert cell == f"{PROMPTS[model][ROWS[row]]:.{decimals}f}", model


def test_outputs_were_the_same_bytes_and_prompts_were_replayed():
    assert ["the same bytes"] * 2 == cells_of("outputs, on against off")
    for model in MODELS:
        assert PROMPTS[model]["same_bytes"] is True
        assert PROMPTS[model]["prompts_timed"] <= PROMPTS[model]["prompts_replayed"]


def test_all_three_experiments_proved_their_claim_on_the_device():
    results = {item["name"]: item["result"] for item in EXPERIMENTS["experiments"]}
    assert dict.fromkeys(("async-lever", "fixed-code", "graphs-off"), "proves") == results


def test_what_was_measured_ran_on_the_device_that_the_page_names():
    devices = [arm["device"] for item in EXPERIMENTS["experiments"] for arm in item["arms"]]
    assert 6 == len(devices)
    for device in (PROMPTS["device"], *devices):
        assert "NVIDIA H200" == device["device"]
        version = int(device["cuda"])
        told = f"driver {device['driver']}, CUDA runtime {version // 1000}.{version % 1000 // 10}"
        assert 2 == PAGE.replace("\n", " ").count(told)
