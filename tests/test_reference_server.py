"""The server: what it serves, how it dies, and what it is made of."""

import asyncio

import pytest

from capturegate.backend import Backend, CudaError
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.decode import DecodeConfig
from capturegate_reference.drafts import Draft, PositionDiscontinuity
from capturegate_reference.errors import EngineError
from capturegate_reference.one_request import OneRequest
from capturegate_reference.pages import PageTable
from capturegate_reference.prompt_cache import PromptCacheConfig
from capturegate_reference.scheduler import Policy, Scheduler, ServedRequest
from capturegate_reference.server import Server, StoppedEngine
from capturegate_reference.server_adapter import ServerAdapter, leads_to_a_capture
from capturegate_reference.server_core import ServerConfig, ServerCore
from capturegate_reference.serving import CoreConfig
from capturegate_reference.sizes import ModelSizes

SIZES = ModelSizes(
    layers=1, heads=4, kv_heads=2, head_dim=12, mlp_width=104, vocab=48, page_tokens=8, columns=8
)


def make_core(pages=40, **config):
    core = CoreConfig(decode=DecodeConfig(), prompt=PromptCacheConfig(enabled=False), pages=pages)
    return ServerCore(Backend(FakeDevice()), SIZES, ServerConfig(core=core, **config))


async def serve(core, prompts, new_tokens=4):
    server = Server(core)
    asked = [server.generate(prompt, new_tokens) for prompt in prompts]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    await server.shutdown()
    return answers


def prompts(count, length=9):
    return [tuple((7 * n + k) % 48 for k in range(length)) for n in range(count)]


def test_requests_say_the_same_together_as_one_by_one():
    together = asyncio.run(serve(make_core(), prompts(6)))
    alone = [asyncio.run(serve(make_core(), [prompt]))[0] for prompt in prompts(6)]
    assert [r.generated for r in together] == [r.generated for r in alone]


def test_speculation_changes_no_token():
    plain = asyncio.run(serve(make_core(), prompts(4), 8))
    core = make_core(speculate=True)
    guessing = asyncio.run(serve(core, prompts(4), 8))
    assert [r.generated for r in plain] == [r.generated for r in guessing]
    assert core.counts["guessed_right"] > 0


def test_a_shared_prefix_is_computed_once_and_changes_no_token():
    same = [prompts(1, 20)[0]] * 3
    plain = asyncio.run(serve(make_core(running_max=1), same))
    core = make_core(prefix_caching=True, running_max=1)
    shared = asyncio.run(serve(core, same))
    assert [r.generated for r in plain] == [r.generated for r in shared]
    assert (core.counts["prefix_hits"], core.counts["prefix_tokens"]) == (2, 32)


def test_a_prompt_that_ends_with_a_shared_page_needs_no_pass_at_all():
    same = [prompts(1, 16)[0]] * 2
    core = make_core(prefix_caching=True, running_max=1)
    first, second = asyncio.run(serve(core, same))
    assert first.generated == second.generated
    assert core.figures["prompt.parts"] == 1


def test_requests_that_outgrow_memory_give_way_and_finish_all_the_same():
    core = make_core(pages=7)
    pressed = asyncio.run(serve(core, prompts(4, 14), 8))
    roomy = asyncio.run(serve(make_core(), prompts(4, 14), 8))
    assert [r.generated for r in pressed] == [r.generated for r in roomy]
    assert core.counts["preempted"] > 0


def test_a_request_that_could_never_run_is_refused_alone():
    core = make_core()
    answers = asyncio.run(serve(core, [prompts(1, 62)[0], prompts(1)[0]]))
    assert isinstance(answers[0], EngineError)
    assert len(answers[1].generated) == 4


def test_requests_beyond_those_that_may_wait_are_refused():
    answers = asyncio.run(serve(make_core(waiting_max=2), prompts(3)))
    assert [isinstance(answer, EngineError) for answer in answers] == [False, False, True]


