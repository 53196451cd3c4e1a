"""What a gate's docstring says: its title, and its sections by heading."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from capturegate.gates.base import Gate

_HEADING = re.compile(r"^(\w[^\n]*):$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")
FIX_HEADING = "How to fix it"


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

    @property
    def action(self) -> str:
        """The one thing to do first: the first sentence of how to fix it."""
        text = " ".join(self.sections.get(FIX_HEADING, "").split())
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
