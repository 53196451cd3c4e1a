"""Numbers that no engine can be built of, and that no verb can be told."""

import subprocess
import sys

import pytest

from capturegate.errors import InputError
from capturegate_reference.adapters import DecodeAdapter, PoolAdapter
from capturegate_reference.allocating import AllocatingAdapter
from capturegate_reference.chunk_adapter import ChunkAdapter
from capturegate_reference.configuration import at_least, choice, named
from capturegate_reference.draft_adapter import DraftAdapter
from capturegate_reference.mistakes import MistakesAdapter
from capturegate_reference.prompt_adapter import PromptAdapter
from capturegate_reference.seam_adapter import SeamAdapter
from capturegate_reference.server_adapter import ServerAdapter
from capturegate_reference.shared_prompts_adapter import SharedPromptsAdapter
from capturegate_reference.sizes import ModelSizes
from reference_runs import built

DRAFTING = {"speculation": True, "drafting": "model"}

HUGE = 10**9


@pytest.mark.parametrize(
    ("most", "refused", "expected"),
    [(None, [0, -1], "at least 1"), (4, [0, -1, 5], "1 to 4")],
)
def test_a_number_is_told_with_what_it_may_be(most, refused, expected):
    assert [1, 4] == [at_least("n", {"n": n}, 1, most) for n in (1, 4)]
    for number in refused:
        with pytest.raises(InputError) as error:
            at_least("n", {"n": number}, 1, most)
        assert (f"n is {number}", expected) == (error.value.problem, error.value.expected)


def test_a_word_is_told_with_what_it_may_be():
    assert 2 == choice("w", {"w": "b"}, {"b": 2, "a": 1})
    with pytest.raises(InputError) as error:
        choice("w", {"w": ""}, {"b": 2, "a": 1})
    assert ("w is ''", "one of a, b") == (error.value.problem, error.value.expected)
    with pytest.raises(InputError) as error:
        choice("w", {"w": "a"}, {})
    assert "one that is there" == error.value.expected


def test_a_name_is_not_empty():
    assert "a" == named("name", {"name": "a"})
    with pytest.raises(InputError) as error:
        named("name", {"name": ""})
    assert ("name is empty", "a name") == (error.value.problem, error.value.expected)


@pytest.mark.parametrize(
    "name",
    [
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "mlp_width",
        "vocab",
        "experts",
        "experts_kept",
        "expert_width",
        "page_tokens",
        "columns",
    ],
)
def test_a_model_has_at_least_one_of_everything(name):
    for number in (0, -1):
        with pytest.raises(InputError, match=f"^{name} is {number}\n"):
            ModelSizes(**{name: number})


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"layers": 257}, "layers is 257"),
        ({"vocab": 65537}, "vocab is 65537"),
        ({"columns": 1_000_000}, "columns is 1000000"),
        ({"columns": 4097, "page_tokens": 16}, r"columns \* page_tokens is 65552"),
        ({"heads": 206, "kv_heads": 2}, r"heads \* head_dim is 4120"),
    ],
)
def test_a_model_is_not_larger_than_a_case_can_run(sizes, told):
    with pytest.raises(InputError, match=f"^{told}\n"):
        ModelSizes(**sizes)


