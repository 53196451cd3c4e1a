"""What the reference engine shows to scenarios."""

import subprocess
import sys

import pytest

from capturegate.adapter import verbs_of
from capturegate.backend import Backend
from capturegate.errors import InputError
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference import adapters
from capturegate_reference.adapters import DecodeAdapter, PoolAdapter
from capturegate_reference.allocating import AllocatingAdapter


@pytest.fixture
def backend():
    backend = Backend(FakeDevice())
    yield backend
    backend.close()


def pool_adapter(backend, abroad="other_backend"):
    return PoolAdapter(backend, {"abroad": abroad}, oracle=False)


def decode_adapter(backend, **config):
    defaults = {key: default for key, (_, default) in DecodeAdapter.config_keys.items()}
    return DecodeAdapter(backend, defaults | config, oracle=False)


def test_importing_the_adapters_imports_neither_numpy_nor_the_engine():
    program = (
        "import sys, capturegate_reference.adapters, capturegate_reference.allocating;"
        "print(sorted(m for m in sys.modules"
        " if m == 'numpy' or m.startswith('capturegate_reference.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "['capturegate_reference.adapters', 'capturegate_reference.allocating', "
        "'capturegate_reference.captures', 'capturegate_reference.configuration', "
        "'capturegate_reference.errors', "
        "'capturegate_reference.instruments', 'capturegate_reference.pool_adapter', "
        "'capturegate_reference.rig', 'capturegate_reference.shape_caches', "
        "'capturegate_reference.tenant']\n"
    )


@pytest.mark.parametrize(
    ("adapter", "verbs"),
    [
        (
            DecodeAdapter,
            {
                "ask_tenant",
                "capture_step",
                "cold_step",
                "drain",
                "ragged_step",
                "refuse",
                "replay_step",
                "retile",
                "retried_step",
                "refused_step",
                "seat_tenant",
                "set_environment",
                "step",
                "steps_ahead",
                "tap",
                "untap",
            },
        ),
        (AllocatingAdapter, {"drain", "step"}),
    ],
)
def test_the_verbs_are_the_marked_methods(adapter, verbs):
    assert set(verbs_of(adapter)) == verbs


def test_the_pools_verbs_take_named_blocks():
    arguments = verbs_of(PoolAdapter)["get"]
    assert [(a.name, a.type, a.required) for a in arguments] == [
        ("nbytes", "int", True),
        ("name", "str", True),
    ]


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("adapter", [DecodeAdapter, PoolAdapter])
def test_the_skip_predicate_asks_the_predicate_that_the_pool_asks(adapter, answer, monkeypatch):
    monkeypatch.setattr("capturegate_reference.pool.pool_bypassed", lambda: answer)
    assert adapter.predicates["pool.bypassed"]() is answer
    assert adapters.pool_bypassed() is answer


def test_the_pool_tells_where_blocks_come_from(backend):
    pool = pool_adapter(backend)
    assert pool.get(nbytes=1000, name="a") == {
        "source": "driver",
        "class_bytes": 1024,
        "block_bytes": 1024,
    }
    assert pool.put(name="a") == {"refused": False}
    assert pool.get(nbytes=512, name="b")["source"] == "borrow"
    assert pool.counters() == {"hits": 1, "misses": 1, "borrows": 1}
    assert pool.state() == {"retained_bytes": 0, "pinned_bytes": 0, "live": 1}
    pool.close()


def test_the_pool_refuses_what_is_against_its_rules(backend):
    pool = pool_adapter(backend)
    pool.get(nbytes=64, name="a")
    assert pool.lease(name="a", holder="carrier") == {"refused": False}
    assert pool.put(name="a") == {"refused": True}
    assert pool.put(name="a", holder="stranger") == {"refused": True}
    assert pool.put_elsewhere(name="a") == {"refused": True}
    assert pool.draw_on_other_backend() == {"refused": True}
    assert pool.size_class(nbytes=2**64 - 1) == {"class_bytes": 0, "refused": True}
    assert pool.put(name="a", holder="carrier") == {"refused": False}
    pool.close()


def test_another_pool_of_the_same_backend_serves_apart_and_may_be_drawn_on(backend):
    pool = pool_adapter(backend, abroad="same_backend")
    pool.get(nbytes=64, name="a")
    assert pool.put_abroad(name="a") == {"refused": True}
    assert pool.put(name="a") == {"refused": False}
    assert pool.get_abroad(nbytes=64, name="b")["source"] == "driver"
    assert pool.draw_on_other_backend() == {"refused": False}
    pool.close()


def test_a_pool_is_abroad_in_one_of_two_ways(backend):
    with pytest.raises(InputError, match="abroad is 'elsewhere'") as refused:
        pool_adapter(backend, abroad="elsewhere")
    assert refused.value.expected == "one of other_backend, same_backend"


def test_the_pools_pre_grow_follows_the_profile(backend):
    pool = pool_adapter(backend)
    pool.boundary()
    for name in ("a", "b"):
        pool.get(nbytes=64, name=name)
    pool.get(nbytes=1000, name="c")
    assert pool.profile() == {"blocks": 3, "classes": 2, "class.64": 2, "class.1024": 1}
    for name in ("a", "b", "c"):
        pool.put(name=name)
    assert pool.drain() == {"freed_bytes": 1152}
    assert [pool.pre_grow()["created"] for _ in range(2)] == [3, 0]
    pool.close()


def test_a_pinned_block_is_held_until_its_graph_goes(backend):
    pool = pool_adapter(backend)
    pool.get(nbytes=64, name="a")
    assert pool.pin(name="a", graph="g") == {"pinned_bytes": 0}
    pool.put(name="a")
    assert pool.state()["pinned_bytes"] == 64
    assert pool.unpin(graph="g") == {"pinned_bytes": 0}
    pool.close()


def test_closing_the_pool_frees_leased_blocks_too(backend):
    pool = pool_adapter(backend)
    pool.get(nbytes=64, name="a")
    pool.lease(name="a", holder="carrier")
    pool.close()
    apis = [event.api for event in backend.trace().events]
    assert (apis.count("cudaMalloc"), apis.count("cudaFree")) == (1, 1)


def test_a_scenarios_mistake_with_names_is_told_as_one(backend):
    pool = pool_adapter(backend)
    pool.get(nbytes=64, name="a")
    with pytest.raises(InputError, match="the block 'a' is out already"):
        pool.get(nbytes=64, name="a")
    with pytest.raises(InputError, match="no block 'b' is out"):
        pool.put(name="b")


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"model": "sparse"}, "there is no model 'sparse'"),
        ({"capture_mode": "loose"}, "capture_mode is 'loose'"),
        ({"capture_under_bypass": "yes"}, "capture_under_bypass is 'yes'"),
        ({"heads": 5}, "5 heads of 20 do not share 2 kv heads"),
        ({"experts_kept": 11}, "11 experts are kept out of 10"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_the_users_mistake(backend, config, problem):
    with pytest.raises(InputError, match=problem):
        decode_adapter(backend, **config)


def test_every_counter_is_there_before_anything_happens(backend):
    adapter = decode_adapter(backend)
    counts = adapter.counters()
    assert counts.keys() >= {"captures", "replays", "declined.bypass", "declined.ragged"}
    assert set(counts.values()) == {0}
    assert (adapter.outputs(), adapter.buffers()) == ((), [])
    adapter.close()


def test_a_step_tells_its_state_rows_and_tokens(backend):
    adapter = decode_adapter(backend)
    told = adapter.cold_step(requests=3)
    assert (told["state"], told["reason"], told["rows"], told["tokens"]) == ("cold", "", 3, 3)
    assert len(told["sampled"].split()) == 3
    (buffer,) = adapter.buffers()
    assert buffer.nbytes == 4 * 4 * 200
    adapter.close()
