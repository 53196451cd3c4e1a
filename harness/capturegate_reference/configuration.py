"""Reading words out of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

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
