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
WIDTH_DEFAULT = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """Marks that say the same as the words beside them."""

    good: str = "✓"
    bad: str = "✗"
    skip: str = "–"  # noqa: RUF001, a dash is meant
    cut: str = "…"


ASCII_GLYPHS = Glyphs(good="+", bad="x", skip="-", cut="...")


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
    console = Console(highlight=False, markup=False, emoji=False)
    if console.width < 1:
        # COLUMNS=0 is how some say that they do not know.
        console.width = WIDTH_DEFAULT
    return console


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

    def site(self, label: str, place: str, function: str = "", style: str = "") -> None:
        """Print a label and, beside it, `file:line` and the function, on one line if they fit."""
        self.labelled(label, self.fitted(place, function, LABEL_WIDTH + 2), style)

    def fitted(self, place: str, function: str, indent: int) -> str:
        """`file:line in function`, the folders cut from the left until it fits."""
        width = max(self.width - indent, 20)
        tail = f" in {function}" if function else ""
        return f"{shortened(place, width - len(tail), self.glyphs.cut)}{tail}"

    def paragraph(self, text: str, indent: int = 0, style: str = "") -> None:
        """Print text that wraps."""
        for row in self._wrap(text, indent):
            self.line((" " * indent + row, style))

    def _wrap(self, text: str, indent: int) -> Sequence[str]:
        width = max(self.width - indent, 20)
        return textwrap.wrap(text, width, break_on_hyphens=False)


def shortened(path: str, width: int, cut: str) -> str:
    """A path without its first folders, as many as make it fit; its last part always stays."""
    if len(path) <= width:
        return path
    folders = path.split("/")
    ends = ("/".join([cut, *folders[first:]]) for first in range(1, len(folders)))
    # A name that is wider than that wraps.
    return next((end for end in ends if len(end) <= width), folders[-1])


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
