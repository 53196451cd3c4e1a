"""The decode driver: its states, and that a replay is real."""

from collections import Counter

import pytest

from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.errors import EngineError
from reference_runs import Run


def test_a_key_goes_from_cold_to_capture_to_replay():
    run = Run()
    assert run.states(4) == ["cold", "capture", "replay", "replay"]
    counts = run.adapter.counters()
    assert tuple(
        counts[name] for name in ("cold_steps", "begins", "ends", "captures", "replays")
    ) == (1, 1, 1, 1, 3)
    run.close()


def test_with_the_ring_two_slots_take_turns():
    run = Run(async_executor=True)
    assert run.states(6) == ["cold", "cold", "capture", "capture", "replay", "replay"]
    run.close()


@pytest.mark.parametrize("config", [{}, {"async_executor": True}])
@pytest.mark.parametrize("model", ["dense", "moe"])
@pytest.mark.parametrize("requests", [1, 3])
def test_every_step_writes_what_an_eager_engine_writes(model, requests, config):
    subject = Run(model=model, **config)
    oracle = Run(model=model, oracle=True, **config)
    seen = set()
    for _ in range(8):
        mine, theirs = (run.step(requests=requests) for run in (subject, oracle))
        assert theirs["state"] == "cold"
        assert theirs["sampled"] == mine["sampled"]
        assert oracle.logits() == subject.logits()
        seen.add(oracle.logits())
    assert len(seen) == 8
    assert subject.adapter.counters()["replays"] >= 4
    subject.close()
    oracle.close()


def test_replays_do_not_need_the_forward_pass(monkeypatch):
    subject, oracle = Run(), Run(oracle=True)
    for run in (subject, oracle):
        run.states(2, requests=2)

    def raise_(*args, **more):
        raise AssertionError("the forward pass ran")

    expected = []
    for _ in range(3):
        oracle.step(requests=2)
        expected.append(oracle.logits())
    monkeypatch.setattr(type(subject.adapter._engine.model), "forward", raise_)
    observed = []
    for _ in range(3):
        assert subject.step(requests=2)["state"] == "replay"
        observed.append(subject.logits())
    assert expected == observed
    with pytest.raises(AssertionError, match="the forward pass ran"):
        oracle.step(requests=2)


def test_a_replay_writes_where_the_graph_was_told_and_nowhere_else():
    run = Run()
    run.states(3)
    slot = run.driver.slots[0]
    before = run.logits()
    moved = run.backend.malloc(slot.logits.nbytes)
    slot.logits = moved.array(slot.logits.shape)
    run.step()
    assert before != run.logits()
    assert run.backend.harness_read(moved, 16) == run.logits()[:16]


def test_the_scratch_of_a_graph_is_not_handed_to_the_next_tenant():
    run = Run()
    run.states(2)
    engine = run.adapter._engine
    before = engine.pool.figures
    assert before.pinned_bytes > 0
    tenant = engine.pool.get(480)
    run.backend.harness_write(tenant.pointer, b"\x5a" * 480)
    run.states(2)
    assert run.backend.harness_read(tenant.pointer, 480) == b"\x5a" * 480
    engine.pool.put(tenant)
    run.close()


def test_at_least_three_pages_are_attended_to():
    run = Run()
    run.step()
    request = run.adapter._engine._requests[0]
    assert (len(request.pages), request.position) == (4, 36)
    assert request.position // 16 == 2  # standing in its third page
    first, last = (page * 16 * 160 for page in (request.pages[0], request.pages[2]))
    outcomes = []
    for offset in (first, last):
        other = Run()
        other.step()
        keys = other.adapter._engine.model._values[0].pointer
        other.backend.harness_write(keys.at(offset), b"\x00\x00\x20\x41" * 40)
        other.step()
        outcomes.append(other.logits())
        other.close()
    run.step()
    assert len({run.logits(), *outcomes}) == 3
    run.close()


def test_padding_rows_are_read_by_nobody():
    run = Run()
    run.states(4, requests=3)
    (output,) = run.adapter.outputs()
    assert (output.rows, output.rows_padded, output.row_bytes) == (3, 4, 800)
    pad = range(output.pointer.offset + 2400, output.pointer.offset + 3200)
    reads = [
        (start, length)
        for event in run.backend.trace().events
        if event.actor == "engine"
        for allocation, start, length in event.reads
        if allocation == output.pointer.allocation
    ]
    assert reads
    assert not [r for r in reads if max(r[0], pad.start) < min(sum(r), pad.stop)]
    run.close()


def test_another_number_of_block_table_columns_starts_the_slot_anew(monkeypatch):
    run = Run()
    run.states(3)
    step = type(run.driver).step

    def narrower(driver, batch):
        return step(driver, type(batch)(entries=batch.entries, columns=5, spec=batch.spec))

    monkeypatch.setattr(type(run.driver), "step", narrower)
    assert run.states(3) == ["cold", "capture", "replay"]
    assert len(run.driver.slots) == 1
    run.close()


def test_a_request_that_outgrows_its_context_is_refused_by_name():
    run = Run(prompt_tokens=63)
    run.states(2)
    with pytest.raises(EngineError, match="no room for 1 more token"):
        run.adapter._engine.step([1])


def test_more_requests_than_pages_are_refused():
    run = Run(requests_max=2)
    with pytest.raises(EngineError, match="no KV pages are left for request 3"):
        run.adapter._engine.step([1] * 3)


def test_closing_gives_everything_back():
    device = FakeDevice()
    run = Run(device=device, model="moe")
    before = device.mem_get_info().value[0]
    run.states(3)
    run.states(6, requests=3, tokens=2)
    run.adapter.close()
    trace = run.backend.trace()
    made = Counter(e.allocation for e in trace.events if e.allocates and not e.refused)
    freed = Counter(e.allocation for e in trace.events if e.api in ("cudaFree", "cudaFreeHost"))
    assert made == freed
    assert before < device.mem_get_info().value[0]


def test_known_tokens_lead_on_alike_however_they_were_submitted():
    followed = []
    for config in ({"decode_graph": False}, {}, {"async_executor": True}):
        run = Run(layers=1, prompt_tokens=2, **config)
        run.adapter.steps_ahead(count=10)
        followed.append([run.step()["first_token"] for _ in range(3)])
        run.close()
    assert [[170, 197, 17]] * 3 == followed


def test_steps_ahead_are_not_waited_for():
    run = Run()
    run.states(3)
    before = len(run.backend.trace().events)
    run.adapter.steps_ahead(count=3)
    later = [event.api for event in run.backend.trace().events[before:]]
    assert 3 == later.count("cudaGraphLaunch")
    assert "cudaStreamSynchronize" not in later
    assert 3 == later.count("cudaEventSynchronize")
    run.close()
