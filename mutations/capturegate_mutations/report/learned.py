"""A measured set of changes as YAML, for review; nothing is written anywhere."""

from __future__ import annotations

import re

from capturegate_mutations.evidence import Row
from capturegate_mutations.report.summary import folded
from capturegate_mutations.verdict import Proof

_UNMEASURED = (Proof.INVALID, Proof.BASELINE_RED, Proof.FLAKY, Proof.TIMEOUT, Proof.CRASH)
_PLAIN = re.compile(r"[A-Za-z][\w.-]*")


def as_yaml(row: Row) -> str:
    """What was observed, as the `expect` of a plan."""
    lines = [f"# measured: {row.mutation}. Review every line before it goes into {row.path}"]
    if row.reason:
        lines += [f"# {line}" for line in row.reason.splitlines()]
    if row.proof in _UNMEASURED:
        return "\n".join([*lines, "# nothing was measured", ""])
    if not row.observed:
        return "\n".join([*lines, "# nothing changed", ""])
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for case, changed in row.observed.items():
        groups.setdefault(tuple(changed.items()), []).append(case)
    lines.append("expect:")
    for members, cases in groups.items():
        entry = [f"    {_key(name)}: {verdict}" for name, verdict in members]
        for key in folded(cases):
            lines += [f"  {key}:", *entry]
    return "\n".join([*lines, ""])


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '\\"') + '"'
