"""What a request says when it is alone: the reference that a server's tokens have to equal."""

from __future__ import annotations

from capturegate.backend import Backend
from capturegate_reference.decode import DecodeConfig
from capturegate_reference.prompt_cache import PromptCacheConfig
from capturegate_reference.scheduler import ServedRequest
from capturegate_reference.serving import CoreConfig, ServingCore
from capturegate_reference.sizes import ModelSizes


class OneRequest:
    """The same model on the same device, with one request at a time and no graph at all.

    It works through a backend of its own, so its calls are in nobody's trace.
    """

    def __init__(self, backend: Backend, sizes: ModelSizes, seed: int = 0) -> None:
        self._pages = tuple(range(1, 1 + sizes.columns))
        self._answers: dict[tuple[int, ...], list[int]] = {}
        unseen = Backend(backend.device)
        unseen.recorder.keeps_sites = False
        self._core = ServingCore(
            unseen,
            sizes,
            CoreConfig(
                decode=DecodeConfig(graphs=False),
                prompt=PromptCacheConfig(enabled=False),
                pages=1 + sizes.columns,
                part_tokens=sizes.context_tokens,
                seed=seed,
            ),
        )

    def agrees(self, request: ServedRequest) -> bool:
        """Whether every token of a request is the one that follows what came before it.

        All of it runs in one pass: if each token is the likeliest after those before it, they
        are together what greedy decoding says step by step. What was read once is not read again.
        """
        read = request.tokens[:-1]
        if read not in self._answers:
            self._answers[read] = self._core.sample(self._core.read(read, self._pages))
        return self._answers[read][len(request.prompt) - 1 :] == request.generated

    def close(self) -> None:
        """Let go of everything."""
        self._core.close()
