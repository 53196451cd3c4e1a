"""The `-k` expression: words with `and`, `or`, `not` and parentheses over the id of a case.

A word is part of the id. A word that is the whole id of some case, or its name without the
backend, means just that case: what a report says to copy re-runs one case and no namesake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from capturegate.errors import InputError

Matches = Callable[[str], bool]

_TOKEN = re.compile(r"[()]|[^\s()]+")
_RESERVED = {"and", "or", "not", "(", ")"}
_DEPTH_MAX = 50


def parse_keyword(text: str, ids: Collection[str]) -> Matches:
    """What the expression says of a case id; `ids` are those that whole ids are looked up in.

    Raises:
        InputError: the expression is not of the grammar.
    """
    parser = _Parser(text, ids)
    matches = parser.either(0)
    if parser.token is not None:
        raise parser.error(f"nothing can follow before '{parser.token}'")
    return matches


class _Parser:
    """One token ahead, one method a rule: or, and, not."""

    def __init__(self, text: str, ids: Collection[str]) -> None:
        self._text = text
        self._tokens = iter(_TOKEN.findall(text))
        self._whole = {whole: whole for whole in ids} | {id_.rpartition("@")[0]: id_ for id_ in ids}
        self.token = next(self._tokens, None)

    def error(self, problem: str) -> InputError:
        return InputError(
            f"-k {self._text!r} cannot be read: {problem}",
            expected="words that are part of an id or name, with and, or, not and parentheses",
        )

    def either(self, depth: int) -> Matches:
        found = self._both(depth)
        while self.token == "or":  # noqa: S105, no password
            self._next()
            found = _or(found, self._both(depth))
        return found

    def _both(self, depth: int) -> Matches:
        found = self._one(depth)
        while self.token == "and":  # noqa: S105, no password
            self._next()
            found = _and(found, self._one(depth))
        return found

    def _one(self, depth: int) -> Matches:
        if depth > _DEPTH_MAX:
            raise self.error(f"it is nested more than {_DEPTH_MAX} deep")
        token = self._next()
        if token == "not":  # noqa: S105, no password
            return _not(self._one(depth + 1))
        if token == "(":  # noqa: S105, no password
            inner = self.either(depth + 1)
            if self._next() != ")":
                raise self.error("a parenthesis is not closed")
            return inner
        if token is None:
            raise self.error("it ends where a word should be")
        if token in _RESERVED:
            raise self.error(f"'{token}' stands where a word should be")
        return _word(token, self._whole)

    def _next(self) -> str | None:
        token, self.token = self.token, next(self._tokens, None)
        return token


def _word(word: str, whole: dict[str, str]) -> Matches:
    if word in whole:
        return lambda id_: id_ == whole[word]
    return lambda id_: word in id_


def _not(inner: Matches) -> Matches:
    return lambda id_: not inner(id_)


def _and(left: Matches, right: Matches) -> Matches:
    return lambda id_: left(id_) and right(id_)


def _or(left: Matches, right: Matches) -> Matches:
    return lambda id_: left(id_) or right(id_)
