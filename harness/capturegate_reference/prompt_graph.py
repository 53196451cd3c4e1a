"""What a prompt graph is: its nodes, and what an executable of it bakes beyond them."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from capturegate_reference.sizes import MOE, ModelSizes


class PromptNode(NamedTuple):
    """One operation of a pass, as large as it is; where its data lies is not part of it."""

    operation: str
    shape: tuple[int, ...]


Nodes = tuple[PromptNode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One prompt pass that is about to run.

    Attributes:
        nodes: what it does; two passes with the same first node can still differ later on.
        properties: the addresses that an executable bakes.
        source: the host address of the tokens that it was made for.
    """

    nodes: Nodes
    properties: tuple[int, ...]
    source: int

    @property
    def identity(self) -> str:
        """The nodes in short."""
        return _short(self.nodes)

    @property
    def baked(self) -> str:
        """The properties in short."""
        return _short(self.properties)


@functools.cache
def prompt_nodes(sizes: ModelSizes, rows: int, *, logits: bool, tap: bool) -> Nodes:
    """The nodes of a pass over so many rows.

    All passes of as many rows begin alike; a prompt's last part computes logits, and a tapped
    one keeps its residual stream.
    """
    wide = (rows, sizes.hidden)
    mixer = "experts" if sizes.kind == MOE else "mlp"
    nodes = [PromptNode("embed", wide)]
    for number in range(sizes.layers):
        nodes.append(PromptNode(f"attend.{number}", wide))
        nodes.append(PromptNode(f"{mixer}.{number}", wide))
    if logits:
        nodes.append(PromptNode("logits", (rows, sizes.vocab)))
    if tap:
        nodes.append(PromptNode("tap", wide))
    return tuple(nodes)


@functools.cache
def _short(value: Nodes | tuple[int, ...]) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:10]