@pytest.mark.parametrize(
    ("adapter", "config", "told"),
    [
        (ServerAdapter, {"pages": 8}, "pages is 8"),
        (ServerAdapter, {"pages": 1_000_000_000}, "pages is 1000000000"),
        (ServerAdapter, {"running_max": 0}, "running_max is 0"),
        (ServerAdapter, {"running_max": 1_000_000}, "running_max is 1000000"),
        (ServerAdapter, {"part_tokens": 0}, "part_tokens is 0"),
        (ServerAdapter, {"part_tokens": 65}, "part_tokens is 65"),
        (ServerAdapter, {"part_tokens": -1, "prefill": "chunks"}, "part_tokens is -1"),
        (ServerAdapter, {"draft_tokens": 0}, "draft_tokens is 0"),
        (ServerAdapter, {"draft_tokens": 64, **DRAFTING}, "draft_tokens is 64"),
        (ServerAdapter, {"draft_layers": 0}, "draft_layers is 0"),
        (ServerAdapter, {"draft_layers": 3, **DRAFTING}, "draft_layers is 3"),
        (ServerAdapter, {"drafting": "model"}, "drafting is 'model' where nobody speculates"),
        (
            ServerAdapter,
            {"prefill": "chunks", "prompt_graphs": True},
            "prompt_graphs are on where prompts run in chunks",
        ),
        (DraftAdapter, {"draft_tokens": 0}, "draft_tokens is 0"),
        (DraftAdapter, {"draft_tokens": 64}, "draft_tokens is 64"),
        (DraftAdapter, {"requests_max": 0}, "requests_max is 0"),
        (ChunkAdapter, {"chunk_tokens": 0}, "chunk_tokens is 0"),
        (ChunkAdapter, {"chunk_tokens": 65}, "chunk_tokens is 65"),
        (PromptAdapter, {"part_tokens": 0}, "part_tokens is 0"),
        (PromptAdapter, {"part_tokens": 65}, "part_tokens is 65"),
        (PromptAdapter, {"entries_max": 0}, "entries_max is 0"),
        (PromptAdapter, {"siblings_max": 0}, "siblings_max is 0"),
        (PromptAdapter, {"requests_max": 0}, "requests_max is 0"),
        (PromptAdapter, {"decoding": 0}, "decoding is 0"),
        (PromptAdapter, {"decoding": 5}, "decoding is 5"),
        (DecodeAdapter, {"max_num_seqs": 0}, "max_num_seqs is 0"),
        (DecodeAdapter, {"requests_max": 0}, "requests_max is 0"),
        (DecodeAdapter, {"retiled_rows": 0}, "retiled_rows is 0"),
        (DecodeAdapter, {"retiled_rows": HUGE}, "retiled_rows is 1000000000"),
        (DecodeAdapter, {"prompt_tokens": 1}, "prompt_tokens is 1"),
        (DecodeAdapter, {"prompt_tokens": 64}, "prompt_tokens is 64"),
        (DecodeAdapter, {"requests_max": HUGE}, "requests_max is 1000000000"),
        (SeamAdapter, {"breaks": -1}, "breaks is -1"),
        (SeamAdapter, {"breaks": 65}, "breaks is 65"),
        (SeamAdapter, {"forks": -1}, "forks is -1"),
        (SeamAdapter, {"forks": 65}, "forks is 65"),
        (SeamAdapter, {"mode": ""}, "mode is ''"),
        (SharedPromptsAdapter, {"siblings_max": 0}, "siblings_max is 0"),
        (SharedPromptsAdapter, {"part_tokens": 0}, "part_tokens is 0"),
        (SharedPromptsAdapter, {"part_tokens": 65}, "part_tokens is 65"),
        (SharedPromptsAdapter, {"capture_mode": ""}, "capture_mode is ''"),
        (AllocatingAdapter, {"capture_mode": "loose"}, "capture_mode is 'loose'"),
        (MistakesAdapter, {"mistake": ""}, "mistake is ''"),
    ],
)
def test_an_engine_refuses_a_configuration_that_it_cannot_have(adapter, config, told):
    with pytest.raises(InputError) as error:
        built(adapter, **config)
    assert told == error.value.problem


@pytest.mark.parametrize(
    ("adapter", "config"),
    [
        (ServerAdapter, {"pages": 9, "running_max": 1, "part_tokens": 64}),
        (ServerAdapter, {"draft_tokens": 63, "draft_layers": 2, **DRAFTING}),
        (ServerAdapter, {"columns": 1, "page_tokens": 2, "part_tokens": 1, "pages": 2}),
        (DraftAdapter, {"draft_tokens": 63, "requests_max": 1}),
        (ChunkAdapter, {"chunk_tokens": 64}),
        (PromptAdapter, {"part_tokens": 64, "entries_max": 1, "siblings_max": 1}),
        (DecodeAdapter, {"max_num_seqs": 1, "requests_max": 1, "prompt_tokens": 2}),
        (DecodeAdapter, {"prompt_tokens": 63}),
        (SeamAdapter, {"breaks": 0, "forks": 0}),
        (SeamAdapter, {"breaks": 64, "forks": 64}),
        (SharedPromptsAdapter, {"part_tokens": 64, "siblings_max": 1}),
    ],
)
def test_an_engine_takes_the_least_and_the_most(adapter, config):
    built(adapter, **config).close()


