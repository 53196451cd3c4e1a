"""Collecting the errors of one input, and the words that its messages share."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from capturegate.errors import InputError, InputErrors, Location

ERRORS_MAX = 20

P = ParamSpec("P")
T = TypeVar("T")


class Problems:
    """The errors found so far in one input."""

    def __init__(self) -> None:
        self._errors: list[InputError] = []

    def add(self, error: InputError) -> None:
        """Keep an error; with the twentieth, give up on the input.

        Raises:
            InputErrors: there are enough errors to start with.
        """
        self._errors.extend(error.errors if isinstance(error, InputErrors) else [error])
        if len(self._errors) >= ERRORS_MAX:
            first = sorted(self._errors[:ERRORS_MAX], key=_position)
            raise InputErrors([*first, InputError(f"stopped after {ERRORS_MAX} errors")])

    def take(self, default: T, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `read` returns; `default`, and its error kept, when the input is wrong."""
        try:
            return read(*args, **kwargs)
        except InputError as error:
            if len(self._errors) >= ERRORS_MAX:
                raise
            self.add(error)
            return default

    def raise_any(self) -> None:
        """Raise what was found, in the order of the file.

        Raises:
            InputErrors: something was found.
        """
        if self._errors:
            raise InputErrors(sorted(self._errors, key=_position))


def unknown(
    kind: str, name: str, known: Iterable[str], *, where: Location | str = "", within: str = ""
) -> InputError:
    """The error for a name that is none of the known ones, with the nearest of them.

    `kind` is what the name should have been, such as `lane`; `within` where it stands, such as
    `step 'drain'`.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    place = f" in {within}" if within else ""
    return InputError(
        f"unknown {kind} '{shortened(name)}'{place}",
        where=where,
        expected=f"one of {', '.join(names)}" if names else f"no {kind} at all",
        hint=f"did you mean '{close[0]}'?" if close else "",
    )


def described(value: object) -> str:
    """What a value is, as a message says it."""
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return f"the boolean {str(value).lower()}"
        case str():
            return f"the text '{shortened(value)}'"
        case _:
            return f"the number {value}"


def shortened(text: str) -> str:
    """A text of the user's, no longer than a message bears."""
    return text if len(text) <= 40 else f"{text[:37]}..."


def _position(error: InputError) -> tuple[str, int, int]:
    where = error.where
    if isinstance(where, Location):
        return where.path, where.line, where.column
    return where, 0, 0
