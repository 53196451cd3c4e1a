"""`delete`: a statement is gone."""

from __future__ import annotations

from typing import ClassVar

from capturegate_mutations.operators.base import Arguments, Example, nothing_there
from capturegate_mutations.scope import Anchor, Scope
from capturegate_mutations.source import Edit


class Delete:
    """Puts `pass` in a statement's place; the lines after it keep their numbers."""

    name: ClassVar[str] = "delete"
    anchors: ClassVar[tuple[str, ...]] = ("here",)
    texts: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            target="Valve.shut",
            arguments=Arguments(anchors={"here": Anchor(kind="call", text="self.flush")}),
            before=(
                "class Valve:\n"
                "    def shut(self):\n"
                "        self.flush(\n"
                "            all=True,\n"
                "        )\n"
                "        self.flushed = True\n"
            ),
            after=(
                "class Valve:\n    def shut(self):\n        pass\n\n\n        self.flushed = True\n"
            ),
        ),
    )

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """One replacement."""
        start, end = scope.span(scope.simple_statement(arguments.anchors["here"]))
        return [Edit(start, end, nothing_there(scope.source.text[start:end]))]
