"""The assertions of the fixtures `check` and `require`: counted, and told together."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from capturegate.pytest_tally import Tally, tally_of


class Check(Protocol):
    """One counted assertion: `check(condition, "what holds")`."""

    def __call__(self, condition: object, text: str) -> None:
        """Count the condition under its text."""


@dataclass(slots=True, kw_only=True)
class Checks:
    """The assertions of one test. `failures` are those that nobody has told of yet."""

    tally: Tally
    failures: list[str] = field(default_factory=list)

    def check(self, condition: object, text: str) -> None:
        """Count an assertion; a failed one fails the test at its end."""
        self._count("check", text, good=bool(condition))

    def require(self, condition: object, text: str) -> None:
        """Count an assertion; a failed one ends the test at once."""
        if not self._count("require", text, good=bool(condition)):
            raise pytest.fail.Exception(self.take(), pytrace=False)

    def take(self) -> str:
        """The failures so far, which are told herewith; empty when there are none."""
        if not self.failures:
            return ""
        told = "\n".join([self._headline(), *self.failures])
        self.failures.clear()
        return told

    def _count(self, kind: str, text: str, *, good: bool) -> bool:
        self.tally.count(good=good)
        if not good:
            caller = sys._getframe(2)
            place = f"{_short(caller.f_code.co_filename)}:{caller.f_lineno}"
            self.failures.append(f"  {place}: {kind} failed: {text}")
        return good

    def _headline(self) -> str:
        made = self.tally.passed + self.tally.failed
        return f"{self.tally.failed} of {made} checks failed"


_CHECKS = pytest.StashKey[Checks]()


def checks_of(item: pytest.Item) -> Checks:
    """The item's assertions, one object for all its fixtures."""
    if _CHECKS not in item.stash:
        item.stash[_CHECKS] = Checks(tally=tally_of(item))
    return item.stash[_CHECKS]


@contextmanager
def failures_told(item: pytest.Item, when: str) -> Generator[None]:
    """Fail at the end of a phase for what failed in it; a phase that fails anyway lists it.

    Raises:
        Failed: a check failed, and nothing else did.
    """
    try:
        yield
    except pytest.skip.Exception:
        _fail(item)
        raise
    except BaseException:
        if _CHECKS in item.stash and (text := item.stash[_CHECKS].take()):
            item.add_report_section(when, "checks", text)
        raise
    _fail(item)


def _fail(item: pytest.Item) -> None:
    if _CHECKS in item.stash and (text := item.stash[_CHECKS].take()):
        raise pytest.fail.Exception(text, pytrace=False) from None


def _short(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path
