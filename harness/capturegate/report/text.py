"""Text for a terminal: made safe, coloured, wrapped and printed."""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Part = tuple[str, str]
"""Text and its style; text that is shown goes through `clean` first."""

LABEL_WIDTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """Marks that say the same as the words beside them."""

    good: str = "✓"
    bad: str = "✗"
    skip: str = "–"  # noqa: RUF001, a dash is meant


ASCII_GLYPHS = Glyphs(good="+", bad="x", skip="-")


def clean(text: object) -> str:
    """Text on one line in which nothing can steer a terminal or hide."""
    return "".join(
        character
        if unicodedata.category(character)[0] != "C"
        else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def short_path(path: str) -> str:
    """A path as seen from the working directory, where it lies below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def terminal() -> Console:
    """The console on standard output; it survives characters that the encoding lacks."""
    from rich.console import Console

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return Console(highlight=False, markup=False, emoji=False)


class Printer:
    """Prints lines of styled parts. Nothing printed is read as markup."""

    def __init__(self, console: Console) -> None:
        self._console = console
        unicode = console.encoding.lower().startswith("utf")
        self.glyphs = Glyphs() if unicode else ASCII_GLYPHS

    @property
    def width(self) -> int:
        """Columns of the console."""
        return self._console.width

    def line(self, *parts: Part) -> None:
        """Print one line, as long as it is."""
        self._console.print(_text(parts), soft_wrap=True)

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """Print a label and, beside it, text that wraps there."""
        for number, row in enumerate(self._wrap(text, LABEL_WIDTH + 2)):
            head = label if number == 0 else ""
            self.line((f"  {head:<{LABEL_WIDTH}}", "dim"), (row, style))

    def paragraph(self, text: str, indent: int = 0, style: str = "") -> None:
        """Print text that wraps."""
        for row in self._wrap(text, indent):
            self.line((" " * indent + row, style))

    def _wrap(self, text: str, indent: int) -> Sequence[str]:
        width = max(self.width - indent, 20)
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def pack(chips: Iterable[Sequence[Part]], width: int) -> list[list[Part]]:
    """Put chips beside each other, two columns apart, on as many lines as they need."""
    rows: list[list[Part]] = []
    used = 0
    for chip in chips:
        size = sum(len(text) for text, _ in chip)
        if rows and used + 2 + size <= width:
            rows[-1] += [("  ", ""), *chip]
            used += 2 + size
        else:
            rows.append(list(chip))
            used = size
    return rows


def _text(parts: Iterable[Part]) -> Text:
    from rich.text import Text

    text = Text()
    for content, style in parts:
        text.append(content, style=style or None)
    return text
