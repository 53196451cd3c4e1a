"""Reading words out of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from capturegate.backend import CaptureMode
from capturegate.errors import InputError

T = TypeVar("T")


def choice(key: str, config: Mapping[str, Any], choices: Mapping[str, T]) -> T:
    """What a configuration's word stands for.

    Raises:
        InputError: the word is none of the choices.
    """
    if config[key] not in choices:
        raise InputError(
            f"the configuration's {key} is {config[key]!r}",
            expected=f"one of {', '.join(sorted(choices))}",
        )
    return choices[config[key]]


def capture_mode(config: Mapping[str, Any]) -> CaptureMode:
    """The mode that a configuration's captures begin with.

    Raises:
        InputError: there is no such mode.
    """
    return choice("capture_mode", config, {mode.value: mode for mode in CaptureMode})
