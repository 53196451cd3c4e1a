"""What the engine's families keep when room is refused to them, and what is in flight then."""

import pytest

from capturegate.backend import Backend, CudaError, StreamKind
from capturegate.gates.nothing_left import lives
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.cells import InputCell
from capturegate_reference.chunk import ChunkConfig, ChunkDriver
from capturegate_reference.draft_driver import DraftConfig, DraftDriver
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Batch, Entry, HostVectors
from capturegate_reference.instruments import InertDevice, RefusingDevice
from capturegate_reference.model import Model
from capturegate_reference.pool import DevicePool
from capturegate_reference.prompt_adapter import PromptAdapter
from capturegate_reference.serving import ServingCore
from capturegate_reference.sizes import ModelSizes
from reference_runs import Run
from test_reference_families import DRAFTS, SIZES, core_config

CALLS = ["malloc", "malloc_host", "event_create", "memcpy_async"]
COLUMNS = 4


def refusing(call):
    return RefusingDevice(FakeDevice(), call, "cudaErrorMemoryAllocation")


def refused_at_each(call, story):
    """Tell a story with each of its calls refused in turn; how many there were to refuse."""
    return next(n for n in range(200) if not story(refusing(call), n + 1))


def was_refused(work):
    """Whether the device refused something of it."""
    try:
        work()
    except CudaError:
        return True
    return False


class Drivers:
    """What a chunk driver and a draft driver stand on; the model's pool is not theirs."""

    def __init__(self, device=None):
        self.backend = Backend(device or FakeDevice())
        self.stream = self.backend.stream_create(StreamKind.NON_BLOCKING)
        self.others, self.pool, self.persistent = (
            DevicePool(self.backend, name) for name in ("main", "own", "persistent")
        )
        self.model = Model(
            self.backend,
            ModelSizes(layers=1, columns=COLUMNS),
            pool=self.others,
            persistent=self.persistent,
            pages=1 + COLUMNS,
            seed=0,
        )

    def make(self, kind):
        shared = {"stream": self.stream, "pool": self.pool, "persistent": self.persistent}
        if kind == "chunk":
            config = ChunkConfig(tokens=1)
            self.driver = ChunkDriver(self.backend, self.model, config, columns=COLUMNS, **shared)
            self.run = self.driver.step
        else:
            self.driver = DraftDriver(self.backend, self.model, DraftConfig(), **shared)
            self.run = self.driver.draft

    def __call__(self, position=0, columns=COLUMNS):
        entry = Entry(tokens=(5,), position=position, pages=tuple(range(1, 1 + COLUMNS)))
        return self.run(Batch(entries=(entry,), columns=columns))

    def close(self):
        if hasattr(self, "driver"):
            self.driver.close()
        self.model.close()
        for pool in (self.others, self.pool, self.persistent):
            pool.drain()
        self.backend.stream_destroy(self.stream)
        return lives(self.backend.trace())[1]


@pytest.mark.parametrize("config", [{}, {"async_executor": True}], ids=["plain", "ring"])
@pytest.mark.parametrize("call", CALLS[:3])
def test_a_slot_is_replaced_by_one_that_is_there(call, config):
    device = refusing(call)
    run = Run(device=device, layers=1, **config)
    run.states(5)
    kept = run.driver.slots
    run.adapter.tap(layer=0)
    device.armed = 1
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        run.step()
    assert kept == run.driver.slots
    run.adapter.untap()
    assert ["replay"] * 3 == run.states(3)
    run.close()
    assert [] == lives(run.backend.trace())[1]


@pytest.mark.parametrize("config", [{}, {"decode_graph": False}], ids=["cold", "declined"])
@pytest.mark.parametrize("call", CALLS)
def test_a_first_step_that_is_refused_anywhere_leaves_nothing(call, config):
    def story(device, number):
        run = Run(device=device, layers=1, prompt_tokens=2, async_executor=True, **config)
        run.step()
        run.adapter.tap(layer=0)
        device.armed = number
        refused = was_refused(lambda: run.step(requests=2, tokens=2))
        device.armed = 0
        assert run.step(requests=2, tokens=2)["state"] in ("cold", "eager")
        run.close()
        assert [] == lives(run.backend.trace())[1]
        return refused

    assert refused_at_each(call, story) > 0


