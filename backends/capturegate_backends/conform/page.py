"""Writes the conformance page: what was recorded, what was tried, what differed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence

from capturegate_backends.conform.compare import Comparison
from capturegate_backends.conform.count import triples
from capturegate_backends.conform.fuzz import Difference
from capturegate_backends.conform.ledger import Ledger
from capturegate_backends.conform.scenario_runs import ScenarioRuns, table
from capturegate_backends.truth.recordings import Recording

HITS_MIN = 100


def page(
    recordings: dict[str, Recording],
    comparison: Comparison,
    ledger: Ledger,
    runs: Sequence[ScenarioRuns] = (),
    shipped: Collection[str] = (),
) -> str:
    """The page as Markdown; `shipped` are the cases that a run of scenarios is held to."""
    lines = [
        "# Conformance",
        "",
        "Written by `capturegate conform --page`; do not edit. The fake backend is compared with",
        "recordings of a real device, call by call: error, capture status of every stream and",
        "which streams share a capture, last error, nodes and edges, bytes of results.",
        "",
        "## Recordings",
        "",
        "| recording | device | driver | CUDA | programs | calls |",
        "|---|---|---|---|---|---|",
    ]
    for name, recording in recordings.items():
        about = recording.description
        calls = sum(len(case.program) for case in recording.cases)
        lines.append(
            f"| {name} | {about['device']} | {about['driver']} | {about['cuda']} "
            f"| {len(recording.cases):,} | {calls:,} |"
        )
    lines += [
        "",
        (
            f"The fake answers {comparison.cases - len(comparison.mismatches):,} of "
            f"{comparison.cases:,} recorded programs as the device did."
        ),
        "",
        *_mismatches(comparison),
        *(line for one in runs for line in table(one, shipped)),
        *_fuzzing(ledger, _corpus_triples(recordings)),
        *_differences(ledger),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _mismatches(comparison: Comparison) -> list[str]:
    if not comparison.mismatches:
        return []
    rows = [f"| `{kind}` | {n} |" for kind, n in comparison.kinds.most_common()]
    return ["| differs | programs |", "|---|---|", *rows, ""]


def _corpus_triples(recordings: dict[str, Recording]) -> set[str]:
    return {
        triple
        for recording in recordings.values()
        for case in recording.cases
        for triple in triples(case.program, case.observation)
    }


def _fuzzing(ledger: Ledger, corpus: set[str]) -> list[str]:
    if not ledger.runs:
        return []
    totals: Counter[str] = ledger.totals
    programs = totals["programs"]
    rare = {t: totals[f"triple {t}"] for t in corpus if totals[f"triple {t}"] < HITS_MIN}
    lines = [
        "## Differential fuzzing",
        "",
        (
            f"{ledger.description['device']}, driver {ledger.description['driver']}, CUDA "
            f"{ledger.description['cuda']}. Random programs on both sides in one process."
        ),
        "",
        (
            "| first seed | next seed | generator | seconds | processes | programs "
            "| differences | programs lost |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {run.seed} | {run.next_seed} | `{run.generator}` | {run.seconds:.0f} "
        f"| {run.processes} | {run.programs:,} | {run.differences} | {run.lost} |"
        for run in ledger.runs
    ]
    lines += ["", f"Programs: {programs:,}, {totals['calls']:,} calls. Of them:", ""]
    for name in (
        "closes a capture of 3 nodes or more",
        "3 streams or more",
        "2 threads or more",
        "bytes compared",
    ):
        lines.append(f"- {name}: {totals[name]:,} ({100 * totals[name] / max(programs, 1):.1f} %)")
    lines += [
        "",
        f"Programs since the last difference: {ledger.clean_programs:,}.",
        (
            f"Of the {len(corpus)} (call, error, status change) triples of the recordings "
            f"{len(corpus) - len(rare)} were hit at least {HITS_MIN} times."
        ),
        "",
    ]
    if rare:
        lines += ["| hit less often | times |", "|---|---|"]
        lines += [f"| `{t}` | {n} |" for t, n in sorted(rare.items(), key=lambda x: (x[1], x[0]))]
        lines.append("")
    return lines


def _differences(ledger: Ledger) -> list[str]:
    if not ledger.fixes:
        return []
    lines = ["## Differences found, and what was done", ""]
    smallest: dict[str, Difference] = {}
    for one in ledger.differences:
        before = smallest.get(one.kind)
        if before is None or len(one.program) < len(before.program):
            smallest[one.kind] = one
    for kind, fix in ledger.fixes.items():
        lines += [f"### {kind}", "", fix, ""]
        if kind in smallest:
            found = smallest[kind]
            calls = "\n".join(json.dumps(call) for call in found.program)
            lines += [f"Seed {found.seed}:", "", "```json", calls, "```", ""]
    return lines
