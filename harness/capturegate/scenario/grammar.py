"""The closed grammar of expectations over named counters and facts.

1           equal               "> 0"  ">= 3"  "< 5"  "<= 5"  "!= 2"    compared
"3..7"      both ends included  true  false     replay                   a boolean, a word
"""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from capturegate.errors import InputError, Location
from capturegate.scenario.problems import shortened

# 18 digits stay within 64 bits, and keep int() from ever refusing.
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?"
_EXACT = re.compile(_NUMBER)
_COMPARED = re.compile(rf"(!=|<=|>=|<|>) *({_NUMBER})")
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]*(?: [A-Za-z0-9_.:/-]+)*")
_BOOLEANS = {"true": True, "false": False}
FORMS = '1, "> 0", ">= 3", "< 5", "<= 5", "!= 2", "3..7", true, false, or a word'

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a counter or fact has to be.

    `text` is the expectation in the words of the grammar, and `parse_expectation(text)` gives it
    back. `relation` is `==`, `!=`, `<`, `<=`, `>`, `>=` or, with `upper`, `..`.
    """

    text: str
    relation: str
    operand: int | float | bool | str
    upper: int | float = 0

    def holds(self, observed: object) -> bool:
        """Whether the observed value is as expected; a value of another type never is."""
        if isinstance(self.operand, bool | str):
            return isinstance(observed, type(self.operand)) and observed == self.operand
        if isinstance(observed, bool) or not isinstance(observed, numbers.Real):
            return False
        number: Any = observed
        if number != number:  # not a number: nothing can be said of it, not even "!= 2"
            return False
        if self.relation == "..":
            return bool(self.operand <= number <= self.upper)
        return bool(_COMPARE[self.relation](number, self.operand))


def parse_expectation(text: str, where: Location | str = "") -> Expectation:
    """The expectation that a text says.

    Raises:
        InputError: the text is not of the grammar.
    """
    if text in _BOOLEANS:
        return Expectation(text=text, relation="==", operand=_BOOLEANS[text])
    if _EXACT.fullmatch(text):
        return Expectation(text=text, relation="==", operand=_number(text))
    if match := _COMPARED.fullmatch(text):
        relation, number = match.groups()
        return Expectation(text=f"{relation} {number}", relation=relation, operand=_number(number))
    if match := _RANGE.fullmatch(text):
        low, high = (_number(end) for end in match.groups())
        if low > high:
            raise InputError(
                f"expectation '{text}' is an empty range",
                where=where,
                expected="the smaller end first, as in 3..7",
            )
        return Expectation(text=text, relation="..", operand=low, upper=high)
    if _WORD.fullmatch(text):
        return Expectation(text=text, relation="==", operand=text)
    raise InputError(
        f"expectation '{shortened(text)}' is not understood",
        where=where,
        expected=FORMS,
        hint="for equality write the number alone" if text.startswith("=") else "",
    )


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