def test_vectors_of_declined_steps_are_replaced_by_some_that_are_there():
    device = refusing("malloc_host")
    run, oracle = (
        Run(device=device, decode_graph=False, layers=1),
        Run(decode_graph=False, layers=1),
    )
    for one in (run, oracle):
        one.step(requests=4)
        one.step(requests=1)
    kept = run.driver._eager_host
    device.armed = 1
    with pytest.raises(CudaError, match="cudaMallocHost"):
        run.step(requests=4, tokens=3)
    assert kept is run.driver._eager_host
    for one in (run, oracle):
        one.step(requests=4)
    assert oracle.logits() == run.logits()
    run.close()
    assert [] == lives(run.backend.trace())[1]


def prompts(device=None, **config):
    backend = Backend(device or FakeDevice())
    defaults = {key: default for key, (_, default) in PromptAdapter.config_keys.items()}
    return backend, PromptAdapter(backend, defaults | config, oracle=False)


@pytest.mark.parametrize("call", CALLS[:3])
def test_a_prompt_room_is_replaced_by_one_that_is_there(call):
    def story(device, number):
        backend, adapter = prompts(device, part_tokens=16)
        adapter.prompt(tokens=8)
        runner = adapter._core.prompts
        kept = runner.room
        device.armed = number
        refused = was_refused(lambda: runner._room(12))
        device.armed = 0
        assert refused == (kept is runner.room)
        assert adapter.prompt(tokens=8)["executables"] == 1
        adapter.close()
        assert [] == lives(backend.trace())[1]
        return refused

    assert refused_at_each(call, story) > 0


def test_prompt_graphs_know_the_room_by_its_pinned_memory_too():
    backend, adapter = prompts()
    adapter.prompt(tokens=8)
    room = adapter._core.prompts.room
    assert room.host._pointer.address in room.addresses
    assert 1 + len(room._blocks) == len(set(room.addresses))
    adapter.close()
    assert [] == lives(backend.trace())[1]


def under_way(backend, host):
    """Whether vectors wait for the work that was submitted last."""
    return backend.raw.event_query(host._uploaded).error == "cudaErrorNotReady"


def test_a_prompt_whose_executable_is_refused_has_its_upload_marked():
    backend, adapter = prompts(part_tokens=16, fault="refused_executable")
    adapter.prompt(tokens=16)
    adapter.refuse(1)
    assert "cudaGraphInstantiate" == adapter.refused_prompt(tokens=12)["refused_by"]
    assert under_way(backend, adapter._core.prompts.room.host)


@pytest.mark.parametrize("config", [{}, {"decode_graph": False}], ids=["cold", "declined"])
def test_a_step_that_fails_behind_its_upload_has_it_marked(config, monkeypatch):
    run = Run(layers=1, **config)
    run.step()
    run.adapter.tap(layer=0)

    def lost(*args, **more):
        raise ValueError("lost")

    live = run.adapter._engine._parts.persistent.figures.live
    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", lost)
        with pytest.raises(ValueError, match="lost"):
            run.step()
    assert under_way(run.backend, run.driver._eager_host or run.driver.slots[0].host)
    if "decode_graph" in config:
        # The last step's logits went back; those of the lost one have no owner to do so.
        assert live - 1 == run.adapter._engine._parts.persistent.figures.live
    run.close()
    assert [] == lives(run.backend.trace())[1]


def test_a_prompt_that_fails_behind_its_upload_has_it_marked(monkeypatch):
    run = Run(layers=1)
    run.step()

    def lost(*args, **more):
        raise ValueError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", lost)
        with pytest.raises(ValueError, match="lost"):
            run.step(requests=2)
    assert under_way(run.backend, run.adapter._engine._prompt_host)
    run.close()


def test_a_ring_whose_upload_is_refused_half_way_has_it_marked():
    device = refusing("memcpy_async")
    run = Run(device=device, layers=1, async_executor=True)
    run.states(6)
    device.armed = 4
    with pytest.raises(CudaError, match="cudaMemcpyAsync"):
        run.step()
    ring = next(iter(run.driver._rings.values()))
    assert under_way(run.backend, ring.slots[ring.turn].host)
    assert ["replay"] * 2 == run.states(2)
    run.close()


