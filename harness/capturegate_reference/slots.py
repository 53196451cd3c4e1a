"""Slots: what the decode driver keeps for one key, and what a step hands out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from capturegate.backend import Array, Pointer
from capturegate_reference.captures import CapturedGraph
from capturegate_reference.inputs import HostVectors, StepInputs, StepShape
from capturegate_reference.pool import Block


class State(enum.StrEnum):
    """How a step ran.

    A slot goes COLD -> CAPTURE -> REPLAY and stays there. It falls back to COLD when the block
    tables get another number of columns, when other layers are tapped, when its capture failed
    and when it was INERT: the backend captured nothing, so the step just ran. EAGER steps were
    declined a graph. The other families' steps go the same way.
    """

    COLD = "cold"
    CAPTURE = "capture"
    REPLAY = "replay"
    INERT = "inert"
    EAGER = "eager"


def captured_sizes(max_num_seqs: int) -> tuple[int, ...]:
    """The numbers of requests that steps are padded to, ascending."""
    sizes = {1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs}
    return tuple(sorted(size for size in sizes if size <= max_num_seqs))


class StepKey(NamedTuple):
    """What a graph is good for.

    On the padded number of requests alone, three requests with two tokens and two with three
    would share a graph.
    """

    requests: int
    tokens: int
    spec: bool


@dataclass(slots=True, kw_only=True)
class Slot:
    """Everything that one graph bakes in, and the demand of the step that it was made from.

    Attributes:
        hidden: the residual stream; kept, since the graph writes to it.
        logits: the retained logits, one row a token.
        host: the vectors that are uploaded, pinned and rewritten in place.
        inputs: persistent inputs of a ring's slot, None where the graph makes its own.
        taps: kept copies of the outputs of tapped layers.
        blocks: the blocks behind all of these.
        warm: whether the cold step ran.
    """

    shape: StepShape
    hidden: Array
    logits: Array
    host: HostVectors
    inputs: StepInputs | None
    taps: Mapping[int, Array]
    blocks: tuple[Block, ...]
    warm: bool = False
    demand: Mapping[int, int] = field(default_factory=dict)
    graph: CapturedGraph | None = None


@dataclass(slots=True)
class Ring:
    """The slots of one key, used in turn."""

    slots: list[Slot]
    turn: int = -1

    def next(self) -> Slot:
        """The slot whose turn it is."""
        self.turn = (self.turn + 1) % len(self.slots)
        return self.slots[self.turn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logits:
    """A step's logits, or a tapped layer's output: `rows` real ones, padded to `rows_padded`.

    `owned` is the block of rows that belong to the caller, who has to put it back; the others
    are a view of what the next step of the same slot overwrites.
    """

    pointer: Pointer
    rows: int
    rows_padded: int
    owned: Block | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What a decode step came to; `reason` says why it was declined a graph, when it was."""

    state: State
    logits: Logits
    taps: Mapping[int, Logits] = field(default_factory=dict)
    reason: str = ""

    @property
    def owned(self) -> list[Block]:
        """The blocks that the caller has to put back."""
        handed = (self.logits, *self.taps.values())
        return [rows.owned for rows in handed if rows.owned is not None]
