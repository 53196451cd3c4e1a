"""What clients ask of a server, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests of a few families; those of one family begin alike.

    Attributes:
        shared_tokens: how long the common beginning of a family's prompts is.
        own_tokens: how much each prompt has of its own, at least.
        spread: the own parts are up to this much longer, in turn.
    """

    requests: int
    families: int
    shared_tokens: int
    own_tokens: int
    spread: int
    vocab: int
    seed: int

    def prompts(self) -> Iterator[tuple[int, ...]]:
        """The prompts, the families in turn."""
        for number in range(self.requests):
            family, length = number % self.families, self.own_tokens + number % (self.spread + 1)
            # A family is the same whatever the seed: a second workload shares the first one's.
            yield (
                *_drawn((1, family), self.shared_tokens, self.vocab),
                *_drawn((2, self.seed, number), length, self.vocab),
            )


def new_prompt(number: int, tokens: int, vocab: int) -> tuple[int, ...]:
    """A prompt by itself, which is like no other one of another number."""
    return _drawn((7, number), tokens, vocab)


def _drawn(seed: tuple[int, ...], count: int, vocab: int) -> tuple[int, ...]:
    random = np.random.default_rng(seed)
    return tuple(int(token) for token in random.integers(vocab, size=count))
