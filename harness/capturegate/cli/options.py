"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Advance = Callable[[], None]
F = TypeVar("F", bound=Callable[..., Any])


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