@pytest.mark.parametrize(
    ("adapter", "verb", "args", "told"),
    [
        (ServerAdapter, "serve", {"requests": 0}, "requests is 0"),
        (ServerAdapter, "serve", {"requests": 1, "concurrency": 0}, "concurrency is 0"),
        (ServerAdapter, "serve", {"requests": 1, "concurrency": 257}, "concurrency is 257"),
        (ServerAdapter, "serve", {"requests": 1, "families": 0}, "families is 0"),
        (ServerAdapter, "serve", {"requests": 1, "new_tokens": 0}, "new_tokens is 0"),
        (ServerAdapter, "serve", {"requests": 1, "spread": -1}, "spread is -1"),
        (ServerAdapter, "serve", {"requests": 1, "shared_tokens": -1}, "shared_tokens is -1"),
        (ServerAdapter, "serve", {"requests": 1, "own_tokens": -1}, "own_tokens is -1"),
        (
            ServerAdapter,
            "serve",
            {"requests": 1, "own_tokens": 0},
            "shared_tokens + own_tokens is 0",
        ),
        (
            ServerAdapter,
            "serve",
            {"requests": 3, "own_tokens": 60, "new_tokens": 3},
            "requests of 62 + 3 tokens do not fit",
        ),
        (ServerAdapter, "warm_up", {"concurrency": 0}, "concurrency is 0"),
        (ServerAdapter, "warm_up", {"rounds": 0}, "rounds is 0"),
        (ServerAdapter, "shutdown", {"in_flight": -1}, "in_flight is -1"),
        (ServerAdapter, "shutdown", {"in_flight": 257}, "in_flight is 257"),
        (ServerAdapter, "compare", {}, "there is nothing to compare"),
        (DraftAdapter, "draft", {"requests": 0}, "requests is 0"),
        (DraftAdapter, "draft", {"requests": 5}, "requests is 5"),
        (DraftAdapter, "retried_draft", {"requests": 5}, "requests is 5"),
        (DraftAdapter, "retried_draft", {"attempts": 0}, "attempts is 0"),
        (DraftAdapter, "drafts_ahead", {"count": 0}, "count is 0"),
        (DraftAdapter, "drafts_ahead", {"count": 63}, "a draft to position 65 does not fit 64"),
        (DraftAdapter, "retried_draft", {"attempts": 17}, "attempts is 17"),
        (DraftAdapter, "refuse", {"number": 0}, "number is 0"),
        (DraftAdapter, "refuse", {"number": 65}, "number is 65"),
        (DraftAdapter, "seat_tenant", {"nbytes": 0}, "nbytes is 0"),
        (DraftAdapter, "seat_tenant", {"nbytes": 1048577}, "nbytes is 1048577"),
        (DraftAdapter, "seat_tenant", {"nbytes": 64, "blocks": 0}, "blocks is 0"),
        (DraftAdapter, "seat_tenant", {"nbytes": 64, "blocks": 65}, "blocks is 65"),
        (DraftAdapter, "retile", {"cache": ""}, "cache is ''"),
        (ChunkAdapter, "chunk", {"tokens": -1}, "tokens is -1"),
        (
            ChunkAdapter,
            "chunk",
            {"tokens": 65},
            "a chunk of 65 tokens from position 0 on does not fit 64",
        ),
        (ChunkAdapter, "retried_chunk", {"attempts": 0}, "attempts is 0"),
        (ChunkAdapter, "retried_chunk", {"attempts": HUGE}, "attempts is 1000000000"),
        (PromptAdapter, "prompt", {"tokens": 0}, "tokens is 0"),
        (PromptAdapter, "prompt", {"tokens": 64}, "tokens is 64"),
        (PromptAdapter, "decode", {"requests": 1}, "1 requests were to decode, 0 are there"),
        (SharedPromptsAdapter, "prompt", {"tokens": 0}, "tokens is 0"),
        (SharedPromptsAdapter, "prompt", {"tokens": 64}, "tokens is 64"),
        (SharedPromptsAdapter, "prompt", {"tokens": 8, "runner": 0}, "runner is 0"),
        (SharedPromptsAdapter, "prompt", {"tokens": 8, "runner": 3}, "runner is 3"),
        (SharedPromptsAdapter, "seat_tenant", {"nbytes": 64, "blocks": -1}, "blocks is -1"),
        (SeamAdapter, "refresh", {"nbytes": -1}, "nbytes is -1"),
        (SeamAdapter, "refresh", {"nbytes": 4097}, "nbytes is 4097"),
        (SeamAdapter, "refresh", {"source": ""}, "source is ''"),
        (SeamAdapter, "run", {}, "there is no input to run on"),
        (MistakesAdapter, "step", {"constant": 0}, "constant is 0"),
        (MistakesAdapter, "step", {"constant": HUGE}, "constant is 1000000000"),
        (MistakesAdapter, "step", {"rows": 0}, "rows is 0"),
        (MistakesAdapter, "step", {"rows": 9}, "rows is 9"),
        (PoolAdapter, "get", {"nbytes": -1, "name": "a"}, "nbytes is -1"),
        (PoolAdapter, "get", {"nbytes": 2**30 + 1, "name": "a"}, "nbytes is 1073741825"),
        (PoolAdapter, "get", {"nbytes": 64, "name": ""}, "name is empty"),
        (PoolAdapter, "get_abroad", {"nbytes": -1, "name": "a"}, "nbytes is -1"),
        (PoolAdapter, "put_home", {"name": "a"}, "no block 'a' is out"),
        (PoolAdapter, "lease", {"name": "a", "holder": ""}, "holder is empty"),
        (PoolAdapter, "pin", {"name": "a", "graph": ""}, "graph is empty"),
        (PoolAdapter, "unpin", {"graph": "g"}, "graph is 'g'"),
        (PoolAdapter, "profile", {"shape": ""}, "shape is empty"),
        (PoolAdapter, "pre_grow", {}, "shape is 'default'"),
        (PoolAdapter, "churn", {"threads": 0}, "threads is 0"),
        (PoolAdapter, "churn", {"threads": 65}, "threads is 65"),
        (PoolAdapter, "churn", {"rounds": 0}, "rounds is 0"),
        (PoolAdapter, "churn", {"rounds": 65}, "rounds is 65"),
        (PoolAdapter, "churn", {"seed": -1}, "seed is -1"),
        (PromptAdapter, "decode", {"requests": -1}, "requests is -1"),
        (DecodeAdapter, "step", {"requests": 0}, "requests is 0"),
        (DecodeAdapter, "step", {"requests": 11}, "requests is 11"),
        (DecodeAdapter, "step", {"tokens": 30}, "a step to position 65 does not fit 64"),
        (DecodeAdapter, "ragged_step", {"requests": 11}, "requests is 11"),
        (DecodeAdapter, "retried_step", {"requests": HUGE}, "requests is 1000000000"),
        (DecodeAdapter, "retried_step", {"tokens": 0}, "tokens is 0"),
        (DecodeAdapter, "steps_ahead", {"requests": HUGE}, "requests is 1000000000"),
        (DecodeAdapter, "steps_ahead", {"count": 30}, "a step to position 65 does not fit 64"),
        (DecodeAdapter, "set_environment", {"name": "", "value": "1"}, "name is ''"),
        (
            DecodeAdapter,
            "set_environment",
            {"name": "CAPTUREGATE_POOL_BYPAS", "value": "1"},
            "name is 'CAPTUREGATE_POOL_BYPAS'",
        ),
        (
            DecodeAdapter,
            "set_environment",
            {"name": "CAPTUREGATE_POOL_BYPASS", "value": "on"},
            "value is 'on'",
        ),
        (DecodeAdapter, "cold_step", {"tokens": 0}, "tokens is 0"),
        (DecodeAdapter, "ragged_step", {"requests": 1}, "requests is 1"),
        (DecodeAdapter, "retried_step", {"attempts": 0}, "attempts is 0"),
        (DecodeAdapter, "steps_ahead", {"count": 0}, "count is 0"),
        (DecodeAdapter, "tap", {"layer": 2}, "layer is 2"),
        (DecodeAdapter, "tap", {"layer": -1}, "layer is -1"),
    ],
)
def test_a_verb_refuses_what_it_cannot_do(adapter, verb, args, told):
    for oracle in (False, True):
        subject = built(adapter, oracle=oracle)
        with pytest.raises(InputError) as error:
            getattr(subject, verb)(**args)
        assert told == error.value.problem
        subject.close()


