"""Case keys of a plan: `scenario[lane/arm]`, with alternatives in braces."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Collection

from capturegate.errors import CapturegateError

_BRACES = re.compile(r"\{([^{}]*)\}")
_KEY = re.compile(r"[^\[\]{}/,\s]+\[[^\[\]{}/,\s]+/[^\[\]{}/,\s]+\]")


class BadCaseKey(CapturegateError):
    """A case key does not expand to cases that exist."""

    def __init__(self, problem: str, hint: str = "") -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(problem)


def expand(text: str, cases: Collection[str]) -> list[str]:
    """The case names that a key stands for, every one of which exists.

    `{a,b}` stands for either; several groups multiply.

    Raises:
        BadCaseKey: the key is malformed, repeats itself, or names a case that does not exist.
    """
    parts = _BRACES.split(text)
    choices = [
        [choice.strip() for choice in part.split(",")] if number % 2 else [part]
        for number, part in enumerate(parts)
    ]
    keys = ["".join(chosen) for chosen in itertools.product(*choices)]
    for key in keys:
        if not _KEY.fullmatch(key):
            raise BadCaseKey(f"'{key}' is not a case", "a case is written scenario[lane/arm]")
        if key not in cases:
            raise BadCaseKey(f"no case '{key}'", _hint(key, cases))
    if len(set(keys)) != len(keys):
        raise BadCaseKey(f"'{text}' names a case twice")
    return keys


def _hint(key: str, cases: Collection[str]) -> str:
    """The nearest case; where not even its scenario is there, how scenarios are chosen."""
    scenario = key.partition("[")[0]
    scenarios = {case.partition("[")[0] for case in cases}
    if scenario not in scenarios and not difflib.get_close_matches(scenario, scenarios, cutoff=0.8):
        return (
            "scenarios of your own are chosen with --scenarios; under pytest they lie beside the "
            "plan, or below"
        )
    close = difflib.get_close_matches(key, sorted(cases), n=1)
    return f"did you mean '{close[0]}'?" if close else ""
