"""The server's other families: prompts in chunks, guesses of a draft model; what prompts name."""

import asyncio

import pytest

from capturegate.backend import Backend, CudaError
from capturegate.gates.nothing_left import lives
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.chunk import ChunkConfig
from capturegate_reference.decode import DecodeConfig
from capturegate_reference.draft_driver import DraftConfig
from capturegate_reference.errors import EngineError
from capturegate_reference.inputs import Entry
from capturegate_reference.prompt_adapter import PromptAdapter
from capturegate_reference.prompt_cache import PromptCacheConfig
from capturegate_reference.prompt_graph import prompt_nodes
from capturegate_reference.server import Server, StoppedEngine
from capturegate_reference.server_adapter import leads_to_a_capture
from capturegate_reference.server_core import ServerConfig, ServerCore
from capturegate_reference.serving import CoreConfig, ServingCore
from capturegate_reference.sizes import ModelSizes
from reference_runs import Run

SIZES = ModelSizes(
    layers=2, heads=4, kv_heads=2, head_dim=12, mlp_width=104, vocab=48, page_tokens=8, columns=8
)
CHUNKS = {"chunk": ChunkConfig(tokens=8)}
DRAFTS = {"draft": DraftConfig(tokens=3)}


def core_config(pages=60, **config):
    prompt = PromptCacheConfig(enabled=False)
    return CoreConfig(decode=DecodeConfig(), prompt=prompt, pages=pages, **config)


def make_server(core, **config):
    return ServerCore(Backend(FakeDevice()), SIZES, ServerConfig(core=core, **config))


def served(core, prompts, new_tokens=6):
    """What each prompt is answered with, or the error that it ends in."""

    async def story():
        server = Server(core)
        asked = [server.generate(prompt, new_tokens) for prompt in prompts]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await server.shutdown()
        return answers

    answers = asyncio.run(story())
    return [getattr(answer, "generated", answer) for answer in answers]


def prompts(count, length=21):
    return [tuple((7 * n + 5 * k) % 48 for k in range(length + n)) for n in range(count)]


def test_prompts_in_chunks_are_answered_as_prompts_in_parts():
    parts, chunks = make_server(core_config()), make_server(core_config(**CHUNKS))
    assert served(parts, prompts(5)) == served(chunks, prompts(5))
    figures = chunks.figures
    # 21 to 25 tokens are three chunks twice, and four once; the first one of all was cold.
    assert (1, 15) == (figures["chunk.captures"], figures["chunk.replays"])
    assert "prompt.parts" not in figures


def test_chunks_begin_behind_the_pages_that_a_prompt_shares():
    same = [prompts(1, 24)[0]] * 3
    plain = make_server(core_config(**CHUNKS), running_max=1)
    shared = make_server(core_config(**CHUNKS), running_max=1, prefix_caching=True)
    assert served(plain, same) == served(shared, same)
    assert 2 == shared.counts["prefix_hits"]


def test_a_draft_model_changes_no_token():
    plain = make_server(core_config())
    drafted = make_server(core_config(**DRAFTS), speculate=True)
    assert served(plain, prompts(5), 12) == served(drafted, prompts(5), 12)
    assert drafted.figures["draft.captures"] > 0
    assert drafted.counts["guessed_right"] > 0
    assert drafted.counts["steps"] < plain.counts["steps"]


def test_a_draft_that_is_the_whole_model_is_always_right():
    core = make_server(core_config(draft_layers=2, **DRAFTS), speculate=True)
    (said,) = served(core, prompts(1), 9)
    assert 9 == len(said)
    # One token comes of the prompt, and four of each step.
    assert (2, 6) == (core.counts["steps"], core.counts["guessed_right"])


def test_a_draft_model_guesses_on_from_shared_pages_too():
    same = [prompts(1, 24)[0]] * 3
    plain = make_server(core_config(), running_max=1)
    core = make_server(
        core_config(draft_layers=2, **DRAFTS), running_max=1, speculate=True, prefix_caching=True
    )
    assert served(plain, same, 9) == served(core, same, 9)
    assert (2, 0) == (core.counts["prefix_hits"], core.counts["discontinuities"])
    assert (6, 18) == (core.counts["steps"], core.counts["guessed_right"])


def test_a_request_that_nears_the_end_of_its_context_stops_guessing():
    core = make_server(core_config(draft_layers=2, **DRAFTS), speculate=True)
    plain = make_server(core_config())
    assert served(plain, prompts(1, 54), 10) == served(core, prompts(1, 54), 10)
    # At 54 and 58 stored tokens four more fit into 64; at 62 they do not.
    assert (3, 6) == (core.counts["steps"], core.counts["guessed_right"])