@pytest.mark.parametrize("lost", [False, True], ids=["done", "lost"])
def test_a_step_that_just_ran_has_its_upload_marked(lost, monkeypatch):
    run = Run(device=InertDevice(FakeDevice()), layers=1)
    run.step()
    forward = Model.forward

    def failing(*args, **more):
        forward(*args, **more)
        if lost:
            raise ValueError("lost")

    monkeypatch.setattr(Model, "forward", failing)
    try:
        assert "inert" == run.adapter._engine.follow([3]).state
    except ValueError:
        assert lost
    (slot,) = run.driver.slots
    assert under_way(run.backend, slot.host)


@pytest.mark.parametrize("call", CALLS[:3])
@pytest.mark.parametrize("kind", ["chunk", "draft"])
def test_a_driver_or_slot_that_is_refused_half_way_leaves_nothing(kind, call):
    def story(device, number):
        drivers = Drivers(device)
        device.armed = number

        def build():
            drivers.make(kind)
            drivers()

        refused = was_refused(build)
        assert [] == drivers.close()
        return refused

    assert refused_at_each(call, story) > 0


@pytest.mark.parametrize("call", CALLS[:3])
def test_a_cell_that_is_refused_is_not_bound(call):
    device = refusing(call)
    backend = Backend(device)
    pool, cell = DevicePool(backend, "kept"), InputCell(backend, "tokens")
    device.armed = 1
    with pytest.raises(CudaError, match="cudaErrorMemoryAllocation"):
        cell.bind(pool, 64)
    assert (0, 0) == (pool.figures.live, cell.counts["binds"])
    cell.bind(pool, 64)
    cell.close()
    pool.drain()
    assert [] == lives(backend.trace())[1]


def test_host_vectors_that_are_refused_give_their_memory_back():
    device = refusing("event_create")
    backend = Backend(device)
    device.armed = 1
    with pytest.raises(CudaError, match="cudaEventCreate"):
        HostVectors(backend, 64)
    assert [] == lives(backend.trace())[1]


def test_a_draft_model_that_cannot_be_is_refused_before_anything_is_taken():
    backend = Backend(FakeDevice())
    for layers in (0, 3):
        with pytest.raises(EngineError, match=f"a draft of {layers} layers out of 2"):
            ServingCore(backend, SIZES, core_config(draft_layers=layers, **DRAFTS))
    assert 0 == len(backend.trace().events)


@pytest.mark.parametrize("columns", [3, 5])
@pytest.mark.parametrize("kind", ["chunk", "draft"])
def test_block_tables_of_another_width_are_refused_without_a_call(kind, columns):
    drivers = Drivers()
    drivers.make(kind)
    drivers()
    before = len(drivers.backend.trace().events)
    with pytest.raises(EngineError, match=f"of {columns} columns"):
        drivers(columns=columns)
    assert before == len(drivers.backend.trace().events)
    assert "capture" == drivers(1).state
    assert [] == drivers.close()


@pytest.mark.parametrize("kind", ["chunk", "draft"])
def test_what_a_cold_pass_takes_is_of_the_pool_that_its_capture_is_of(kind):
    drivers = Drivers()
    drivers.make(kind)
    assert ["cold", "capture", "replay"] == [drivers(place).state for place in range(3)]
    taken = drivers.others.figures
    assert (0, 0) == (taken.hits, taken.misses)
    assert drivers.pool.figures.misses > 0
    assert [] == drivers.close()


@pytest.mark.parametrize("kind", ["chunk", "draft"])
def test_under_bypass_a_pass_takes_from_its_own_pool_too(kind, monkeypatch):
    monkeypatch.setattr("capturegate_reference.pool.pool_bypassed", lambda: True)
    drivers = Drivers()
    drivers.make(kind)
    assert "eager" == drivers().state
    told = {e.detail["pool"] for e in drivers.backend.trace().events if e.api == "pool.get"}
    assert {"persistent", "own"} == told


def test_a_ring_at_batch_one_releases_the_prompts_once():
    _, adapter = prompts(async_executor=True)
    adapter.prompt(tokens=8)
    states, released = [], []
    for _ in range(4):
        states.append(adapter.decode()["state"])
        released.append(adapter.counters()["prompt.released"])
        if states[-1] == "capture":
            adapter.prompt(tokens=8)
    assert ["cold", "cold", "capture", "capture"] == states
    assert [0, 0, 1, 1] == released
    adapter.close()
