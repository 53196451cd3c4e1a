"""What the server shows to scenarios. The event loop runs while a verb does."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from capturegate.adapter import Facts, Output, verb
from capturegate.backend import Backend, Pointer
from capturegate.errors import InputError
from capturegate_reference.configuration import at_least, capture_mode, choice
from capturegate_reference.pool_adapter import PREDICATES
from capturegate_reference.rig import output

if TYPE_CHECKING:
    from capturegate_reference.scheduler import ServedRequest
    from capturegate_reference.server import StoppedEngine
    from capturegate_reference.serving import CoreConfig
    from capturegate_reference.sizes import ModelSizes

WARM_UP_SIZES = (1, 2, 4, 8)
_STORED_TOKENS_MAX = 1 << 20
_RUNNING_MAX = 1 << 10
_WAITING_MAX = _REQUESTS_MAX = 256
_ROUNDS_MAX = 64
_UNDER_BYPASS = {"decline": False, "attempt": True}
_PREFILLS = {"parts": False, "chunks": True}
_DRAFTERS = {"history": False, "model": True}
_OPENERS = re.compile(
    r'/((decode|prompt_cache)\.py", line \d+, in _record'
    r'|chunk\.py", line \d+, in _capture'
    r'|draft_driver\.py", line \d+, in _add_piece)$',
    re.MULTILINE,
)
_COUNTERS = (
    "captures",
    "replays",
    "cold_steps",
    "eager_steps",
    "declined",
    "steps",
    "prefix_hits",
    "prefix_tokens",
    "exhausted",
    "preempted",
    "evictions",
    "overtakes",
    "discontinuities",
    "guessed_right",
    "prompt.seeded",
    "prompt.replayed",
    "prompt.released",
    "chunk.captures",
    "chunk.replays",
    "draft.captures",
    "draft.replays",
)


def _core_config(config: Mapping[str, Any], *, oracle: bool) -> CoreConfig:
    from capturegate_reference.chunk import ChunkConfig
    from capturegate_reference.decode import DecodeConfig
    from capturegate_reference.draft_driver import DraftConfig
    from capturegate_reference.prompt_cache import PromptCacheConfig
    from capturegate_reference.serving import CoreConfig
    from capturegate_reference.switches import switches

    mode = capture_mode(config)
    prompt_graphs = config["prompt_graphs"] or switches().prompt_graph_capture_seed
    chunk = ChunkConfig(tokens=config["part_tokens"], capture_mode=mode, always_cold=oracle)
    draft = DraftConfig(
        tokens=config["draft_tokens"],
        max_num_seqs=config["running_max"],
        capture_mode=mode,
        always_cold=oracle,
    )
    return CoreConfig(
        decode=DecodeConfig(
            max_num_seqs=config["running_max"],
            graphs=config["decode_graph"] and switches().decode_graph,
            async_executor=config["async_executor"] or switches().async_executor,
            capture_mode=mode,
            capture_under_bypass=choice("capture_under_bypass", config, _UNDER_BYPASS),
            always_cold=oracle,
        ),
        prompt=PromptCacheConfig(enabled=prompt_graphs and not oracle, capture_mode=mode),
        pages=config["pages"],
        part_tokens=config["part_tokens"],
        chunk=chunk if choice("prefill", config, _PREFILLS) else None,
        draft=draft if choice("drafting", config, _DRAFTERS) else None,
        draft_layers=config["draft_layers"],
    )


def _require_sense(config: Mapping[str, Any], sizes: ModelSizes) -> None:
    """Refuse what no server can be built of, and options that would have no effect.

    Raises:
        InputError: what is wrong.
    """
    context = sizes.context_tokens
    at_least("pages", config, 1 + sizes.columns, 1 + _STORED_TOKENS_MAX // sizes.page_tokens)
    at_least("running_max", config, 1, _RUNNING_MAX)
    at_least("part_tokens", config, 1, context)
    drafts = choice("drafting", config, _DRAFTERS)
    at_least("draft_tokens", config, 1, context - 1 if drafts else None)
    at_least("draft_layers", config, 1, sizes.layers)
    if drafts and not config["speculation"]:
        raise InputError(
            "drafting is 'model' where nobody speculates", expected="speculation: true with it"
        )
    if choice("prefill", config, _PREFILLS) and config["prompt_graphs"]:
        raise InputError(
            "prompt_graphs are on where prompts run in chunks",
            expected="prefill: parts with them; chunks have graphs of their own",
        )


def leads_to_a_capture(stack: str) -> bool:
    """Whether a stack goes on from code that opens captures to a call inside one."""
    opened = _OPENERS.search(stack)
    return opened is not None and 'File "' in stack[opened.end() :]


class ServerAdapter:
    """A server and its clients."""

    config_keys: ClassVar[Mapping[str, tuple[type, Any]]] = {
        "model": (str, "dense"),
        "layers": (int, 2),
        "heads": (int, 4),
        "kv_heads": (int, 2),
        "head_dim": (int, 12),
        "mlp_width": (int, 104),
        "vocab": (int, 48),
        "page_tokens": (int, 8),
        "columns": (int, 8),
        "pages": (int, 80),
        "running_max": (int, 8),
        "scheduling": (str, "fifo"),
        "prefix_caching": (bool, False),
        "speculation": (bool, False),
        "drafting": (str, "history"),
        "draft_tokens": (int, 3),
        "draft_layers": (int, 1),
        "async_executor": (bool, False),
        "decode_graph": (bool, True),
        "prompt_graphs": (bool, False),
        "prefill": (str, "parts"),
        "part_tokens": (int, 16),
        "capture_mode": (str, "thread_local"),
        "capture_under_bypass": (str, "decline"),
    }
    predicates: ClassVar[Mapping[str, Callable[[], bool]]] = PREDICATES
    tells_pool: ClassVar[bool] = True

    def __init__(self, backend: Backend, config: Mapping[str, Any], *, oracle: bool) -> None:
        from capturegate_reference.scheduler import Policy
        from capturegate_reference.server import Server
        from capturegate_reference.server_core import ServerConfig, ServerCore
        from capturegate_reference.sizes import ModelSizes

        names = ModelSizes.__dataclass_fields__.keys() & config.keys()
        self._sizes = ModelSizes(kind=config["model"], **{name: config[name] for name in names})
        _require_sense(config, self._sizes)
        self._core = ServerCore(
            backend,
            self._sizes,
            ServerConfig(
                core=_core_config(config, oracle=oracle),
                running_max=config["running_max"],
                waiting_max=_WAITING_MAX,
                policy=choice("scheduling", config, {policy.value: policy for policy in Policy}),
                prefix_caching=config["prefix_caching"],
                speculate=config["speculation"],
            ),
        )
        core = self._core.core
        self._pools = {"decode": core.pool, "prompts": core.prompt_pool, "drafts": core.draft_pool}
        self._backend = backend
        self._oracle, self._warms_up = oracle, config["prefix_caching"] or not oracle
        self._server = Server(self._core)
        self._loop = asyncio.Runner()
        self._served: list[ServedRequest] = []
        self._asked = False
        self._first: StoppedEngine | None = None
        self._speculates: bool = config["speculation"]
        self._drawn = 0
        self._shows = False

    @verb
    def warm_up(self, concurrency: int = 8, rounds: int = 2) -> Facts:
        """Serve as many requests at once as each warm-up size, all sizes once in each round."""
        at_least("concurrency", {"concurrency": concurrency}, 1, _WAITING_MAX)
        at_least("rounds", {"rounds": rounds}, 1, _ROUNDS_MAX)
        self._require_fit(5, 2)
        tally: Counter[str] = Counter()
        for _ in range(rounds):
            for size in WARM_UP_SIZES:
                prompts = self._prompts(size, 1, 0, 5, 0)
                # An oracle has no graph to warm up; where it shares pages it has them to fill.
                if size <= concurrency and self._warms_up:
                    tally += self._serve(prompts, size, 2, [])
        self._shows = False
        return self._told(tally)

    @verb
    def serve(
        self,
        requests: int,
        concurrency: int = 8,
        families: int = 1,
        shared_tokens: int = 0,
        own_tokens: int = 6,
        spread: int = 3,
        new_tokens: int = 4,
    ) -> Facts:
        """Serve requests, so many at once."""
        prompt_tokens = shared_tokens + own_tokens
        for name, number in {"requests": requests, "families": families}.items():
            at_least(name, {name: number}, 1, _REQUESTS_MAX)
        at_least("new_tokens", {"new_tokens": new_tokens}, 1, self._sizes.context_tokens)
        given = {"shared_tokens": shared_tokens, "own_tokens": own_tokens, "spread": spread}
        for name in given:
            at_least(name, given, 0, self._sizes.context_tokens)
        at_least("concurrency", {"concurrency": concurrency}, 1, _WAITING_MAX)
        at_least("shared_tokens + own_tokens", {"shared_tokens + own_tokens": prompt_tokens}, 1)
        self._require_fit(prompt_tokens + min(spread, requests - 1), new_tokens)
        self._asked = True
        prompts = self._prompts(requests, families, shared_tokens, own_tokens, spread)
        return self._told(self._serve(prompts, concurrency, new_tokens, self._served))

    @verb
    def drain(self, scratch: str = "decode") -> Facts:
        """Give all free scratch of decode steps, of prompts or of drafts to the driver."""
        self._shows = False
        return {"freed_bytes": choice("scratch", {"scratch": scratch}, self._pools).drain()}

    @verb
    def compare(self) -> Facts:
        """Run every request that was served, but for the warm-up, alone, and compare the tokens.

        Also tells whether right guesses came up where it speculates, and none elsewhere.
        """
        from capturegate_reference.one_request import OneRequest

        self._shows = False
        if not self._asked:
            raise InputError(
                "there is nothing to compare", expected="requests that were served before"
            )
        if self._oracle:
            # It is a reference itself, and nobody asks what it compares.
            return {}
        alone = OneRequest(self._backend, self._sizes)
        agreeing = sum(alone.agrees(request) for request in self._served)
        alone.close()
        guessed = self._core.counts["guessed_right"] > 0
        return {
            "agreeing": agreeing,
            "differing": len(self._served) - agreeing,
            "guesses_as_configured": guessed == self._speculates,
        }

    @verb
    def shutdown(self, in_flight: int = 0) -> Facts:
        """Shut the server down while requests are in flight."""
        at_least("in_flight", {"in_flight": in_flight}, 0, _WAITING_MAX)
        self._require_fit(6 + 3, 4)
        self._asked = self._asked or in_flight > 0
        prompts = list(self._prompts(in_flight, 1, 0, 6, 3))
        return self._told(self._loop.run(self._shut_down(prompts)))

    def counters(self) -> Mapping[str, int]:
        """What the server, its decode driver and its prompt graphs count, from 0."""
        ring = sum(slot.inputs is not None for slot in self._core.core.driver.slots)
        return dict.fromkeys(_COUNTERS, 0) | dict(self._core.figures) | {"ring_slots": ring}

    def outputs(self) -> Sequence[Output]:
        """The logits of the decode step, or of the prompt, that the last verb ended with."""
        logits = self._core.core.logits
        if logits is None or not self._shows or self._server.stopped is not None:
            return ()
        name = "logits" if self._core.core.decoded else "prompt-logits"
        return (output(name, logits, self._sizes.vocab),)

    def buffers(self) -> Sequence[Pointer]:
        """What replays write logits to; of no use once the server has stopped."""
        return self._core.core.retained if self._server.stopped is None else []

    def close(self) -> None:
        """Shut the server down, then let go of everything."""
        try:
            self._loop.run(self._server.shutdown())
        finally:
            self._loop.close()
            self._core.close()

    def _require_fit(self, prompt_tokens: int, new_tokens: int) -> None:
        """Refuse requests that no context can hold."""
        most = self._sizes.context_tokens
        if prompt_tokens + new_tokens > most:
            raise InputError(
                f"requests of {prompt_tokens} + {new_tokens} tokens do not fit",
                expected=f"at most {most} tokens, the context",
            )

    def _prompts(
        self, requests: int, families: int, shared: int, own: int, spread: int
    ) -> Iterable[tuple[int, ...]]:
        from capturegate_reference.workload import Workload

        self._drawn += 1
        return Workload(
            requests=requests,
            families=families,
            shared_tokens=shared,
            own_tokens=own,
            spread=spread,
            vocab=self._sizes.vocab,
            seed=self._drawn,
        ).prompts()

    def _serve(
        self,
        prompts: Iterable[tuple[int, ...]],
        concurrency: int,
        new_tokens: int,
        served: list[ServedRequest],
    ) -> Counter[str]:
        return self._loop.run(self._clients(prompts, concurrency, new_tokens, served))

    async def _clients(
        self,
        prompts: Iterable[tuple[int, ...]],
        concurrency: int,
        new_tokens: int,
        served: list[ServedRequest],
    ) -> Counter[str]:
        """So many clients, each of which asks for the next prompt once it has its answer."""
        self._shows = False
        tally: Counter[str] = Counter()
        left = iter(prompts)

        async def client() -> None:
            for prompt in left:
                await self._ask(prompt, new_tokens, tally, served)

        await asyncio.gather(*(client() for _ in range(concurrency)))
        self._shows = True
        return tally

    async def _ask(
        self,
        prompt: tuple[int, ...],
        new_tokens: int,
        tally: Counter[str],
        served: list[ServedRequest],
    ) -> None:
        from capturegate_reference.server import StoppedEngine

        was_stopped = self._server.stopped is not None
        try:
            request = await self._server.generate(prompt, new_tokens)
        except StoppedEngine as error:
            tally["refused" if was_stopped else "lost"] += 1
            first = self._first = self._first or error
            named = bool(first.cause) and error.cause == first.cause
            led = leads_to_a_capture(first.stack) and error.stack == first.stack
            tally["with_cause"] += named
            tally["with_stack"] += led
            tally["unexplained"] += not (named and led)
        else:
            served.append(request)
            tally["ok"] += 1
            tally["tokens"] += len(request.generated)

    async def _shut_down(self, prompts: Sequence[tuple[int, ...]]) -> Counter[str]:
        tally: Counter[str] = Counter()
        asked = [
            asyncio.create_task(self._ask(prompt, 4, tally, self._served)) for prompt in prompts
        ]
        await asyncio.sleep(0)
        await self._server.shutdown()
        await asyncio.gather(*asked)
        return tally

    def _told(self, tally: Counter[str]) -> dict[str, int | str]:
        stopped = self._server.stopped
        names = ("ok", "lost", "refused", "tokens", "with_cause", "with_stack", "unexplained")
        cause = stopped.cause if stopped is not None else ""
        demand = self._core.core.pool.step_demand_profile()
        return {
            **{name: tally[name] for name in names},
            "first_cause": cause or "none",
            "demand_blocks": sum(demand.values()),
        }