def dead_server():
    core = make_core()

    def fail(*args, **more):
        raise CudaError("cudaMalloc", "cudaErrorStreamCaptureUnsupported")

    core.core.step = fail
    return Server(core)


def test_the_first_cause_is_kept_with_its_stack_and_named_by_every_later_refusal():
    server = dead_server()

    async def ask():
        return await asyncio.gather(
            *(server.generate(prompt, 4) for prompt in prompts(2)), return_exceptions=True
        )

    in_flight, later = asyncio.run(ask()), asyncio.run(ask())
    for error in in_flight + later:
        assert isinstance(error, StoppedEngine)
        assert str(error).startswith("request submitted to a stopped engine; it died of CudaError:")
        assert "cudaMalloc returned cudaErrorStreamCaptureUnsupported" in str(error)
        assert "in fail" in error.stack
        assert error.stack in str(error)


def test_the_stack_of_the_first_cause_leads_through_the_code_that_opened_the_capture():
    core = make_core()

    def refuse(*args, **more):
        raise CudaError("cudaMalloc", "cudaErrorStreamCaptureUnsupported")

    def fail_in_the_window(demand):
        core.core.model.forward = refuse

    core.core.pool.pre_grow_for_capture = fail_in_the_window
    (answer,) = asyncio.run(serve(core, prompts(1)))
    assert leads_to_a_capture(answer.stack)
    assert not leads_to_a_capture(answer.stack[: answer.stack.index("in iterate")])
    assert not leads_to_a_capture(answer.stack[: answer.stack.index("in _record") + 10])


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_client_that_gives_up_takes_its_request_along_and_the_others_are_served(turns):
    core = make_core()
    server = Server(core)

    async def story():
        impatient = asyncio.create_task(server.generate(prompts(1)[0], 40))
        patient = [asyncio.create_task(server.generate(p, 8)) for p in prompts(3)[1:]]
        for _ in range(turns):
            await asyncio.sleep(0)
        impatient.cancel()
        answers = await asyncio.gather(*patient)
        answers.append(await server.generate(prompts(4)[3], 4))
        assert impatient.cancelled()
        assert core.idle
        return [len(answer.generated) for answer in answers]

    assert [8, 8, 4] == asyncio.run(asyncio.wait_for(story(), 20))
    assert ({}, {}) == (core._table._holders, server._answers)
    assert server.stopped is None


def test_a_client_that_gives_up_while_its_answer_is_made_stops_nobody_else():
    core = make_core()
    server = Server(core)
    asked = []
    iterate = core.iterate

    def give_up_in_between():
        finished = iterate()
        if finished:
            server._answers[finished[0]].cancel()
        return finished

    core.iterate = give_up_in_between

    async def story():
        for prompt in prompts(2):
            asked.append(asyncio.create_task(server.generate(prompt, 2)))
        await asyncio.wait(asked)
        core.iterate = iterate
        return await server.generate(prompts(1)[0], 4)

    done = asyncio.run(asyncio.wait_for(story(), 20))
    assert 4 == len(done.generated)
    assert [True, False] == [task.cancelled() for task in asked]
    assert server.stopped is None


def test_a_client_that_gives_up_as_the_server_dies_keeps_nobody_else_waiting():
    core = make_core()
    server = Server(core)

    def fail(*args, **more):
        next(iter(server._answers.values())).cancel()
        raise CudaError("cudaMalloc", "cudaErrorStreamCaptureUnsupported")

    core.core.step = fail

    async def story():
        return await asyncio.gather(
            *(server.generate(prompt, 4) for prompt in prompts(3)), return_exceptions=True
        )

    answers = asyncio.run(asyncio.wait_for(story(), 20))
    kinds = [type(answer) for answer in answers]
    assert [asyncio.CancelledError, StoppedEngine, StoppedEngine] == kinds
    assert server.stopped is not None


