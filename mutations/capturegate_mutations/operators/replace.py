"""`replace`: one text of the target becomes another."""

from __future__ import annotations

from typing import ClassVar

from capturegate_mutations.operators.base import Arguments, Example
from capturegate_mutations.scope import Scope, mismatch
from capturegate_mutations.source import Edit


class Replace:
    """Replaces a text that stands exactly once in the target's span, decorators included.

    Matches that overlap count one by one, and so do those in comments and strings.
    """

    name: ClassVar[str] = "replace"
    anchors: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[tuple[str, ...]] = ("old", "new")
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            target="Ledger.total",
            arguments=Arguments(texts={"old": "start + 1", "new": "start - 1"}),
            before=(
                "class Ledger:\n"
                "    start = 0 + 1\n"
                "    @staticmethod\n"
                "    def total(start):\n"
                "        return start + 1\n"
            ),
            after=(
                "class Ledger:\n"
                "    start = 0 + 1\n"
                "    @staticmethod\n"
                "    def total(start):\n"
                "        return start - 1\n"
            ),
        ),
        Example(
            target="cached",
            arguments=Arguments(texts={"old": "maxsize=1", "new": "maxsize=0"}),
            before="@lru_cache(maxsize=1)\ndef cached():\n    return []\n",
            after="@lru_cache(maxsize=0)\ndef cached():\n    return []\n",
        ),
    )

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """One replacement."""
        old = arguments.texts["old"]
        text = scope.text
        found = [at for at in range(len(text)) if text.startswith(old, at)]
        if len(found) != 1:
            lines = [scope.source.at(scope.start + at) for at in found]
            wanted = old.strip().partition("\n")[0]
            raise mismatch(scope, f"text {old!r}", lines, wanted=wanted, there=scope.lines)
        start = scope.start + found[0]
        return [Edit(start, start + len(old), arguments.texts["new"])]
