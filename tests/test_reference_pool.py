"""The device pool's arithmetic, on the fake device."""

import threading

import pytest

from capturegate.backend import Backend, CudaError
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference import pool as pool_module
from capturegate_reference.errors import PoolError
from capturegate_reference.pool import DevicePool
from capturegate_reference.scratch import Scratch, scope
from capturegate_reference.switches import Switches

DEFAULTS = {
    "pool_bypass": False,
    "pool_exact": False,
    "pool_borrow": True,
    "async_executor": False,
    "decode_graph": True,
    "prompt_graph_capture_seed": False,
}


@pytest.fixture
def backend():
    backend = Backend(FakeDevice())
    yield backend
    backend.close()


@pytest.fixture
def set_switch(monkeypatch):
    def switch(**changed):
        monkeypatch.setattr(pool_module, "switches", lambda: Switches(**(DEFAULTS | changed)))

    switch()
    return switch


@pytest.fixture
def pool(backend, set_switch):
    return DevicePool(backend, "main")


def calls(backend, api):
    return [event for event in backend.trace().events if event.api == api]


def test_a_block_that_came_back_is_handed_out_again_newest_first(pool):
    first, second = pool.get(100), pool.get(100)
    pool.put(first)
    pool.put(second)
    again = pool.get(97)
    assert (second.pointer, "hit") == (again.pointer, again.source)
    assert (pool.figures.hits, pool.figures.misses) == (1, 2)


def test_a_miss_asks_the_driver_for_the_whole_class(backend, pool):
    block = pool.get(1000)
    assert block.pointer.nbytes == 1024
    assert [event.nbytes for event in calls(backend, "cudaMalloc")] == [1024]


def test_two_sizes_of_one_class_share_blocks(pool):
    pool.put(pool.get(32400))
    assert pool.get(32768).source == "hit"


def test_a_larger_block_is_lent_up_to_twice_the_class_and_goes_home_to_its_own(pool):
    large = pool.get(128)
    pool.put(large)
    loan = pool.get(64)
    assert (loan.source, loan.charged_class, loan.size_class) == ("borrow", 64, 128)
    pool.put(loan)
    assert pool.get(128).source == "hit"
    assert pool.figures.borrows == 1


def test_nothing_is_lent_beyond_twice_the_class(pool):
    pool.put(pool.get(136))
    assert pool.get(64).source == "driver"


def test_the_smallest_larger_class_lends_first(pool):
    wider, wide = pool.get(128), pool.get(96)
    pool.put(wider)
    pool.put(wide)
    assert pool.get(64).size_class == 96


def test_an_own_block_comes_before_a_loan(pool):
    own, larger = pool.get(64), pool.get(96)
    pool.put(own)
    pool.put(larger)
    assert pool.get(64).size_class == 64


def test_borrowing_can_be_switched_off(backend, set_switch):
    set_switch(pool_borrow=False)
    pool = DevicePool(backend, "main")
    pool.put(pool.get(128))
    assert pool.get(64).source == "driver"


def test_the_exact_lane_keeps_sizes_and_never_borrows(backend, set_switch):
    set_switch(pool_exact=True)
    pool = DevicePool(backend, "main")
    pool.put(pool.get(1000))
    assert pool.get(999).source == "driver"
    assert pool.get(1000).source == "hit"


def test_under_bypass_a_get_is_a_driver_allocation_and_a_put_a_driver_free(backend, set_switch):
    set_switch(pool_bypass=True)
    pool = DevicePool(backend, "main")
    pool.put(pool.get(1000))
    pool.get(1000)
    assert [event.nbytes for event in calls(backend, "cudaMalloc")] == [1000, 1000]
    assert len(calls(backend, "cudaFree")) == 1
    assert (pool.figures.hits, pool.figures.misses) == (0, 0)
    assert pool.drain() == 0
    assert pool.pre_grow_for_capture({64: 3}) == 0
    assert pool.step_demand_profile() == {}


def test_a_drain_gives_the_free_blocks_to_the_driver_and_leaves_the_rest(backend, pool):
    kept, back = pool.get(64), pool.get(1000)
    pool.put(back)
    assert pool.figures.retained_bytes == 1024
    assert pool.drain() == 1024
    assert [event.nbytes for event in calls(backend, "cudaFree")] == [1024]
    assert (pool.figures.retained_bytes, pool.figures.live, pool.figures.misses) == (0, 1, 2)
    pool.put(kept)
    assert pool.get(64).source == "hit"


