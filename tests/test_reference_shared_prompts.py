"""Two runners on one prompt cache: captures without a direct run, over a pool that was drained."""

from capturegate.backend import Backend
from capturegate.gates.base import Evidence
from capturegate.gates.driver_allocation import NoDriverAllocationInWindow
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.pool import DevicePool
from capturegate_reference.shared_prompts_adapter import SharedPromptsAdapter
from reference_runs import no_pre_grow


def shared(**config):
    backend = Backend(FakeDevice())
    defaults = {key: default for key, (_, default) in SharedPromptsAdapter.config_keys.items()}
    return backend, SharedPromptsAdapter(backend, defaults | config, oracle=False)


def there_and_back(backend, adapter):
    """Prove a graph in both rooms, drain, and come back to the first."""
    for label, act in (
        ("seeded", lambda: adapter.prompt(tokens=8)),
        ("elsewhere", lambda: adapter.prompt(tokens=8, runner=2)),
        ("drain", adapter.drain),
        ("back", lambda: adapter.prompt(tokens=8)),
    ):
        backend.recorder.phase = label
        act()


def test_a_graph_that_comes_back_to_a_proven_room_is_captured_without_a_direct_run():
    backend, adapter = shared()
    there_and_back(backend, adapter)
    back = [event.api for event in backend.trace(pool=True).phase("back")]
    assert 1 == back.count("cudaStreamBeginCapture")
    assert 0 == back.count("graph.ran_directly")
    assert "cudaMalloc" in back[: back.index("cudaStreamBeginCapture")]
    adapter.close()


def test_an_allocation_in_a_prompts_window_names_the_cache_that_opened_it(monkeypatch):
    monkeypatch.setattr(DevicePool, "pre_grow_for_capture", no_pre_grow)
    backend, adapter = shared(capture_mode="relaxed")
    there_and_back(backend, adapter)
    trace = backend.trace(pool=True)
    judged = NoDriverAllocationInWindow().judge(Evidence(trace=trace, runs=()), {})
    assert "broken" == judged.verdict
    frames = [f"{frame.module}:{frame.function}" for frame in trace.stack(judged.witness[0])]
    assert "capturegate_reference.prompt_cache:PromptGraphCache._record" in frames
    adapter.close()
