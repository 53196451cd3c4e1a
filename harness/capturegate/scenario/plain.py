"""What an unquoted YAML word means, where every version of YAML agrees; the rest is refused."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})\.[0-9]+(e[-+][0-9]+)?")
_WORDS: dict[str, bool | None] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}

_QUOTE = "put it in quotes if you mean the text"
_SURPRISES = (
    (
        re.compile(r"yes|no|on|off", re.IGNORECASE),
        "is a boolean in YAML 1.1 and a word in YAML 1.2",
        f"write true or false, or {_QUOTE}",
    ),
    (
        re.compile(r"true|false|null", re.IGNORECASE),
        "is not spelled in lower case",
        f"write it in lower case, or {_QUOTE}",
    ),
    (
        re.compile(r"[-+]?0[0-9_]+"),
        "is octal in YAML 1.1 and decimal in YAML 1.2",
        f"write it in decimal without leading zeros, or {_QUOTE}",
    ),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
        "is a number of base 60 in YAML 1.1 and a word in YAML 1.2",
        _QUOTE,
    ),
    (
        re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"),
        "is a date in YAML 1.1 and a word in YAML 1.2",
        _QUOTE,
    ),
    (
        re.compile(r"[-+]?0(x[0-9a-fA-F_]+|o[0-7_]+|b[01_]+)"),
        "is a number to some readers of YAML and a word to others",
        f"write it in decimal, or {_QUOTE}",
    ),
    (
        re.compile(r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"),
        "is not a number as every reader of YAML spells it",
        f"write plain digits, such as 1000 or 0.5, at most 19 of them, or {_QUOTE}",
    ),
    (
        re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE),
        "is not a finite number",
        _QUOTE,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """Why a plain word is refused, and what to write instead."""

    reason: str
    hint: str


def resolve(text: str) -> str | int | float | bool | Surprise | None:
    """The value of a plain scalar, or the reason why it has none that is safe to take."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    for pattern, reason, hint in _SURPRISES:
        if pattern.fullmatch(text):
            return Surprise(reason=reason, hint=hint)
    return text