def test_a_profile_is_the_peak_above_what_was_out_at_the_boundary(pool):
    before = pool.get(64)
    pool.mark_step_boundary()
    blocks = [pool.get(64), pool.get(64), pool.get(1000)]
    profile = pool.step_demand_profile()
    for block in (before, *blocks):
        pool.put(block)
    assert {64: 2, 1024: 1} == profile == pool.step_demand_profile()
    pool.mark_step_boundary()
    assert pool.step_demand_profile() == {}
    assert profile == {64: 2, 1024: 1}


def test_a_loan_is_charged_to_the_class_that_asked(pool):
    pool.put(pool.get(128))
    pool.mark_step_boundary()
    pool.get(64)
    assert pool.step_demand_profile() == {64: 1}


def test_a_block_out_at_the_boundary_and_back_before_the_peak_makes_a_profile_short(pool):
    early = pool.get(64)
    pool.mark_step_boundary()
    pool.put(early)
    for _ in range(2):
        pool.get(64)
    assert pool.step_demand_profile() == {64: 1}


def test_a_pre_grow_makes_what_is_missing_and_a_second_one_nothing(backend, pool):
    pool.put(pool.get(64))
    assert pool.pre_grow_for_capture({64: 3, 1024: 2}) == 4
    assert pool.pre_grow_for_capture({64: 3, 1024: 2}) == 0
    assert pool.pre_grow_for_capture({}) == 0
    assert len(calls(backend, "cudaMalloc")) == 5
    assert [pool.get(n).source for n in (64, 64, 64, 1000, 1000)] == ["hit"] * 5


def test_a_pre_grow_reserves_nothing(pool):
    pool.pre_grow_for_capture({64: 1})
    pool.get(64)
    assert pool.get(64).source == "driver"


def test_a_refused_allocation_leaves_no_demand_behind(backend, pool, monkeypatch):
    pool.mark_step_boundary()
    pool.put(pool.get(64))

    def refuse(nbytes):
        raise CudaError("cudaMalloc", "cudaErrorMemoryAllocation")

    pool.get(64)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "malloc", refuse)
        with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
            pool.get(64)
    assert pool.step_demand_profile() == {64: 1}
    assert pool.figures.live == 1


def test_a_refused_allocation_leaves_a_peak_that_others_overtook(backend, pool, monkeypatch):
    pool.mark_step_boundary()
    inner = []

    def refuse(nbytes):
        if not inner:
            monkeypatch.setattr(backend, "malloc", Backend.malloc.__get__(backend))
            inner.append(pool.get(64))
        raise CudaError("cudaMalloc", "cudaErrorMemoryAllocation")

    monkeypatch.setattr(backend, "malloc", refuse)
    with pytest.raises(CudaError):
        pool.get(64)
    assert pool.step_demand_profile() == {64: 2}


def test_a_request_refused_after_a_boundary_does_not_lower_the_next_peak(
    backend, pool, monkeypatch
):
    def refuse(nbytes):
        pool.mark_step_boundary()
        raise CudaError("cudaMalloc", "cudaErrorMemoryAllocation")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "malloc", refuse)
        with pytest.raises(CudaError):
            pool.get(64)
    pool.get(64)
    assert pool.step_demand_profile() == {64: 1}


def test_pinned_blocks_are_kept_from_the_next_tenant_until_the_graph_is_dropped(pool):
    with pool.recording() as taken:
        returned, out, lender = pool.get(64), pool.get(64), pool.get(1000)
        pool.put(returned)
    pool.pin_for_graph("graph", taken)
    pool.put(out)
    pool.put(lender)
    baked = {block.pointer.address for block in taken}
    tenants = [pool.get(n) for n in (64, 64, 1000)]
    assert [block.source for block in tenants] == ["driver"] * 3
    assert baked.isdisjoint(block.pointer.address for block in tenants)
    assert (pool.figures.pinned_bytes, pool.drain()) == (1152, 0)
    pool.unpin_for_graph("graph")
    assert (pool.figures.pinned_bytes, pool.drain()) == (0, 1152)


def test_a_borrowed_block_is_pinned_by_identity(pool):
    pool.put(pool.get(128))
    with pool.recording() as taken:
        pool.put(pool.get(64))
    pool.pin_for_graph("graph", taken)
    assert pool.get(128).source == "driver"


def test_a_block_that_two_graphs_pin_is_free_when_both_are_gone(pool):
    block = pool.get(64)
    pool.pin_for_graph("one", [block])
    pool.pin_for_graph("two", [block])
    pool.put(block)
    pool.unpin_for_graph("one")
    assert pool.get(64).source == "driver"
    pool.unpin_for_graph("two")
    assert pool.get(64).source == "hit"


