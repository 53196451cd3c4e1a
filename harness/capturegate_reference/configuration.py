"""Reading words and numbers out of a configuration, or out of what a verb is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from capturegate.backend import CaptureMode
from capturegate.errors import InputError

T = TypeVar("T")


def choice(key: str, config: Mapping[str, Any], choices: Mapping[str, T]) -> T:
    """What a word of a configuration stands for, or one that a verb is told.

    Raises:
        InputError: the word is none of the choices.
    """
    if config[key] not in choices:
        raise InputError(
            f"{key} is {config[key]!r}",
            expected=f"one of {', '.join(sorted(choices))}" if choices else "one that is there",
        )
    return choices[config[key]]


def at_least(key: str, config: Mapping[str, Any], least: int, most: int | None = None) -> int:
    """A number of a configuration, or of what a verb is told.

    Raises:
        InputError: it is smaller than `least`, or larger than `most`.
    """
    value: int = config[key]
    if value < least or (most is not None and value > most):
        raise InputError(
            f"{key} is {value}",
            expected=f"at least {least}" if most is None else f"{least} to {most}",
        )
    return value


def named(key: str, config: Mapping[str, Any]) -> str:
    """A name that somebody makes up.

    Raises:
        InputError: it is empty.
    """
    value: str = config[key]
    if not value:
        raise InputError(f"{key} is empty", expected="a name")
    return value


def capture_mode(config: Mapping[str, Any]) -> CaptureMode:
    """The mode that a configuration's captures begin with.

    Raises:
        InputError: there is no such mode.
    """
    return choice("capture_mode", config, {mode.value: mode for mode in CaptureMode})
