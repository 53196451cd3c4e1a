"""`move`: a statement runs earlier or later."""

from __future__ import annotations

from typing import ClassVar

from capturegate_mutations.operators.base import Arguments, Example, nothing_there
from capturegate_mutations.scope import Anchor, Scope
from capturegate_mutations.source import Edit, InvalidFlip


class Move:
    """Takes a simple statement away and puts it before or after another, on that one's line.

    Lines keep their numbers, except that a statement over several lines takes them along.
    """

    name: ClassVar[str] = "move"
    anchors: ClassVar[tuple[str, ...]] = ("here", "before|after")
    texts: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            target="fill",
            arguments=Arguments(
                anchors={
                    "here": Anchor(kind="call", text="tank.prime"),
                    "after": Anchor(kind="call", text="tank.open"),
                }
            ),
            before="def fill(tank):\n    tank.prime(1)\n    tank.open()\n    tank.run()\n",
            after="def fill(tank):\n    pass\n    tank.open(); tank.prime(1)\n    tank.run()\n",
        ),
        Example(
            target="fill",
            arguments=Arguments(
                anchors={
                    "here": Anchor(kind="statement", text="tank.run()"),
                    "before": Anchor(kind="call", text="tank.open"),
                }
            ),
            before="def fill(tank):\n    tank.open()  # wide\n    tank.run()\n",
            after="def fill(tank):\n    tank.run(); tank.open()  # wide\n    pass\n",
        ),
    )

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """A replacement where it was, an insertion where it goes."""
        text = scope.source.text
        moved = scope.simple_statement(arguments.anchors["here"])
        side = "before" if "before" in arguments.anchors else "after"
        beside = scope.simple_statement(arguments.anchors[side])
        if beside is moved:
            where = f"{scope.source.path}:{moved.lineno}"
            raise InvalidFlip("a statement cannot move beside itself", where=where)
        start, end = scope.span(moved)
        to_start, to_end = scope.span(beside)
        code = text[start:end]
        gone = Edit(start, end, nothing_there(code))
        if side == "before":
            return [gone, Edit(to_start, to_start, f"{code}; ")]
        return [gone, Edit(to_end, to_end, f"; {code}")]