def test_a_recording_sees_only_its_own_thread(pool):
    with pool.recording() as taken:
        other = threading.Thread(target=pool.get, args=(64,))
        other.start()
        other.join()
        mine = pool.get(64)
    assert [mine] == taken


def test_a_leased_block_is_put_back_by_its_holder_alone(pool):
    block, holder = pool.get(64), object()
    pool.lease(block, holder)
    with pytest.raises(PoolError, match="does not hold it"):
        pool.put(block)
    with pytest.raises(PoolError, match="leased twice"):
        pool.lease(block, object())
    pool.put(block, holder)
    with pytest.raises(PoolError, match="not out"):
        pool.lease(block, holder)


def test_a_block_is_put_back_once_and_into_its_own_pool(backend, pool):
    block = pool.get(64)
    with pytest.raises(PoolError, match="a block of pool 'main' was put into 'other'"):
        DevicePool(backend, "other").put(block)
    pool.put(block)
    with pytest.raises(PoolError, match="put back twice"):
        pool.put(block)


def test_pools_of_two_devices_share_no_class_and_take_no_block_of_each_other(backend, pool):
    elsewhere = Backend(FakeDevice())
    abroad = DevicePool(elsewhere, "abroad")
    pool.put(pool.get(1000))
    there = abroad.get(1000)
    assert (there.source, pool.figures.retained_bytes) == ("driver", 1024)
    here = pool.get(1000)
    assert here.source == "hit"
    with pytest.raises(PoolError, match="a block of pool 'main' was put into 'abroad'"):
        abroad.put(here)
    with pytest.raises(PoolError, match="a block of pool 'abroad' was put into 'main'"):
        pool.put(there)
    assert (pool.figures.live, abroad.figures.live) == (1, 1)
    pool.put(here)
    abroad.put(there)
    assert (pool.drain(), abroad.drain()) == (1024, 1024)
    assert [len(calls(b, "cudaFree")) for b in (backend, elsewhere)] == [1, 1]
    elsewhere.close()


def test_two_shapes_of_one_class_each_have_a_demand_of_their_own(pool):
    demands = []
    for sizes in ((1000, 1024, 1010), (1020,)):
        pool.mark_step_boundary()
        for block in [pool.get(nbytes) for nbytes in sizes]:
            pool.put(block)
        demands.append(pool.step_demand_profile())
    assert demands == [{1024: 3}, {1024: 1}]
    assert (pool.figures.misses, pool.figures.hits) == (3, 1)
    pool.drain()
    assert [pool.pre_grow_for_capture(demands[shape]) for shape in (1, 0, 1, 0)] == [1, 2, 0, 0]


def test_scratch_of_another_backend_is_refused(pool):
    stranger = Backend(FakeDevice())
    with pytest.raises(PoolError, match="belongs to another backend"):
        Scratch(stranger, pool)
    stranger.close()


def test_a_scope_redirects_scratch_of_its_thread_and_blocks_go_home(backend, pool):
    other = DevicePool(backend, "other")
    with scope(other):
        scratch = Scratch(backend, pool)
        scratch.array((16,))
        elsewhere = []
        thread = threading.Thread(
            target=lambda: elsewhere.append(Scratch(backend, pool).array((16,)))
        )
        thread.start()
        thread.join()
    assert (other.figures.live, pool.figures.live) == (1, 1)
    scratch.__exit__(None, None, None)
    assert (other.figures.live, other.figures.retained_bytes) == (0, 64)


def test_scratch_that_cannot_go_back_does_not_hide_what_went_wrong_first(
    backend, pool, set_switch, monkeypatch
):
    def refuse(pointer):
        raise CudaError("cudaFree", "cudaErrorStreamCaptureUnsupported")

    set_switch(pool_bypass=True)
    monkeypatch.setattr(backend, "free", refuse)
    with pytest.raises(ZeroDivisionError), Scratch(backend, pool) as scratch:
        scratch.array((4 // 0,) if scratch.array((4,)) else ())
    with pytest.raises(CudaError, match="cudaFree"), Scratch(backend, pool) as scratch:
        scratch.array((4,))


def test_eight_threads_never_share_a_block_and_every_request_is_counted(pool):
    out, lock, twice = set(), threading.Lock(), []

    def churn(seed):
        for turn in range(200):
            block = pool.get(64 + (seed * turn) % 4000)
            with lock:
                if block.pointer.allocation in out:
                    twice.append(block)
                out.add(block.pointer.allocation)
            with lock:
                out.discard(block.pointer.allocation)
            pool.put(block)

    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert twice == []
    figures = pool.figures
    assert (figures.hits + figures.misses, figures.live) == (1600, 0)
