"""Options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from capturegate.errors import CapturegateError

Advance = Callable[[], None]
F = TypeVar("F", bound=Callable[..., Any])


class OutputLostError(CapturegateError):
    """Something that was asked for could not be written: exit code 3, a message."""


def paths(command: F) -> F:
    """The argument PATHS."""
    return click.argument("paths", nargs=-1, callback=_paths)(command)


def _paths(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[Path, ...]:
    # An empty word would mean the working directory; it is a variable that nobody set.
    if not all(values):
        raise click.BadParameter("a path is empty")
    return tuple(map(Path, values))


def seconds(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    """A time limit: a range lets through what compares with nothing."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a number of seconds")
    return value


def selection(command: F) -> F:
    """`-k`, `--lane` and `--arm`."""
    for option in (
        click.option("--arm", multiple=True, help="Only this arm; may be given again."),
        click.option("--lane", multiple=True, help="Only this lane; may be given again."),
        click.option(
            "-k",
            "keyword",
            default="",
            metavar="EXPRESSION",
            help="Only cases whose id has these words; and, or, not, ( ) combine them.",
        ),
    ):
        command = option(command)
    return command


def backend(command: F) -> F:
    """`--backend`."""
    return click.option(
        "--backend", default="fake", show_default=True, help="The backend to run on."
    )(command)


def json_to(command: F) -> F:
    """`--json`."""
    return click.option("--json", "json_to", metavar="FILE", help="Write JSON; - is stdout.")(
        command
    )


def file_of(json_to: str | None) -> Path | None:
    """The file that `--json` names; None where it is standard output, or was not given."""
    return None if json_to in (None, "-") else Path(json_to)


def write_json(data: dict[str, Any], target: str) -> None:
    """Write JSON to a file, or to standard output.

    Raises:
        OutputLostError: the file cannot be written.
    """
    from capturegate.report.json import dumps

    write_json_text(dumps(data), target)


def write_json_text(text: str, target: str) -> None:
    """Write what is JSON already to a file, or to standard output.

    Raises:
        OutputLostError: the file cannot be written.
    """
    if target == "-":
        # As bytes: JSON is UTF-8, whatever the terminal is.
        click.echo(_encoded(text), nl=False)
    else:
        write_file("--json", Path(target), text)


def write_file(option: str, path: Path, text: str) -> None:
    """Write the file that an option names.

    Raises:
        OutputLostError: it cannot be written.
    """
    try:
        path.write_bytes(_encoded(text))
    except OSError as error:
        raise OutputLostError(f"{option} {path}: {error.strerror}") from error


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
