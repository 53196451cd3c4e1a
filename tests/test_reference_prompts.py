"""The prompt path: first directly, then as one launch, and never what was not proven."""

import pytest

from capturegate.backend import Backend, CudaError, Outcome
from capturegate.gates.nothing_left import lives
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.instruments import InertDevice
from capturegate_reference.prompt_adapter import PromptAdapter


class Prompts:
    """The prompt path on a fresh device."""

    def __init__(self, device=None, **config):
        self.backend = Backend(device or FakeDevice())
        defaults = {key: default for key, (_, default) in PromptAdapter.config_keys.items()}
        self.adapter = PromptAdapter(self.backend, defaults | config, oracle=False)
        self.core = self.adapter._core
        self.cache = self.core.prompts.cache

    def __call__(self, label, tokens, **more):
        self.backend.recorder.phase = label
        self.adapter.prompt(tokens=tokens, **more)
        return self.apis(label)

    def logits(self):
        (output,) = self.adapter.outputs()
        return self.backend.harness_read(output.pointer, output.rows * output.row_bytes)

    def apis(self, label):
        return [event.api for event in self.backend.trace().phase(label)]


def test_the_first_observation_launches_no_graph_and_a_later_one_nothing_else():
    run = Prompts()
    first, later = run("first", 8), run("later", 8)
    assert (first.count("cudaGraphLaunch"), first.count("cudaGraphInstantiate")) == (0, 1)
    work = [api for api in later if api in ("cudaGraphLaunch", "cudaLaunchKernel")]
    # The launch of the graph, and the sampler's kernel.
    assert work == ["cudaGraphLaunch", "cudaLaunchKernel"]


def test_output_is_the_same_byte_for_byte_with_the_cache_and_without():
    cached, plain = Prompts(graphs=True), Prompts(graphs=False)
    for number in range(4):
        for run in (cached, plain):
            run(f"{number}", 13)
        assert cached.logits() == plain.logits()
    assert (cached.cache.counts["replayed"], plain.cache.counts["replayed"]) == (6, 0)


def test_graphs_that_share_a_first_node_are_not_confused():
    run = Prompts(part_tokens=8)
    run("two parts", 13)
    run("one part", 8)
    firsts = {entry.nodes[0] for entries in run.cache._entries.values() for entry in entries}
    assert (run.cache.size, len(firsts)) == (3, 2)


def test_an_observation_whose_addresses_changed_runs_directly_before_its_next_launch():
    run = Prompts(part_tokens=16)
    run("short", 8)
    run("longer", 12)
    assert "cudaGraphLaunch" not in run("moved", 8)
    assert "cudaGraphLaunch" in run("again", 8)
    assert run.cache.counts["updated"] == 1


def test_an_update_that_the_driver_refuses_makes_a_new_executable():
    device = FakeDevice()
    update = device.graph_exec_update

    def refuse(executable, graph):
        return update(executable, graph)._replace(error="cudaErrorGraphExecUpdateFailure")

    device.graph_exec_update = refuse
    run = Prompts(part_tokens=16, device=device)
    run("short", 8)
    run("longer", 12)
    run("moved", 8)
    run("again", 8)
    assert (run.cache.counts["updated"], run.cache.counts["reinstantiated"]) == (0, 1)
    assert run.cache.size == 2


class RefusedSecondExecutable:
    """A device that refuses every update, and the second executable that is made in its place."""

    def __init__(self):
        self._device = FakeDevice()
        self._asked = 0

    def __getattr__(self, name):
        return getattr(self._device, name)

    def graph_instantiate(self, graph):
        self._asked += 1
        if self._asked == 2:
            return Outcome("cudaErrorMemoryAllocation")
        return self._device.graph_instantiate(graph)

    def graph_exec_update(self, *args):  # noqa: ARG002
        return Outcome("cudaErrorGraphExecUpdateFailure")


def test_a_takeover_that_is_refused_takes_the_entry_along():
    run = Prompts(part_tokens=8, siblings_max=1, device=RefusedSecondExecutable())
    plain = Prompts(graphs=False)
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        run("two parts", 16)
    assert 0 == run.cache.size
    plain("two parts", 16)
    launches = []
    for label in ("first", "second", "third"):
        launches.append("cudaGraphLaunch" in run(label, 8))
        plain(label, 8)
        assert plain.logits() == run.logits()
    assert [False, True, True] == launches
    run.adapter.close()
    assert [] == lives(run.backend.trace())[1]


def test_an_update_that_is_refused_takes_the_entry_along():
    run = Prompts(part_tokens=16, device=RefusedSecondExecutable())
    run("short", 8)
    ((entry,),) = run.cache._entries.values()
    entry.proven.clear()
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        run("moved", 8)
    assert (0, {}) == (run.cache.size, run.cache._entries)
    assert "cudaGraphLaunch" not in run("first", 8)
    assert "cudaGraphLaunch" in run("again", 8)


