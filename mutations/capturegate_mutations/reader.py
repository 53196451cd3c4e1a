"""Reading plans: `*.mutation.yaml`, every mistake at its file, line and column."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from capturegate.errors import InputError, Location
from capturegate.scenario.loader import files_below
from capturegate.scenario.nodes import Node, check_keys, read_yaml
from capturegate.scenario.problems import Problems, unknown
from capturegate_mutations.case_keys import BadCaseKey, expand
from capturegate_mutations.flip_reader import read_flip
from capturegate_mutations.plan import ABSENT, FAILURE, WORDS, CaseKey, Flip, Plan, Wanted

SUFFIX = ".mutation.yaml"
_KEYS = frozenset({"mutation", "about", "flips", "expect", "also"})
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_HINT = "a name is written in lower case with hyphens"


def find_plans(paths: Sequence[Path]) -> list[Path]:
    """The plan files that paths name, folders searched, in order of their name.

    As for scenarios, folders whose name starts with a dot are passed over.

    Raises:
        InputError: a path does not exist or holds no plan.
    """
    found: dict[Path, None] = {}
    for path in paths:
        inside = files_below(path, SUFFIX) if path.is_dir() else [path] * path.is_file()
        if not inside:
            problem = "no plan in this folder" if path.exists() else "no such file or folder"
            raise InputError(problem, where=str(path), expected=f"files named *{SUFFIX}")
        found.update(dict.fromkeys(inside))
    return list(found)


def shipped_plans() -> list[Path]:
    """The plans that come with this package."""
    return find_plans([Path(__file__).parent / "plans"])


def load_plans(
    paths: Iterable[Path], cases: Collection[CaseKey], *, draft: bool = False
) -> list[Plan]:
    """Read plans against the cases that exist; every mistake of every file is told at once.

    A draft need not say yet what it expects.

    Raises:
        InputErrors: a plan is wrong, or two have the same name.
    """
    problems = Problems()
    plans: dict[str, Plan] = {}
    for path in paths:
        plan = problems.take(None, partial(load_plan, path, cases, draft=draft))
        if plan is None:
            continue
        if plan.name in plans:
            first = plans[plan.name].path
            problems.add(
                InputError(f"mutation '{plan.name}' exists already, in {first}", where=plan.where)
            )
        plans[plan.name] = plan
    problems.raise_any()
    return list(plans.values())


def load_plan(path: Path, cases: Collection[CaseKey], *, draft: bool = False) -> Plan:
    """Read one plan.

    Raises:
        InputError: it is not a plan, or names a case that does not exist.
    """
    root = read_yaml(path)
    top = root.mapping("the plan")
    problems = Problems()
    check_keys(top, _KEYS, "the plan", problems)
    for key in ("mutation", "about", "flips", "expect"):
        if key not in top and not (draft and key == "expect"):
            problems.add(InputError(f"key '{key}' is missing", where=root.where))
    problems.raise_any()
    name = problems.take("", top["mutation"].text, "the mutation's name")
    if name and not _NAME.fullmatch(name):
        problems.add(
            InputError(f"'{name}' is not a name", where=top["mutation"].where, hint=_NAME_HINT)
        )
    about = problems.take("", top["about"].text, "'about'")
    flips = _flips(top["flips"], problems)
    reader = _Expectations(cases, problems)
    expect = reader.read(top["expect"], "expect", with_reason=False) if "expect" in top else {}
    if not draft and top["expect"].value == {}:
        problems.add(
            InputError(
                "nothing is expected to change",
                where=top["expect"].where,
                hint="a mutation that changes nothing proves nothing",
            )
        )
    also = reader.read(top["also"], "also", with_reason=True) if "also" in top else {}
    for case in expect.keys() & also.keys():
        if both := sorted(expect[case].keys() & also[case].keys()):
            what = f"'{both[0]}' of {case} is expected and tolerated"
            problems.add(InputError(what, where=reader.places[case], expected="one of the two"))
    problems.raise_any()
    return Plan(
        name=name,
        about=" ".join(about.split()),
        flips=tuple(flips),
        expect=expect,
        also=also,
        reasons=reader.reasons,
        path=str(path),
        where=top["mutation"].where,
        case_places=reader.places,
    )


def _flips(node: Node, problems: Problems) -> list[Flip]:
    items = problems.take([], node.sequence, "'flips'")
    if not items and isinstance(node.value, list):
        problems.add(InputError("there is no flip", where=node.where, expected="at least one"))
    return [flip for item in items if (flip := problems.take(None, partial(read_flip, item)))]


class _Expectations:
    """Reads `expect` and `also`, and remembers where each case stands."""

    def __init__(self, cases: Collection[CaseKey], problems: Problems) -> None:
        self._cases = cases
        self._problems = problems
        self.places: dict[CaseKey, Location] = {}
        self.reasons: dict[CaseKey, str] = {}

    def read(self, node: Node, what: str, *, with_reason: bool) -> dict[CaseKey, dict[str, Wanted]]:
        """The wanted verdicts of a mapping from cases, alternatives expanded."""
        found: dict[CaseKey, dict[str, Wanted]] = {}
        for text, entry in self._problems.take({}, node.mapping, f"'{what}'").items():
            wanted = self._problems.take(
                {}, partial(self._wanted, entry, text, with_reason=with_reason)
            )
            for case in self._problems.take([], partial(self._expanded, entry, text)):
                if case in found:
                    first = self.places[case]
                    self._problems.add(
                        InputError(
                            f"case '{case}' is given twice in '{what}'",
                            where=entry.key_where,
                            hint=f"the first is at line {first.line}",
                        )
                    )
                found[case] = wanted
                self.places.setdefault(case, entry.key_where)
                if with_reason:
                    self.reasons[case] = self._reason(entry)
        return found

    def _expanded(self, entry: Node, text: str) -> list[CaseKey]:
        try:
            return expand(text, self._cases)
        except BadCaseKey as error:
            raise InputError(error.problem, where=entry.key_where, hint=error.hint) from None

    def _reason(self, entry: Node) -> str:
        reason = entry.value.get("reason") if isinstance(entry.value, dict) else None
        return str(reason.value) if reason else ""

    def _wanted(self, entry: Node, text: str, *, with_reason: bool) -> dict[str, Wanted]:
        items = dict(entry.mapping(f"what is expected of '{text}'"))
        if with_reason:
            if "reason" not in items:
                raise InputError(
                    f"'{text}' is tolerated without a reason",
                    where=entry.key_where,
                    expected="reason: why it comes along",
                )
            items.pop("reason").text("the reason")
        if not items:
            raise InputError(
                f"'{text}' names no gate or check", where=entry.where, expected="gate: verdict"
            )
        return {name: _wanted_of(name, node) for name, node in items.items()}


def _wanted_of(name: str, node: Node) -> Wanted:
    if not isinstance(node.value, dict):
        return Wanted(verdict=_verdict(name, node))
    problems = Problems()
    check_keys(node.value, frozenset({"verdict", "witness"}), f"'{name}'", problems)
    problems.raise_any()
    if "verdict" not in node.value:
        raise InputError("key 'verdict' is missing", where=node.where)
    witness = node.value.get("witness")
    return Wanted(
        verdict=_verdict(name, node.value["verdict"]),
        witness=witness.text("the witness") if witness else "",
    )


def _verdict(name: str, node: Node) -> str:
    word = node.text(f"the verdict of '{name}'")
    if name == FAILURE:
        if word != ABSENT and not word.isidentifier():
            raise InputError(
                f"'{word}' is no exception", where=node.where, expected="the name of its type"
            )
    elif word not in WORDS:
        raise unknown("verdict", word, WORDS, where=node.where)
    return word
