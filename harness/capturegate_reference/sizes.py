"""The sizes of a model, and the shapes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from capturegate.errors import InputError
from capturegate_reference.configuration import at_least

DENSE = "dense"
MOE = "moe"

CONTEXT_TOKENS_MAX = 1 << 16
"""Beyond it the tables of one rotary embedding keep a case busy for minutes."""

HIDDEN_MAX = 1 << 12

SIZES_MAX = {
    "layers": 256,
    "heads": HIDDEN_MAX,
    "kv_heads": HIDDEN_MAX,
    "head_dim": HIDDEN_MAX,
    "mlp_width": 1 << 16,
    "vocab": 1 << 16,
    "experts": 256,
    "experts_kept": 256,
    "expert_width": 1 << 16,
    "page_tokens": CONTEXT_TOKENS_MAX,
    "columns": CONTEXT_TOKENS_MAX,
}
"""The most that a case can have of each size and still come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """How large a decoder is.

    The defaults keep the bytes per row of different kinds of scratch (4 for an id, 16 for a block
    table, 40, 160, 480, 1120) more than a factor of two apart, so that a pool never serves one
    kind by lending a block of the next.

    Attributes:
        kind: `dense`, or `moe` for a mixture of experts.
        columns: pages in a request's block table; `columns * page_tokens` is the context.
        expert_width: width of one expert's hidden layer; `mlp_width` that of the dense MLP.
    """

    kind: str = DENSE
    layers: int = 2
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 20
    mlp_width: int = 280
    vocab: int = 200
    experts: int = 10
    experts_kept: int = 4
    expert_width: int = 70
    page_tokens: int = 16
    columns: int = 4

    def __post_init__(self) -> None:
        if self.kind not in (DENSE, MOE):
            raise InputError(f"there is no model {self.kind!r}", expected=f"{DENSE} or {MOE}")
        for name, most in SIZES_MAX.items():
            at_least(name, {name: getattr(self, name)}, 1, most)
        at_least("heads * head_dim", {"heads * head_dim": self.hidden}, 1, HIDDEN_MAX)
        context = {"columns * page_tokens": self.context_tokens}
        at_least("columns * page_tokens", context, 1, CONTEXT_TOKENS_MAX)
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise InputError(
                f"{self.heads} heads of {self.head_dim} do not share {self.kv_heads} kv heads",
                expected="heads divisible by kv_heads, and an even head_dim",
            )
        if self.experts_kept > self.experts:
            raise InputError(f"{self.experts_kept} experts are kept out of {self.experts}")

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of one token's keys, and of its values."""
        return self.kv_heads * self.head_dim

    @property
    def half(self) -> int:
        """Rotary pairs in a head."""
        return self.head_dim // 2

    @property
    def context_tokens(self) -> int:
        """The most tokens that a request can have."""
        return self.columns * self.page_tokens

    def pages_of(self, line: int) -> tuple[int, ...]:
        """The pages of a request that has a line of its own; the one before them is nobody's."""
        first = 1 + line * self.columns
        return tuple(range(first, first + self.columns))