@pytest.mark.parametrize(
    ("adapter", "verbs", "told"),
    [
        (PromptAdapter, [("prompt", {"tokens": 63}), *[("decode", {})] * 2], "to position 65"),
        (DecodeAdapter, [("step", {})] * 30, "to position 65"),
        (DraftAdapter, [("draft", {"accepted": 2})] * 22, "to position 66"),
        (ChunkAdapter, [("chunk", {})] * 9, "from position 64"),
    ],
)
def test_a_step_beyond_the_context_is_a_mistake_when_it_comes(adapter, verbs, told):
    subject = built(adapter)
    *before, (verb, args) = verbs
    for earlier, more in before:
        getattr(subject, earlier)(**more)
    with pytest.raises(InputError, match=told):
        getattr(subject, verb)(**args)
    subject.close()


def test_a_block_that_was_leased_and_put_back_is_nobodys_when_its_name_is_used_again():
    pool = built(PoolAdapter)
    pool.get(nbytes=64, name="a")
    pool.lease(name="a", holder="h")
    assert pool.put_home(name="a")["refused"]
    assert not pool.put(name="a", holder="h")["refused"]
    pool.get(nbytes=64, name="a")
    pool.close()
    assert 0 == pool.state()["live"]


def test_a_request_that_just_fits_is_served_and_compared():
    server = built(ServerAdapter, layers=1)
    told = server.serve(requests=1, concurrency=1, own_tokens=62, spread=3, new_tokens=2)
    assert (1, 2) == (told["ok"], told["tokens"])
    assert {"agreeing": 1, "differing": 0, "guesses_as_configured": True} == server.compare()
    server.close()


