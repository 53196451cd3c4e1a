"""What a gate's docstring says: its title, and its sections by heading."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from capturegate.gates.base import Gate
from capturegate.run.result import Verdict

_HEADING = re.compile(r"^(\w[^\n]*):$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")
FIX_HEADING = "How to fix it"
VACUOUS_HEADING = "When it is vacuous"
_NOTHING_BROKE = (
    "Bring back the mistake that this arm expects, or change what it expects: nothing broke here."
)
_NOTHING_TO_JUDGE = (
    "Let a step do what the gate judges, or leave the gate out: one that had nothing to judge "
    "proves nothing."
)
_NOT_JUDGED = "Make what the reason says possible: a gate that could not judge is never green."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A gate as reports and `explain` show it. `sections` maps headings to their text."""

    code: str
    name: str
    title: str
    sections: Mapping[str, str]
    needs: tuple[str, ...] = ()
    params: Mapping[str, str]
    by_default: bool

    def action(self, verdict: Verdict) -> str:
        """The one thing to do first about a verdict that is not as expected."""
        match verdict:
            case Verdict.HELD:
                return _NOTHING_BROKE
            case Verdict.VACUOUS:
                return self._first(VACUOUS_HEADING) or _NOTHING_TO_JUDGE
            case Verdict.UNKNOWN:
                return _NOT_JUDGED
            case _:
                return self._first(FIX_HEADING)

    def _first(self, heading: str) -> str:
        text = " ".join(self.sections.get(heading, "").split())
        return _SENTENCE_END.split(text)[0]


def guide_of(gate: Gate) -> Guide:
    """Read a gate's class."""
    title, sections = _sections_of(inspect.getdoc(type(gate)) or "")
    return Guide(
        code=gate.code,
        name=gate.name,
        title=title,
        sections=sections,
        needs=tuple(sorted(gate.needs)),
        params={name: kind.__name__ for name, kind in gate.params.items()},
        by_default=gate.by_default,
    )


def guides_of(gates: Iterable[Gate]) -> dict[str, Guide]:
    """Guides by the name of their gate."""
    return {gate.name: guide_of(gate) for gate in gates}


def _sections_of(doc: str) -> tuple[str, dict[str, str]]:
    title, _, rest = doc.partition("\n\n")
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in rest.splitlines():
        if match := _HEADING.match(line):
            lines = sections.setdefault(match[1], [])
        else:
            lines.append(line)
    texts = {head: inspect.cleandoc("\n".join(["", *body])) for head, body in sections.items()}
    return " ".join(title.split()), texts
