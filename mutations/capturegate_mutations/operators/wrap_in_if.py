"""`wrap_in_if`: a statement runs only when a test holds."""

from __future__ import annotations

from typing import ClassVar

from capturegate_mutations.operators.base import Arguments, Example, parsed_expression
from capturegate_mutations.scope import Anchor, Scope
from capturegate_mutations.source import Edit


class WrapInIf:
    """Puts a simple statement behind a test, on the line that it has.

    The statement's own text is left alone, so a string over several lines keeps its bytes.
    """

    name: ClassVar[str] = "wrap_in_if"
    anchors: ClassVar[tuple[str, ...]] = ("here",)
    texts: ClassVar[tuple[str, ...]] = ("test",)
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            target="Pump.step",
            arguments=Arguments(
                anchors={"here": Anchor(kind="call", text="self.prime")}, texts={"test": "hot"}
            ),
            before=(
                "class Pump:\n"
                "    def step(self, hot):\n"
                "        self.prime(  # first\n"
                "            1,\n"
                "        )  # last\n"
                "        return hot\n"
            ),
            after=(
                "class Pump:\n"
                "    def step(self, hot):\n"
                "        if hot: self.prime(  # first\n"
                "            1,\n"
                "        )  # last\n"
                "        return hot\n"
            ),
        ),
        Example(
            target="outer.inner",
            arguments=Arguments(
                anchors={"here": Anchor(kind="statement", text="x  =  'é', 2")},
                texts={"test": "y > 0 and not x"},
            ),
            before="async def outer(x, y):\n\tdef inner():\n\t\tx = 'é', 2\n\treturn inner\n",
            after=(
                "async def outer(x, y):\n\tdef inner():\n"
                "\t\tif y > 0 and not x: x = 'é', 2\n\treturn inner\n"
            ),
        ),
    )

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """One insertion in front of the statement."""
        test = parsed_expression(arguments.texts["test"], "test")
        start, _ = scope.span(scope.simple_statement(arguments.anchors["here"]))
        return [Edit(start, start, f"if {test}: ")]
