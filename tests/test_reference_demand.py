"""How much scratch a step takes, and how much of it a capture takes from the driver."""

from collections import Counter
from itertools import pairwise

import pytest

from capturegate_reference.ladder import size_class
from capturegate_reference.pool import DevicePool
from reference_runs import Run, no_pre_grow


def lifetimes(model, rows, *, hidden=480, mlp=1120, kv=160, rope=40, kept=16):
    """The scratch of one step: bytes a row, in the order of its requests and returns."""
    inputs = [4, 4, 4, 4, 4, 16, rope, rope]
    attention = [hidden, hidden, kv, kv, hidden, kv, hidden, kv, hidden, hidden]
    dense = [hidden, mlp, mlp, mlp, hidden]
    moe = [hidden, kept, kept, mlp, mlp, mlp, hidden]
    parts = [attention, {"dense": dense, "moe": moe}[model]] * 2 + [[hidden]]
    out, peaks = Counter(), Counter()
    for block in inputs:
        out[size_class(block * rows)] += 1
    peaks |= out
    for part in parts:
        peaks |= out + Counter(size_class(block * rows) for block in part)
    return dict(peaks)


@pytest.mark.parametrize("requests", [1, 2, 4, 8])
@pytest.mark.parametrize(("model", "demand"), [("dense", 21), ("moe", 23)])
def test_the_demand_follows_from_the_sizes(model, demand, requests):
    run = Run(model=model)
    run.states(2, requests=requests)
    (noted,) = run.notes("pool.profile")
    assert lifetimes(model, requests) == noted["profile"]
    assert demand == sum(noted["profile"].values())
    assert len(noted["profile"]) == 6
    classes = sorted(noted["profile"])
    assert all(large > 2 * small for small, large in pairwise(classes))
    run.close()


@pytest.mark.parametrize("model", ["dense", "moe"])
def test_on_a_drained_pool_all_of_the_demand_is_taken_before_the_window(model):
    run = Run(model=model, capture_mode="relaxed")
    run.step()
    assert run.adapter.drain()["freed_bytes"] > 0
    run.step("capture")
    demand = sum(lifetimes(model, 1).values())
    assert ([0], demand) == (run.inside(), run.allocations("capture"))
    created = run.notes("pool.pre_grew")[-1]["created"]
    assert lifetimes(model, 1) == {size: len(blocks) for size, blocks in created.items()}
    run.close()


@pytest.mark.parametrize("model", ["dense", "moe"])
def test_without_a_pre_grow_a_drained_pool_takes_the_whole_demand_in_the_window(model, monkeypatch):
    monkeypatch.setattr(DevicePool, "pre_grow_for_capture", no_pre_grow)
    run = Run(model=model, capture_mode="relaxed")
    run.step()
    run.adapter.drain()
    run.step("capture")
    demand = sum(lifetimes(model, 1).values())
    assert ([demand], demand) == (run.inside(), run.allocations("capture"))
    run.close()


def test_other_sizes_have_another_demand(monkeypatch):
    monkeypatch.setattr(DevicePool, "pre_grow_for_capture", no_pre_grow)
    run = Run(capture_mode="relaxed", mlp_width=120)
    run.step()
    run.adapter.drain()
    run.step("capture")
    assert sum(lifetimes("dense", 1, mlp=480).values()) == 18
    assert (run.inside(), run.allocations("capture")) == ([18], 18)
    run.close()


def test_a_profile_short_by_one_misses_once_in_every_class(monkeypatch):
    whole = DevicePool.step_demand_profile
    monkeypatch.setattr(
        DevicePool,
        "step_demand_profile",
        lambda pool: {size: count - 1 for size, count in whole(pool).items()},
    )
    run = Run(capture_mode="relaxed")
    run.step()
    run.adapter.drain()
    run.step("capture")
    assert (run.inside(), run.allocations("capture")) == ([6], 21)
    run.close()


def test_the_ring_takes_less_in_the_window_than_its_cold_step_took():
    run = Run(capture_mode="relaxed", async_executor=True)
    run.states(2)
    run.adapter.drain()
    run.step("capture")
    window = run.backend.trace().windows[0]
    trace = run.backend.trace(pool=True)
    taken = {e.detail["size_class"] for e in trace.inside(window) if e.api == "pool.get"}
    assert ([0], {160, 480, 1152}) == (run.inside(), taken)
    assert {4, 16, 40, 160, 480, 1152} == set(run.notes("pool.profile")[0]["profile"])
    run.close()


def test_a_narrow_step_after_a_wide_one_has_a_demand_of_its_own():
    run = Run(capture_mode="relaxed")
    run.states(2, requests=4)
    run.step()
    run.adapter.drain()
    run.step("narrow")
    assert lifetimes("dense", 1) == run.notes("pool.profile")[-1]["profile"]
    assert (run.inside(), run.allocations("narrow")) == ([0, 0], 21)
    run.close()


def test_a_boundary_that_is_not_marked_shows_after_a_wide_step(monkeypatch):
    monkeypatch.setattr(DevicePool, "mark_step_boundary", bool)
    run = Run(capture_mode="relaxed")
    run.step(requests=4)
    run.step()
    run.adapter.drain()
    run.step("narrow")
    profile = run.notes("pool.profile")[-1]["profile"]
    assert set(lifetimes("dense", 1)) < set(profile)
    run.close()