def test_a_taken_over_executable_has_proven_nothing_but_its_new_graph():
    run = Prompts(part_tokens=8, siblings_max=1)
    run("two parts", 16)
    ((entry,),) = run.cache._entries.values()
    entry.proven.append(("proven by the former graph",))
    run("taken over", 16)
    ((entry,),) = run.cache._entries.values()
    assert [entry.properties] == list(entry.proven)


def test_the_first_batch_one_decode_graph_releases_the_prompts_and_batch_two_does_not():
    run = Prompts()
    run("first", 8)
    run("second", 8)
    for _ in range(2):
        run.adapter.decode(requests=2)
    after_two = run.cache.size
    for _ in range(2):
        run.adapter.decode(requests=1)
    assert (after_two, run.cache.size, run.cache.counts["released"]) == (1, 0, 1)


def test_a_decode_step_is_of_as_many_requests_as_are_configured_where_it_does_not_say():
    run = Prompts(decoding=2)
    run("first", 8)
    run("second", 8)
    run.adapter.decode()
    two = run.adapter.outputs()[0].rows
    run.adapter.decode(requests=1)
    assert (two, run.adapter.outputs()[0].rows) == (2, 1)


def test_a_capture_that_fails_leaves_the_stream_idle_and_the_observation_run():
    run = Prompts()
    run("first", 8)
    forward = run.core.model.forward
    calls = []

    def failing(*args, **more):
        calls.append(args)
        forward(*args, **more)
        if len(calls) == 2:
            raise CudaError("cudaLaunchKernel", "cudaErrorLaunchFailure")

    run.core.model.forward = failing
    with pytest.raises(CudaError, match="cudaErrorLaunchFailure"):
        run("failing", 5)
    run.core.model.forward = forward
    run("recovered", 5)
    assert (run.cache.size, "cudaGraphLaunch" in run("replayed", 5)) == (2, True)


def test_a_prompt_on_a_device_that_captures_nothing_has_no_executable():
    run, plain = Prompts(device=InertDevice(FakeDevice())), Prompts(graphs=False)
    for label in ("first", "again", "once more"):
        assert "cudaGraphLaunch" not in run(label, 13)
        plain(label, 13)
        assert plain.logits() == run.logits()
    counts = run.cache.counts
    assert (6, 0, 0) == (counts["inert"], counts["seeded"], counts["begins"])
    assert (0, {}) == (run.cache.size, run.cache._entries)
    assert 0 == run.core.prompts.scratch.figures.pinned_bytes
    run.adapter.close()
    assert [] == lives(run.backend.trace())[1]


@pytest.mark.parametrize("after_update", ["direct", "launch"])
def test_an_entry_goes_whose_update_is_inert(after_update):
    run = Prompts(
        part_tokens=16, after_update=after_update, device=InertDevice(FakeDevice(), captures=2)
    )
    plain = Prompts(part_tokens=16, graphs=False)
    for label, tokens in (("short", 8), ("longer", 12), ("moved", 8), ("once more", 8)):
        run(label, tokens)
        plain(label, tokens)
        assert plain.logits() == run.logits()
    counts = run.cache.counts
    assert (2, 2, 0, 0) == tuple(
        counts[name] for name in ("seeded", "inert", "updated", "replayed")
    )
    assert 1 == run.cache.size
    run.adapter.close()
    assert [] == lives(run.backend.trace())[1]


def test_a_takeover_that_is_inert_takes_the_entry_along():
    run = Prompts(part_tokens=8, siblings_max=1, device=InertDevice(FakeDevice(), captures=1))
    run("one part", 8)
    run("two parts", 16)
    assert (0, {}) == (run.cache.size, run.cache._entries)
    assert (1, 2) == (run.cache.counts["seeded"], run.cache.counts["inert"])
    run.adapter.close()
    assert [] == lives(run.backend.trace())[1]


def test_no_more_entries_than_may_be_are_kept():
    run = Prompts(entries_max=2, part_tokens=16)
    for tokens in (4, 5, 6, 7):
        run(f"{tokens}", tokens)
    assert (run.cache.size, run.cache.counts["released"]) == (2, 2)


def test_nothing_is_left_when_the_path_is_closed():
    run = Prompts()
    run("first", 13)
    run.adapter.decode()
    run.adapter.close()
    trace = run.backend.trace()
    made = sum(e.api == "cudaGraphInstantiate" for e in trace.events)
    gone = sum(e.api == "cudaGraphExecDestroy" for e in trace.events)
    assert (made, gone) == (2, 2)