@pytest.mark.parametrize(
    ("engine", "config", "step", "told"),
    [
        (
            "reference.server",
            "{draft_tokens: 0, drafting: model, speculation: true}",
            "compare",
            ":5:10: draft_tokens is 0",
        ),
        ("reference.server", "{layers: 1}", "serve: {requests: 0}", "requests is 0"),
        ("reference.server", "{layers: 1}", "serve: {requests: 257}", "requests is 257"),
        ("reference.server", "{layers: 1}", "warm_up: {rounds: 65}", "rounds is 65"),
        ("reference.server", "{layers: 1}", "compare", "there is nothing to compare"),
        (
            "capturegate_reference.seam_adapter:SeamAdapter",
            "{breaks: 0}",
            "refresh: {source: disk}",
            ":6:10: source is 'disk' expected: one of device, host",
        ),
    ],
)
def test_a_scenario_with_such_a_number_is_the_users_mistake(tmp_path, engine, config, step, told):
    lines = (
        "scenario: mistaken",
        "about: A number that is none.",
        "origin: nobody",
        f"engine: {engine}",
        f"config: {config}",
        f"steps: [{{{step}}}]" if ":" in step else f"steps: [{step}]",
        "gates: [nothing-left-at-teardown]",
    )
    (tmp_path / "mistaken.scenario.yaml").write_text("\n".join(lines))
    program = [sys.executable, "-P", "-m", "capturegate", "run", str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert (2, True) == (done.returncode, told in said)
