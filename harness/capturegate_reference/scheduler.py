"""Which requests run: those that wait, those that run, and who is next."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from capturegate_reference.drafts import Draft


class Policy(enum.Enum):
    """Whom to admit first: who came first, or who shares the longest prefix."""

    FIFO = "fifo"
    LPM = "lpm"


@dataclass(slots=True, kw_only=True, eq=False)
class ServedRequest:
    """One request on its way.

    Attributes:
        number: in the order of arrival.
        stored: how many of its tokens have their keys and values in pages.
        speculates: whether tokens are guessed for it.
        draft: guesses from what it said before; None where a draft model does, or nobody.
    """

    number: int
    prompt: tuple[int, ...]
    new_tokens: int
    generated: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)
    stored: int = 0
    speculates: bool = False
    draft: Draft | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """Everything said so far."""
        return (*self.prompt, *self.generated)

    @property
    def done(self) -> bool:
        """Whether it has all that it asked for."""
        return len(self.generated) >= self.new_tokens


class Scheduler:
    """The two queues.

    Attributes:
        waiting: not admitted yet, or preempted.
        running: admitted, the oldest first.
        overtakes: how often a request was admitted before an older one.
    """

    def __init__(self, policy: Policy, running_max: int) -> None:
        self.waiting: list[ServedRequest] = []
        self.running: list[ServedRequest] = []
        self.overtakes = 0
        self._policy = policy
        self._running_max = running_max

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.waiting and not self.running

    def next(self, shared_tokens: Callable[[ServedRequest], int]) -> ServedRequest | None:
        """Who is to be admitted; it stays where it is until `admit`."""
        if not self.waiting or len(self.running) >= self._running_max:
            return None
        if self._policy is Policy.FIFO:
            return self.waiting[0]
        # The first of the longest: among equals nobody is overtaken.
        return max(self.waiting, key=shared_tokens)

    def admit(self, request: ServedRequest) -> None:
        """Move a request from the waiting to the running."""
        self.overtakes += any(other.number < request.number for other in self.waiting)
        self.waiting.remove(request)
        self.running.append(request)

    def preempt(self, request: ServedRequest) -> None:
        """Move a running request back to the head of the waiting."""
        self.running.remove(request)
        self.waiting.insert(0, request)

    def finish(self) -> list[ServedRequest]:
        """Take out the running requests that are done."""
        done = [request for request in self.running if request.done]
        self.running = [request for request in self.running if not request.done]
        return done
