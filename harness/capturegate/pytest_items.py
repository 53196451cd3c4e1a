"""Scenario files as pytest sees them: a collector each, one for each case, an item for each gate.

Names come from the file alone; a child is started when the first item runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import TerminalRepr

from capturegate.errors import InputError, Location
from capturegate.gates.registry import all_gates
from capturegate.pytest_cases import cases_of
from capturegate.pytest_failure import NotAsExpectedError, told
from capturegate.pytest_plugin import backend_of
from capturegate.pytest_tally import Tally, tally_of
from capturegate.pytest_text import headline_of, only_gate, text_of, without_named_gates
from capturegate.report.text import clean, short_path
from capturegate.run.plan import expand
from capturegate.run.result import CaseResult, Skip
from capturegate.scenario.loader import load_scenario
from capturegate.scenario.model import Case, GateUse, Scenario
from capturegate.scenario.validate import validate_gates

CHECKS = "checks"
"""Name of the item for the steps' checks, and for what no gate's item tells of a case."""

Make = Callable[[pytest.File], Iterable[pytest.Item | pytest.Collector]]


class PluggedFile(pytest.File):
    """A file whose suffix another distribution plugged in, and the function that reads it."""

    def __init__(self, *, make: Make, **node: Any) -> None:
        super().__init__(**node)
        self._make = make

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        """What the function makes of the file."""
        try:
            return list(self._make(self))
        except InputError as error:
            raise self.CollectError(str(error)) from error


class ScenarioFile(pytest.File):
    """A scenario file: its cases."""

    scenario: Scenario

    def collect(self) -> Iterator[CaseCollector]:
        """One collector a case; nothing but the file is read."""
        shapes = {
            name: {"params": {key: kind.__name__ for key, kind in gate.params.items()}}
            for name, gate in all_gates().items()
        }
        try:
            self.scenario = load_scenario(short_path(str(self.path)))
            validate_gates(self.scenario, shapes)
        except InputError as error:
            raise self.CollectError(str(error)) from error
        for case in expand([self.scenario], backend_of(self.config)):
            name = f"{case.lane.name}/{case.arm.name}"
            yield CaseCollector.from_parent(self, name=name, case=case)

    def setup(self) -> None:
        """Ask the engine whether the scenario fits it."""
        try:
            cases_of(self.config).validate(self.scenario)
        except InputError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None


class CaseCollector(pytest.Collector):
    """A case: its gates, and its checks. `-k` knows it as `scenario[lane/arm]` too."""

    def __init__(self, *, case: Case, **node: Any) -> None:
        super().__init__(**node)
        self.extra_keyword_matches.add(case.name)
        self.case = case

    def collect(self) -> Iterator[CaseItem]:
        """One item for each gate that the scenario names, and one for the steps' checks."""
        scenario = self.case.scenario
        for use in scenario.gates:
            yield GateItem.from_parent(
                self, name=use.name, case=self.case, where=use.where, use=use
            )
        checks = (check for step in self.case.steps for check in step.checks)
        where = next(checks, self.case.steps[0]).where
        yield ChecksItem.from_parent(self, name=CHECKS, case=self.case, where=where)


class CaseItem(pytest.Item):
    """One part of a case. The case runs when the first of its items does."""

    def __init__(self, *, case: Case, where: Location, **node: Any) -> None:
        super().__init__(**node)
        self.case = case
        self._where = where
        tally = tally_of(self)
        tally.case = self.parent.nodeid if self.parent else ""
        tally.lane = case.lane.name

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place in the scenario file, and the case with the item's name."""
        return self.path, self._where.line - 1, f"{self.case.name} {self.name}"

    def runtest(self) -> None:
        """Judge this part of the case.

        Raises:
            NotAsExpectedError: it is not what the scenario says.
            InputError: the case found that the user's input is wrong.
        """
        result = cases_of(self.config).result(self.case)
        if result.harness_error:
            reason = clean(result.harness_error.splitlines()[0])
            raise NotAsExpectedError(f"the harness failed: {reason}", text_of(result, self.case))
        if result.skip is not None:
            self._skip(result.skip)
        self.judge(result, tally_of(self))

    def judge(self, result: CaseResult, tally: Tally) -> None:
        """Count this part of the result, and raise when it is not as expected."""
        raise NotImplementedError

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | TerminalRepr:
        """What the scenario's author reads; a traceback only for the plugin's own mistakes."""
        error = excinfo.value
        if isinstance(error, NotAsExpectedError):
            return told(error, self.path, self._where.line)
        if isinstance(error, InputError):
            return str(error)
        return super().repr_failure(excinfo, style)

    def _skip(self, skip: Skip) -> None:
        lane = skip.judged_in
        others = (
            item.case
            for item in self.session.items
            if isinstance(item, CaseItem) and item.path == self.path
        )
        judge = next(
            (c for c in others if (c.lane.name, c.arm.name) == (lane, self.case.arm.name)), None
        )
        if judge is not None:
            other = cases_of(self.config).result(judge)
            if other.skip is not None or not other.judged:
                said = f"never judged: {skip.predicate} skips it, and so is it in lane {lane}"
                text = (
                    f"{self.case.id} is never judged.\nIt is skipped by {skip.predicate} because "
                    f"lane {lane} judges the same guarantee, but {other.case} came to no verdict."
                )
                raise NotAsExpectedError(said, text)
        tally_of(self).skipped_at = (str(self.path), self.case.lane.where.line)
        reason = f": {skip.reason}" if skip.reason else ""
        pytest.skip(f"{skip.predicate}{reason}. Judged in lane {lane}.")


class GateItem(CaseItem):
    """A gate that the scenario names."""

    def __init__(self, *, use: GateUse, **node: Any) -> None:
        super().__init__(**node)
        self._use = use

    def judge(self, result: CaseResult, tally: Tally) -> None:
        """The gate's verdict against the arm's."""
        found = [gate for gate in result.gates if gate.gate == self._use.name]
        if not found:
            headline = "the case has no verdict of this gate"
            raise NotAsExpectedError(headline, f"{result.case}: {headline}")
        tally.count(good=found[0].as_expected)
        if not found[0].as_expected:
            text = text_of(only_gate(result, self._use.name), self.case)
            raise NotAsExpectedError(headline_of(found[0]), text)


class ChecksItem(CaseItem):
    """The checks of the steps. It fails as well for what is wrong and no gate's item tells."""

    def judge(self, result: CaseResult, tally: Tally) -> None:
        """Checks and requires, gates that nobody named, and whether the engine got through."""
        wrong = []
        for check in result.checks:
            good = result.check_as_expected(check)
            tally.count(good=good)
            if not good:
                wrong.append(f"{check.id} {check.outcome}")
        rest = without_named_gates(result)
        wrong += [f"{g.gate} {g.verdict}" for g in rest.gates if not g.as_expected]
        if rest.as_expected:
            return
        if not wrong:
            failure = result.failure
            wrong = [f"{failure.type}: {failure.message}" if failure else "nothing was judged"]
        raise NotAsExpectedError(clean(", ".join(wrong)), text_of(rest, self.case))
