"""Reading one flip of a plan: on code, on a scenario's construction, on a skip predicate."""

from __future__ import annotations

import re
from typing import Literal, get_args

from capturegate.errors import InputError
from capturegate.scenario.nodes import Node, check_keys
from capturegate.scenario.problems import Problems
from capturegate_mutations.operators import OPERATORS, Arguments, Operator
from capturegate_mutations.plan import CodeFlip, Flip, PredicateFlip, ScenarioFlip
from capturegate_mutations.scope import Anchor

_TARGET = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.<>]*)?")
Action = Literal["remove_step", "remove_check", "remove_gate", "set_config", "set_times"]
_ACTIONS: tuple[Action, ...] = get_args(Action)
_KINDS = ("target", "scenario", "predicate")
TIMES_MAX = 10_000


def read_flip(node: Node) -> Flip:
    """The flip of a node.

    Raises:
        InputError: it is none, or not exactly one.
    """
    entries = node.mapping("a flip")
    kinds = [kind for kind in _KINDS if kind in entries]
    if len(kinds) != 1:
        raise InputError(
            "a flip has to say what it flips, once",
            where=node.where,
            expected="one of " + ", ".join(_KINDS),
        )
    if kinds == ["target"]:
        return _code_flip(node, entries)
    if kinds == ["scenario"]:
        return _scenario_flip(node, entries)
    problems = Problems()
    allowed = frozenset({"predicate", "answers", "lane", "scenarios"})
    check_keys(entries, allowed, "the flip", problems)
    problems.raise_any()
    if "answers" not in entries:
        raise InputError("key 'answers' is missing", where=node.where)
    return PredicateFlip(
        predicate=entries["predicate"].text("the predicate"),
        answers=entries["answers"].boolean("'answers'"),
        lane=entries["lane"].text("the lane") if "lane" in entries else "",
        scenarios=_scenarios(entries["scenarios"]) if "scenarios" in entries else (),
        where=node.where,
    )


def _scenarios(node: Node) -> tuple[str, ...]:
    names = tuple(item.text("a scenario's name") for item in node.sequence("'scenarios'"))
    if not names:
        raise InputError(
            "'scenarios' is empty",
            where=node.where,
            expected="one scenario at least",
            hint="leave the key out for all of them",
        )
    return names


def _the_one(node: Node, entries: dict[str, Node], among: tuple[str, ...], beside: str) -> str:
    """The one key of a flip that says what to do."""
    problems = Problems()
    check_keys(entries, frozenset({beside, *among}), "the flip", problems)
    problems.raise_any()
    keys = [key for key in among if key in entries]
    if len(keys) != 1:
        raise InputError(
            f"a flip with '{beside}' has to do one thing, this one does {len(keys)}",
            where=node.where,
            expected="one of " + ", ".join(among),
        )
    return keys[0]


def _code_flip(node: Node, entries: dict[str, Node]) -> CodeFlip:
    key = _the_one(node, entries, tuple(OPERATORS), "target")
    target = entries["target"].text("the target")
    if not _TARGET.fullmatch(target):
        raise InputError(
            f"'{target}' is not a target",
            where=entries["target"].where,
            expected="module:Qualified.name",
        )
    module, _, qualname = target.partition(":")
    return CodeFlip(
        module=module,
        qualname=qualname,
        operator=key,
        arguments=_arguments(OPERATORS[key], entries[key]),
        where=node.where,
    )


def _arguments(operator: Operator, node: Node) -> Arguments:
    if operator.texts == ("value",):
        return Arguments(
            texts={
                "value": str(node.value)
                if isinstance(node.value, int | float)
                else node.text(f"'{operator.name}'")
            }
        )
    entries = node.mapping(f"'{operator.name}'")
    sides = [side for names in operator.anchors if "|" in names for side in names.split("|")]
    here = ["call", "statement"] if "here" in operator.anchors else []
    problems = Problems()
    allowed = frozenset({*here, *sides, *operator.texts})
    check_keys(entries, allowed, f"'{operator.name}'", problems)
    problems.raise_any()
    anchors = {}
    if here:
        kind = _exactly_one(node, entries, here)
        anchors["here"] = _anchor(kind, entries[kind])
    if sides:
        side = _exactly_one(node, entries, sides)
        anchors[side] = _beside(entries[side], side)
    for text in operator.texts:
        if text not in entries:
            raise InputError(f"key '{text}' is missing in '{operator.name}'", where=node.where)
    texts = {text: _text(entries[text], text) for text in operator.texts}
    return Arguments(anchors=anchors, texts=texts)


def _text(node: Node, key: str) -> str:
    """A text of an operator; what replaces something may be empty."""
    if key == "new" and node.value == "":
        return ""
    return node.raw if isinstance(node.value, int | float) else node.text(f"'{key}'")


def _exactly_one(node: Node, entries: dict[str, Node], among: list[str]) -> str:
    keys = [key for key in among if key in entries]
    if len(keys) != 1:
        raise InputError(
            "this needs exactly one of " + " and ".join(f"'{key}'" for key in among),
            where=node.where,
        )
    return keys[0]


def _anchor(kind: str, node: Node) -> Anchor:
    return Anchor(
        kind="call" if kind == "call" else "statement", text=node.text(f"'{kind}'").strip()
    )


def _beside(node: Node, side: str) -> Anchor:
    """A place to move to: the dotted name of a call, or `{statement: ...}`."""
    if not isinstance(node.value, dict):
        return Anchor(kind="call", text=node.text(f"'{side}'").strip())
    problems = Problems()
    check_keys(node.value, frozenset({"call", "statement"}), f"'{side}'", problems)
    problems.raise_any()
    kind = _exactly_one(node, node.value, ["call", "statement"])
    return _anchor(kind, node.value[kind])


def _scenario_flip(node: Node, entries: dict[str, Node]) -> ScenarioFlip:
    action = _the_one(node, entries, _ACTIONS, "scenario")
    value = entries[action]
    scenario = entries["scenario"].text("the scenario")
    key = next(name for name in _ACTIONS if name == action)
    if key.startswith("remove_"):
        name = value.text(f"'{action}'")
        return ScenarioFlip(scenario=scenario, action=key, name=name, where=node.where)
    items = value.mapping(f"'{action}'")
    if not items:
        raise InputError(f"'{action}' sets nothing", where=value.where)
    values = {
        name: item.integer(f"the times of '{name}'", 1, TIMES_MAX)
        if key == "set_times"
        else item.scalar(f"'{name}'")
        for name, item in items.items()
    }
    return ScenarioFlip(scenario=scenario, action=key, values=values, where=node.where)
