"""What an operator is: it turns an anchor in a target into edits of source spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from capturegate_mutations.scope import Anchor, Scope
from capturegate_mutations.source import Edit, InvalidFlip


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a plan gives an operator: anchors and texts by their key."""

    anchors: Mapping[str, Anchor] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A module's text before and after the operator; `target` is the qualified name flipped."""

    target: str
    arguments: Arguments
    before: str
    after: str


class Operator(Protocol):
    """One way to flip code.

    Attributes:
        name: the key in a plan.
        anchors: names of the anchors that it needs; `here` is the statement `call` or
            `statement` names; of a group `before|after` exactly one.
        texts: names of the texts that it needs; a lone `value` is written as a plain text.
        examples: text before and after, all checked by one test.
    """

    name: ClassVar[str]
    anchors: ClassVar[tuple[str, ...]]
    texts: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[Example, ...]]

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """The edits that flip the target.

        Raises:
            InvalidFlip: the anchor does not match exactly once, or cannot be edited this way.
        """


def parsed_expression(text: str, key: str) -> str:
    """An expression of a plan, stripped.

    Raises:
        InvalidFlip: it is not one expression.
    """
    stripped = text.strip()
    try:
        compile(stripped, "<plan>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InvalidFlip(f"'{key}' is not an expression: {stripped!r}") from error
    return stripped


def nothing_there(text: str) -> str:
    """A statement that does nothing and takes as many lines as `text`."""
    return "pass" + "\n" * text.count("\n")
