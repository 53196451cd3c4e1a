"""A replay runs what was baked: not the engine's Python, and not what its objects point at."""

import pytest

from capturegate.backend import CudaError
from capturegate_reference.model import Model
from reference_runs import Run


def refuse(*_arguments, **_more):
    raise RuntimeError("the engine's forward pass ran during a replay")


@pytest.mark.parametrize("model", ["dense", "moe"])
def test_replays_match_although_the_forward_pass_of_the_engine_is_gone(model, monkeypatch):
    oracle = Run(model=model, oracle=True)
    wanted = []
    for _ in range(6):
        oracle.step()
        wanted.append(oracle.logits())
    run = Run(model=model)
    got = []
    for number in range(6):
        if number == 2:
            monkeypatch.setattr(Model, "forward", refuse)
        got.append((run.step()["state"], run.logits()))
    assert got == list(
        zip(["cold", "capture", "replay", "replay", "replay", "replay"], wanted, strict=True)
    )
    assert len(set(wanted)) == 6


def test_without_a_graph_the_missing_forward_pass_is_noticed(monkeypatch):
    run = Run(decode_graph=False)
    monkeypatch.setattr(Model, "forward", refuse)
    with pytest.raises(RuntimeError, match="ran during a replay"):
        run.step()


def written_by_the_capture(run):
    """Scratch blocks that the capture took, in the order of their addresses."""
    trace = run.backend.trace()
    (window,) = trace.windows
    return [e for e in trace.inside(window) if e.api == "pool.got"]


def test_replays_read_and_write_the_very_blocks_that_were_baked():
    run = Run()
    run.states(2)
    baked = {event.allocation for event in written_by_the_capture(run)}
    run.step("replay")
    (launch,) = (e for e in run.backend.trace().phase("replay") if e.api == "cudaGraphLaunch")
    written = {allocation for allocation, _, _ in launch.writes}
    assert len(baked) >= 20
    assert baked <= written


def test_a_block_that_moved_after_the_capture_changes_the_output():
    steady, moved = Run(), Run()
    steady.states(2)
    moved.states(2)
    assert moved.logits() == steady.logits()
    weights = moved.driver._model._weights.block.pointer
    content = moved.backend.harness_read(weights, weights.nbytes)
    elsewhere = moved.backend.malloc(weights.nbytes)
    moved.backend.harness_write(elsewhere, content)
    moved.backend.free(weights)
    tenant = moved.backend.malloc(weights.nbytes)
    moved.backend.harness_write(tenant, content[4:] + content[:4])
    assert tenant.address == weights.address != elsewhere.address
    assert tenant.allocation != weights.allocation
    moved.step()
    steady.step()
    assert moved.logits() != steady.logits()


def test_a_block_that_was_freed_after_the_capture_fails_the_replay():
    run = Run()
    run.states(2)
    run.backend.free(run.driver._model._weights.block.pointer)
    with pytest.raises(CudaError, match="cudaErrorIllegalAddress"):
        run.step()
