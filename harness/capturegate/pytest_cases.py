"""The cases of a pytest session: each runs once in a process, in a child, when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from capturegate.errors import InputError
from capturegate.gates.registry import all_gates
from capturegate.run.plan import case_task, validate
from capturegate.run.pool import TIME_LIMIT_S_DEFAULT, Pool
from capturegate.run.request import case_request
from capturegate.run.result import CaseResult
from capturegate.run.session import result_from
from capturegate.scenario.model import Case, Scenario

_SEED = 0


@dataclass(slots=True, kw_only=True)
class Cases:
    """Results by case. A mistake of the user's is kept as well as a result is."""

    pool: Pool
    _results: dict[tuple[str, str], CaseResult | InputError] = field(default_factory=dict)
    _validated: dict[str, InputError | None] = field(default_factory=dict)

    def validate(self, scenario: Scenario) -> None:
        """Hold a scenario against its engine, which a child is asked about.

        Raises:
            InputError: it does not fit.
        """
        if scenario.path not in self._validated:
            self._validated[scenario.path] = None
            try:
                validate([scenario], self.pool, all_gates())
            except InputError as error:
                self._validated[scenario.path] = error
        if (found := self._validated[scenario.path]) is not None:
            raise found

    def result(self, case: Case) -> CaseResult:
        """The result of a case.

        Raises:
            InputError: the case found that the user's input is wrong.
        """
        key = case.scenario.path, case.id
        if key not in self._results:
            self._results[key] = self._run(case)
        found = self._results[key]
        if isinstance(found, InputError):
            raise found
        return found

    def _run(self, case: Case) -> CaseResult | InputError:
        task = case_task(case, case_request(case, _SEED), TIME_LIMIT_S_DEFAULT)
        try:
            return result_from(case, self.pool.call(task))
        except InputError as error:
            return error


_CASES = pytest.StashKey[Cases]()
_POOL = pytest.StashKey[Pool]()


def pool_of(config: pytest.Config) -> Pool:
    """The session's pool: zygotes are kept, and all of it ends with the session."""
    if _POOL not in config.stash:
        pool = Pool()
        config.add_cleanup(pool.close)
        config.stash[_POOL] = pool
    return config.stash[_POOL]


def cases_of(config: pytest.Config) -> Cases:
    """The session's cases."""
    if _CASES not in config.stash:
        config.stash[_CASES] = Cases(pool=pool_of(config))
    return config.stash[_CASES]
