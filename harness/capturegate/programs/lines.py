"""Calls as lines of text, as scenarios write them: `begin 0 n1 global -> cudaSuccess`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from capturegate.errors import InputError
from capturegate.programs.ops import check_program
from capturegate.status import SUCCESS

_ARROW = "->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One call, and what the device answered to it when it was recorded."""

    call: list[Any]
    error: str


def parse_line(text: object) -> Line:
    """Read a line: op, thread, arguments and, unless it is cudaSuccess, `-> ` and the answer.

    Raises:
        InputError: it is no call of a program.
    """
    if not isinstance(text, str):
        raise InputError(f"{text!r} is no line of a program", expected="text: op thread arguments")
    said, arrow, error = (part.strip() for part in text.partition(_ARROW))
    if arrow and len(error.split()) != 1:
        raise InputError(f"'{text}' does not say what is answered", expected="-> one error name")
    call: list[Any] = [int(word) if word.isdigit() else word for word in said.split()]
    try:
        check_program([call])
    except InputError as wrong:
        raise InputError(f"'{text}': {wrong.problem}", expected=wrong.expected) from wrong
    return Line(call=call, error=error or SUCCESS)
