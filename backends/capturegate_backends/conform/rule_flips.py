"""Every single thing that the rule book says, as a flip of its source text.

A rule that no recording would miss is a rule by belief. So each line of the book, each effect and
each membership of a call in a class can be taken out on its own, and the recordings are asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from capturegate.errors import InputError
from capturegate_backends.fake.rules import When

MODULE = "capturegate_backends.fake.rules"

_CONCERNS_NO_CAPTURE = (
    When.NOT_CAPTURING.name,
    When.TARGET_LEGACY.name,
    When.CHILD_OWNS_MEMORY.name,
)
_NO_EFFECT = (When.STREAM_INVALIDATED.name, "_NOTHING")
"""What is invalidated cannot be poisoned again."""
_OTHER_EFFECT = {"_NOTHING": "_POISONS", "_POISONS": "_NOTHING", "_ENDS": "_NOTHING"}
_RULES, _RESTRICTIONS, _RECORDS, _SILENT = (
    "_RULES_580",
    "_RESTRICTIONS_580",
    "_RECORDS_580",
    "_SILENT_580",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFlip:
    """One thing that the book says, and the text without it.

    Attributes:
        name: what the flip is called, unique.
        says: what the book says, in words.
        old: the text, which stands once in the module.
        new: what takes its place.
        line: the line of the source on which it stands.
    """

    name: str
    says: str
    old: str
    new: str
    line: int


def source_text() -> str:
    """The source of the rule book.

    Raises:
        InputError: there is none to read.
    """
    spec = find_spec(MODULE)
    if spec is None or spec.origin is None:
        raise InputError(f"module {MODULE} has no source")
    return Path(spec.origin).read_text("utf-8")


def rule_flips(text: str) -> list[RuleFlip]:
    """All flips of a rule book's source, in the order in which things stand in it."""
    tables = _tables(text)
    flips: list[RuleFlip] = []
    for name, value in tables.items():
        if name == _RULES and isinstance(value, ast.Tuple):
            for item in value.elts:
                flips += _of_rule(text, item)
        elif name == _RESTRICTIONS and isinstance(value, ast.Tuple):
            flips += [_of_restriction(text, item) for item in value.elts]
        elif name == _RECORDS and isinstance(value, ast.Dict):
            flips += [
                _without(text, key, "record", f"{ast.unparse(key)} records {ast.unparse(kind)}")
                for key, kind in zip(value.keys, value.values, strict=True)
                if key is not None
            ]
        elif name == _SILENT and isinstance(value, ast.Call):
            members = value.args[0]
            if isinstance(members, ast.Set):
                flips += [
                    _without(text, item, "silent", f"{ast.unparse(item)} is silent")
                    for item in members.elts
                ]
        elif isinstance(value, ast.Tuple) and len(value.elts) > 1 and _is_class(value):
            flips += [_of_member(text, name, item) for item in value.elts]
    return sorted(flips, key=lambda flip: flip.line)


def _tables(text: str) -> dict[str, ast.expr]:
    """The module's constants by name."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def _is_class(value: ast.Tuple) -> bool:
    """Whether a tuple is a class of calls: names of calls, or other classes."""
    return all(
        isinstance(item, ast.Starred)
        or (isinstance(item, ast.Constant) and isinstance(item.value, str))
        for item in value.elts
    )


def _of_rule(text: str, item: ast.expr) -> Iterator[RuleFlip]:
    """A rule is gone; and, where it concerns a capture, its effect is another."""
    if not isinstance(item, ast.Call):
        raise InputError(f"line {item.lineno} of the rules is no rule")
    calls, when, error, effect, _ = (ast.unparse(one) for one in item.args)
    when = when.removeprefix("When.")
    called = calls.strip("_()',").replace("_", "-").lower()
    base = f"{called}-{when.lower().replace('_', '-')}"
    says = f"{calls} in situation {when} returns {error}"
    yield replace(_without(text, item, "rule", says), name=f"rule-{base}")
    told = when not in _CONCERNS_NO_CAPTURE and (when, effect) != _NO_EFFECT
    if told and error != "_SUCCESS":  # a rule that refuses nothing is its effect
        line = _line(text, item)
        end = line.rindex(effect)
        new = line[:end] + _OTHER_EFFECT[effect] + line[end + len(effect) :]
        yield RuleFlip(
            name=f"rule-effect-{base}",
            says=f"{says}, and the effect is {effect}",
            old=line,
            new=new,
            line=item.lineno,
        )


def _of_restriction(text: str, item: ast.expr) -> RuleFlip:
    if not isinstance(item, ast.Call):
        raise InputError(f"line {item.lineno} of the restrictions is none")
    said = {word.arg: ast.unparse(word.value) for word in item.keywords}
    own = "own" if said["own"] == "True" else "other"
    caller, capture = (said[key].strip("_").lower() for key in ("caller", "capture"))
    says = f"a {capture} capture restricts its {own} thread whose mode is {caller}"
    return replace(
        _without(text, item, "restriction", says),
        name=f"rule-restriction-{caller}-{own}-{capture}",
    )


def _of_member(text: str, name: str, item: ast.expr) -> RuleFlip:
    member = ast.unparse(item)
    kind = name.strip("_").lower().replace("_", "-")
    return _without(text, item, f"member-{kind}", f"{member} belongs to {name}")


def _without(text: str, item: ast.expr, kind: str, says: str) -> RuleFlip:
    """The flip that takes an item of a table out."""
    called = ast.unparse(item).strip("*_'\"()").lower().replace("_", "-")
    old, new = _cut(text, item)
    return RuleFlip(
        name=f"rule-{kind}-{called}",
        says=says.replace("'", "`"),
        old=old,
        new=new,
        line=item.lineno,
    )


def _line(text: str, item: ast.expr) -> str:
    return text.splitlines()[item.lineno - 1].strip()


def _cut(text: str, item: ast.expr) -> tuple[str, str]:
    """The shortest text around an item that stands once, with and without the item.

    Lines stay where they are, but for those of a text over several lines.
    """
    lines = text.splitlines()
    own = lines[item.lineno - 1]
    spelled = ast.get_source_segment(text, item) or ""
    if own.strip().startswith(spelled):
        old, new = own.strip(), ""  # the line is the item's alone
    elif f"{spelled}, " in own:
        old, new = own, own.replace(f"{spelled}, ", "", 1)
    else:
        old, new = own, own.replace(f", {spelled}", "", 1)
    if text.count(old) == 1:
        return old, new
    for first in range(item.lineno - 2, -1, -1):
        before = "\n".join(lines[first : item.lineno - 1])
        if text.count(f"{before}\n{own}") == 1:
            return f"{before}\n{own}", before
    raise InputError(f"line {item.lineno} of the rules cannot be told from others")
