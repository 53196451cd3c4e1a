"""A finished run as reports see it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from capturegate.report.guide import Guide
from capturegate.run.result import CaseResult
from capturegate.run.totals import (
    ExitCode,
    Totals,
    exit_code_of,
    never_judged_in,
    totals_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Results in the order of the plan, and what they come to.

    `arguments` are the paths that the user named; `guides` are the gates' by name. `missing`
    counts the cases that an interrupted run did not get to.
    """

    results: Sequence[CaseResult]
    never_judged: Sequence[str]
    totals: Totals
    exit_code: ExitCode
    backend: str
    seed: int
    arguments: Sequence[str] = ()
    guides: Mapping[str, Guide] = field(default_factory=dict)
    missing: int = 0

    def rerun(self, case: str) -> str:
        """The command that runs just one case again."""
        command = ["capturegate", "run", *self.arguments, "-k", case]
        if self.backend != "fake":
            command += ["--backend", self.backend]
        if self.seed:
            command += ["--seed", str(self.seed)]
        return shlex.join(command)

    def code_of(self, gate: str) -> str:
        """A gate's code, or its name when nothing is known of it."""
        return self.guides[gate].code if gate in self.guides else gate


def report_on(
    results: Sequence[CaseResult],
    *,
    unfiltered: bool,
    backend: str,
    seed: int,
    arguments: Sequence[str] = (),
    guides: Mapping[str, Guide] | None = None,
    missing: int = 0,
    stopped: ExitCode | None = None,
) -> RunReport:
    """Count and judge the results of a run; one that was stopped misses some."""
    never_judged = never_judged_in(results, unfiltered=unfiltered and not missing)
    return RunReport(
        results=results,
        never_judged=never_judged,
        totals=totals_of(results, never_judged),
        exit_code=_exit_code(results, never_judged, missing, stopped),
        backend=backend,
        seed=seed,
        arguments=arguments,
        guides=guides or {},
        missing=missing,
    )


def _exit_code(
    results: Sequence[CaseResult],
    never_judged: Sequence[str],
    missing: int,
    stopped: ExitCode | None,
) -> ExitCode:
    if stopped is ExitCode.HARNESS_FAILED:
        return stopped
    if missing:
        return stopped or ExitCode.INTERRUPTED
    return exit_code_of(results, never_judged)