def test_requests_that_draft_give_way_for_pages_and_finish_all_the_same():
    pressed = make_server(core_config(pages=9, **DRAFTS), speculate=True)
    roomy = make_server(core_config())
    assert served(roomy, prompts(4, 14), 9) == served(pressed, prompts(4, 14), 9)
    assert pressed.counts["preempted"] > 0


def test_nothing_is_left_of_either_family():
    for config, more in ((CHUNKS, {}), (DRAFTS, {"speculate": True})):
        backend = Backend(FakeDevice())
        core = ServerCore(backend, SIZES, ServerConfig(core=core_config(**config), **more))
        served(core, prompts(3))
        core.close()
        assert [] == lives(backend.trace())[1]


@pytest.mark.parametrize(
    ("config", "more", "pool"),
    [(CHUNKS, {}, "prompt_pool"), (DRAFTS, {"speculate": True}, "draft_pool")],
)
def test_the_stack_of_the_first_cause_leads_through_the_family_that_opened_the_capture(
    config, more, pool
):
    core = make_server(core_config(**config), **more)

    def refuse(*args, **more):
        raise CudaError("cudaMalloc", "cudaErrorStreamCaptureUnsupported")

    def fail_in_the_window(demand):
        model = core.core.drafts._model if core.core.drafts is not None else core.core.model
        model.forward = refuse

    getattr(core.core, pool).pre_grow_for_capture = fail_in_the_window
    (error,) = served(core, prompts(1))
    assert isinstance(error, StoppedEngine)
    assert leads_to_a_capture(error.stack)


@pytest.mark.parametrize("layers", [0, 3])
def test_a_draft_has_a_layer_and_no_more_than_there_are(layers):
    with pytest.raises(EngineError, match=f"a draft of {layers} layers out of 2"):
        make_server(core_config(draft_layers=layers, **DRAFTS))


def test_a_core_without_a_draft_model_guesses_nothing():
    core = ServingCore(Backend(FakeDevice()), SIZES, core_config())
    with pytest.raises(EngineError, match="no draft model"):
        core.guess([Entry(tokens=(1,), position=0, pages=(1,))])


def test_a_speculative_step_without_a_guess_has_the_ring_of_its_own():
    run = Run()
    states = [run.adapter.step(speculative=speculative)["state"] for speculative in (0, 1, 1, 0, 1)]
    assert ["cold", "cold", "cold", "capture", "capture"] == states
    assert [(1, 1, False), (1, 1, True)] == list(run.driver._rings)
    run.close()


UPLOAD = ["memcpy"] * 6 + ["rope_table"]
ATTEND = [
    "rms_norm", *["linear"] * 3, "rms_norm", "rms_norm", "rope", "rope", "store_kv",
    "paged_attention", "attention_combine", "linear", "add_squares",
]  # fmt: skip
MLP = ["norm_measured", "linear", "linear", "silu_mul", "expert_linear", "add"]
EXPERTS = [
    "norm_measured", "linear", "top_k", "expert_order", *["grouped_linear"] * 2, "silu_mul",
    "expert_combine", "add",
]  # fmt: skip
DONE_BY = {
    "embed": ["embed"],
    "attend.0": ATTEND,
    "attend.1": ATTEND,
    "mlp.0": MLP,
    "mlp.1": MLP,
    "experts.0": EXPERTS,
    "experts.1": EXPERTS,
    "logits": ["rms_norm", "linear", "memcpy"],
    "tap": ["memcpy"],
}


@pytest.mark.parametrize("tap", [False, True])
@pytest.mark.parametrize("model", ["dense", "moe"])
def test_a_prompts_nodes_are_what_its_capture_holds(model, tap):
    backend = Backend(FakeDevice())
    defaults = {key: default for key, (_, default) in PromptAdapter.config_keys.items()}
    adapter = PromptAdapter(backend, defaults | {"model": model}, oracle=False)
    captured, instantiate = [], backend.graph_instantiate

    def look(graph):
        captured.append([node.name or node.kind for node in backend.graph_get_nodes(graph)])
        return instantiate(graph)

    backend.graph_instantiate = look
    # A part of eight rows without logits, and one of five with them.
    adapter.prompt(tokens=13, tap=tap)
    for rows, logits, held in zip((8, 5), (False, True), captured, strict=True):
        named = prompt_nodes(adapter._core.sizes, rows, logits=logits, tap=tap)
        assert UPLOAD + [done for node in named for done in DONE_BY[node.operation]] == held
    adapter.close()
