"""The errors that Capturegate raises, and how they read."""

from __future__ import annotations

from dataclasses import dataclass

MESSAGE_CHARS_MAX = 4000


class CapturegateError(Exception):
    """Base of every error of this package."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file; line and column count from 1."""

    path: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class InputError(CapturegateError):
    """The user's input is wrong: exit code 2, a message, no traceback.

    Takes the facts and makes the sentence: what is broken, where, what was found and expected,
    what to do.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: Location | str = "",
        expected: str = "",
        hint: str = "",
    ) -> None:
        self.problem = problem
        self.where = where
        self.expected = expected
        self.hint = hint
        lines = [f"{where}: {problem}" if where else problem]
        if expected:
            lines.append(f"  expected: {expected}")
        if hint:
            lines.append(f"  help: {hint}")
        super().__init__("\n".join(lines))


class InputErrors(InputError):
    """Several input errors that were found in one go."""

    def __init__(self, errors: list[InputError]) -> None:
        self.errors = errors
        CapturegateError.__init__(self, "\n".join(str(error) for error in errors))


def message_of(error: BaseException) -> str:
    """What an exception says of itself, however it was made."""
    try:
        text = str(error)
    except BaseException as nested:
        # Any kind: an exception whose words cannot be had is still one.
        return f"(it cannot say what it is: {type(nested).__name__} from its __str__)"
    if len(text) <= MESSAGE_CHARS_MAX:
        return text
    return f"{text[:MESSAGE_CHARS_MAX]} [cut: {len(text):,} characters in all]"
