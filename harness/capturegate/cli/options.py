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


def write_json(data: dict[str, Any], target: str) -> None:
    """Write JSON to a file, or to standard output.

    Raises:
        OutputLostError: the file cannot be written.
    """
    from capturegate.report.json import dumps

    # As bytes: JSON is UTF-8, whatever the terminal is.
    text = dumps(data).encode("utf-8", "backslashreplace")
    if target == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(target).write_bytes(text)
    except OSError as error:
        raise OutputLostError(f"--json {target}: {error.strerror}") from error
