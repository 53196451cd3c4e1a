"""Steps that get no graph, captures that fail, and the engine that allocates on purpose."""

import pytest

from capturegate.backend import CudaError
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.allocating import AllocatingAdapter
from capturegate_reference.instruments import InertDevice
from capturegate_reference.pool import DevicePool
from reference_runs import Run, no_pre_grow


@pytest.mark.parametrize(
    ("config", "step", "reason"),
    [
        ({"decode_graph": False}, {}, "switch_off"),
        ({"max_num_seqs": 2}, {"requests": 3}, "too_large"),
        ({"padding": False}, {"requests": 3}, "padding"),
    ],
)
def test_a_declined_step_runs_eagerly_and_is_counted_with_its_reason(config, step, reason):
    run = Run(**config)
    told = run.step(**step)
    counts = run.adapter.counters()
    assert ("eager", reason) == (told["state"], told["reason"])
    assert (
        counts["eager_steps"],
        counts["declined"],
        counts[f"declined.{reason}"],
        counts["cold_steps"],
    ) == (1, 1, 1, 0)
    run.close()


def test_a_ragged_step_and_a_third_number_of_tokens_get_no_graph():
    run = Run()
    assert run.adapter.ragged_step(requests=2)["reason"] == "ragged"
    assert [run.step()["state"], run.step(tokens=2)["state"]] == ["cold", "cold"]
    assert run.step(tokens=3)["reason"] == "too_many_lengths"
    run.close()


def test_under_bypass_a_step_is_declined_or_attempted_as_configured(monkeypatch):
    monkeypatch.setattr("capturegate_reference.pool.pool_bypassed", lambda: True)
    run = Run()
    assert tuple(run.step()[key] for key in ("state", "reason")) == ("eager", "bypass")
    run.close()
    attempt = Run(capture_under_bypass="attempt", capture_mode="relaxed")
    assert attempt.step()["state"] == "cold"
    with pytest.raises(CudaError, match="cudaErrorIllegalAddress"):
        attempt.step("capture")
    assert attempt.inside()[0] > 21
    assert [detail["profile"] for detail in attempt.notes("pool.profile")] == [{}]


def test_three_requests_with_two_tokens_and_two_with_three_do_not_share_a_graph():
    run = Run()
    run.step(requests=3, tokens=2)
    run.step(requests=2, tokens=3)
    assert list(run.driver._rings) == [(4, 2, True), (2, 3, True)]
    run.close()


def test_a_speculative_step_uses_the_ring_and_agrees_with_eager():
    subject, oracle = Run(), Run(oracle=True)
    states = []
    for _ in range(6):
        mine, theirs = (run.step(requests=2, tokens=2) for run in (subject, oracle))
        states.append(mine["state"])
        assert (theirs["sampled"], oracle.logits()) == (mine["sampled"], subject.logits())
    assert states == ["cold", "cold", "capture", "capture", "replay", "replay"]
    subject.close()
    oracle.close()


def test_speculation_changes_no_token():
    plain, speculative = Run(), Run()
    wanted = [plain.step()["sampled"] for _ in range(12)]
    got = []
    while len(got) < 12:
        got += speculative.step(tokens=2)["sampled"].split()
    assert wanted == got[:12]
    plain.close()
    speculative.close()


def test_a_refused_allocation_in_the_window_is_the_cause_that_is_raised(monkeypatch):
    run, oracle = Run(), Run(oracle=True)
    for one in (run, oracle):
        one.step()
    run.adapter.drain()
    with monkeypatch.context() as patch:
        patch.setattr(DevicePool, "pre_grow_for_capture", no_pre_grow)
        with pytest.raises(CudaError) as caught:
            run.step("lost")
    assert (
        caught.value.api,
        caught.value.error,
    ) == ("cudaMalloc", "cudaErrorStreamCaptureUnsupported")
    assert (
        run.adapter.counters()["failed"],
        run.adapter.counters()["captures"],
        run.backend.get_last_error(),
    ) == (1, 0, "cudaSuccess")
    assert frozenset() == run.backend.trace().unlooked
    states = []
    for _ in range(3):
        states.append(run.step()["state"])
        oracle.step()
        assert oracle.logits() == run.logits()
    assert states == ["cold", "capture", "replay"]
    run.close()
    oracle.close()


def test_a_close_that_is_refused_reaches_the_caller_and_the_next_steps_recover(monkeypatch):
    run = Run()
    run.step()
    model = type(run.adapter._engine.model)
    forward, side = model.forward, run.backend.stream_create()
    fork = run.backend.event_create()

    def forked(self, inputs, hidden, logits, stream, **more):
        run.backend.event_record(fork, stream)
        run.backend.stream_wait_event(side, fork)
        run.backend.memset_async(logits.pointer, 0, 4, side)
        forward(self, inputs, hidden, logits, stream, **more)

    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", forked)
        with pytest.raises(CudaError, match="cudaErrorStreamCaptureUnjoined"):
            run.step()
    counts = run.adapter.counters()
    assert tuple(counts[n] for n in ("failed", "captures", "begins", "ends")) == (1, 0, 1, 1)
    assert run.states(3) == ["cold", "capture", "replay"]
    run.close()


def test_a_backend_that_runs_a_capture_eagerly_is_inert_and_not_failed():
    run, oracle = Run(device=InertDevice(FakeDevice())), Run(oracle=True)
    states = []
    for _ in range(4):
        states.append(run.step()["state"])
        oracle.step()
        assert oracle.logits() == run.logits()
    assert states == ["cold", "inert", "cold", "inert"]
    counts = run.adapter.counters()
    assert tuple(counts[name] for name in ("inert", "failed", "captures")) == (2, 0, 0)
    assert (counts["begins"], counts["ends"]) == (0, 0)
    run.close()
    oracle.close()


def test_a_pass_that_fails_where_nothing_is_captured_ends_no_capture(monkeypatch):
    run = Run(device=InertDevice(FakeDevice()))
    run.step()

    def lost(*args, **more):
        raise ValueError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(type(run.adapter._engine.model), "forward", lost)
        with pytest.raises(ValueError, match="lost"):
            run.step()
    counts = run.adapter.counters()
    assert tuple(counts[n] for n in ("failed", "inert", "begins", "ends")) == (1, 0, 0, 0)
    assert run.states(2) == ["cold", "inert"]
    run.close()


def test_the_allocating_engine_just_computes_on_a_device_that_captures_nothing():
    run = Run(adapter=AllocatingAdapter, device=InertDevice(FakeDevice()))
    assert ["cold", "inert", "inert"] == [run.adapter.step()["state"] for _ in range(3)]
    (output,) = run.adapter.outputs()
    assert 6.0 == memoryview(run.backend.harness_read(output.pointer, 4)).cast("f")[0]
    run.close()


def test_the_allocating_engine_allocates_inside_its_window_and_computes_right():
    run = Run(adapter=AllocatingAdapter, capture_mode="relaxed")
    states = []
    for number in range(1, 6):
        states.append(run.adapter.step()["state"])
        (output,) = run.adapter.outputs()
        data = run.backend.harness_read(output.pointer, 4)
        assert float(2 * number) == memoryview(data).cast("f")[0]
        run.adapter.drain()
    assert states == ["cold", "capture", "replay", "replay", "replay"]
    assert run.inside() == [1]
    run.close()


def test_the_allocating_engine_loses_its_capture_where_the_device_refuses():
    run = Run(adapter=AllocatingAdapter)
    run.adapter.step()
    with pytest.raises(CudaError, match="cudaMalloc returned cudaErrorStreamCaptureUnsupported"):
        run.adapter.step()
    run.close()