def test_an_end_that_no_handler_may_swallow_still_answers_those_who_wait():
    server = dead_server()

    class Budget(BaseException):
        pass

    def overrun(*args, **more):
        raise Budget

    server._core.core.step = overrun

    async def ask():
        (answer,) = await asyncio.gather(server.generate(prompts(1)[0], 4), return_exceptions=True)
        with pytest.raises(Budget):
            await server._loop
        return answer

    assert asyncio.run(ask()).cause == "Budget: "


def test_a_shutdown_runs_what_is_there_and_refuses_what_comes_after():
    core = make_core()
    server = Server(core)

    async def story():
        asked = asyncio.create_task(server.generate(prompts(1)[0], 4))
        await asyncio.sleep(0)
        await server.shutdown()
        done = await asked
        with pytest.raises(StoppedEngine, match="it was shut down"):
            await server.generate(prompts(1)[0], 4)
        return done

    assert len(asyncio.run(story()).generated) == 4


def test_pages_are_shared_counted_and_evicted_the_longest_unused_first():
    evicted = []
    table = PageTable(4, 2, evicted.append)
    first, second = table.take(2)
    assert table.publish((1, 2), first)
    assert table.publish((3, 4), second)
    assert not table.publish((1, 2), second)
    table.release([first, second])
    assert table.match((1, 2, 9)) == [first]
    table.share([first])
    table.release([first])
    assert len(table.take(2)) == 2
    assert (evicted, table.evictions) == ([second], 1)


def test_pages_that_are_held_are_never_taken():
    table = PageTable(3, 2, [].append)
    (held,) = table.take(1)
    table.publish((1, 2), held)
    assert table.take(2) is None
    assert table.take(1) != [held]


def test_the_longest_prefix_goes_first_and_equals_keep_their_order():
    shared = {1: 0, 2: 8, 3: 8}
    requests = [ServedRequest(number=n, prompt=(1,), new_tokens=1) for n in shared]
    scheduler = Scheduler(Policy.LPM, 2)
    scheduler.waiting += requests
    order = []
    while (request := scheduler.next(lambda r: shared[r.number])) is not None:
        scheduler.admit(request)
        order.append(request.number)
    assert (order, scheduler.overtakes) == ([2, 3], 2)


def test_a_draft_refuses_tokens_that_do_not_follow():
    draft = Draft()
    draft.see(0, (5, 6, 5))
    assert (draft.guess(5), draft.guess(9)) == (6, 9)
    with pytest.raises(PositionDiscontinuity, match="seen 3 token"):
        draft.see(8, (1,))


def test_what_was_read_alone_is_not_read_again_and_no_other_answer_agrees_with_it():
    (prompt,) = prompts(1)
    (said,) = asyncio.run(serve(make_core(), [prompt]))
    alone = OneRequest(Backend(FakeDevice()), SIZES)
    other = ServedRequest(number=9, prompt=prompt, new_tokens=4, generated=list(said.generated))
    agreed = [alone.agrees(said), alone.agrees(other)]
    other.generated[-1] = (other.generated[-1] + 1) % 48
    assert [True, True, False] == [*agreed, alone.agrees(other)]
    assert 1 == alone._core.counts["prompt.parts"]


@pytest.mark.parametrize(
    ("oracle", "cached", "served"), [(False, False, 3), (True, False, 0), (True, True, 3)]
)
def test_a_warm_up_is_served_where_graphs_or_pages_stay_and_shown_to_nobody(oracle, cached, served):
    config = {name: default for name, (_, default) in ServerAdapter.config_keys.items()}
    config |= {"layers": 1, "prefix_caching": cached}
    adapter = ServerAdapter(Backend(FakeDevice()), config, oracle=oracle)
    assert served == adapter.warm_up(concurrency=2, rounds=1)["ok"]
    assert () == adapter.outputs()
    adapter.close()
