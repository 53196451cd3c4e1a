"""The steps, checks and gates of a scenario file."""

from __future__ import annotations

from collections import Counter

from capturegate.errors import InputError
from capturegate.scenario.grammar import FORMS, Expectation, parse_expectation
from capturegate.scenario.keys import (
    ARMS_OR_LANES,
    NAME,
    NAME_SPELLED,
    STEP_KEYS,
    TIMES_MAX,
    WORD,
    WORD_SPELLED,
)
from capturegate.scenario.model import Check, GateUse, Step
from capturegate.scenario.nodes import Node
from capturegate.scenario.problems import Problems, shortened


def read_steps(node: Node, problems: Problems) -> tuple[Step, ...]:
    """The steps below the key `steps`, each with an id of its own."""
    items = node.sequence("'steps'")
    if not items:
        raise InputError("'steps' is empty", where=node.where, expected="one step at least")
    calls: Counter[str] = Counter()
    steps: list[Step] = []
    for item in items:
        step = problems.take(None, _step, item, calls, problems)
        if step is None:
            continue
        if (first := _find(steps, step.id)) is not None:
            problems.add(
                InputError(
                    f"step id '{step.id}' is given twice",
                    where=step.where,
                    expected="each id once",
                    hint=f"the first is at line {first.where.line}; give one of them an 'id'",
                )
            )
        steps.append(step)
    return tuple(steps)


def _find(steps: list[Step], step_id: str) -> Step | None:
    return next((step for step in steps if step.id == step_id), None)


def _step(node: Node, calls: Counter[str], problems: Problems) -> Step:
    verb, body = _call(node, "a step", "one verb, with its arguments below it")
    if not WORD.fullmatch(verb):
        raise InputError(f"'{verb}' cannot be a verb", where=body.key_where, expected=WORD_SPELLED)
    calls[verb] += 1
    step_id = verb if calls[verb] == 1 else f"{verb}-{calls[verb]}"
    entries = body.mapping_or_empty(f"step '{verb}'")
    if "id" in entries:
        step_id = problems.take(
            step_id, entries["id"].word, f"'id' of step '{verb}'", NAME, NAME_SPELLED
        )
    times = 1
    if "times" in entries:
        what = f"'times' of step '{step_id}'"
        times = problems.take(1, entries["times"].integer, what, 1, TIMES_MAX)
    return Step(
        id=step_id,
        verb=verb,
        args={key: item.plain() for key, item in entries.items() if key not in STEP_KEYS},
        times=times,
        checks=_checks(step_id, entries, problems),
        where=body.key_where,
        only=_only(step_id, entries, problems),
    )


def _only(step_id: str, entries: dict[str, Node], problems: Problems) -> tuple[str, ...]:
    if "only" not in entries:
        return ()
    what = f"'only' of step '{step_id}'"
    node = entries["only"]
    if isinstance(node.value, str):
        problems.add(node.error(what, f"a list, [{shortened(node.value)}]"))
        return ()
    names = problems.take([], node.sequence, what)
    if node.value == []:
        problems.add(InputError(f"{what} is empty", where=node.where, expected=ARMS_OR_LANES))
    only = tuple(problems.take("", name.text, f"a name in {what}") for name in names)
    for number, name in enumerate(only):
        if name in only[:number]:
            problems.add(
                InputError(
                    f"{what} names '{shortened(name)}' twice",
                    where=names[number].where,
                    expected="each name once",
                )
            )
    return only


def _call(node: Node, what: str, expected: str) -> tuple[str, Node]:
    """The one name that an item of a list says, and what stands below it."""
    if isinstance(node.value, str) and node.value:
        return node.value, Node(where=node.where, key_where=node.where, value=None)
    if not isinstance(node.value, dict):
        raise node.error(what, expected)
    entries = node.value
    if len(entries) != 1:
        raise InputError(
            f"{what} has {len(entries)} names: {', '.join(entries) or 'none'}",
            where=node.where,
            expected=expected,
            hint="indent what belongs to it further than its name" if entries else "",
        )
    return next(iter(entries.items()))


def _checks(step_id: str, entries: dict[str, Node], problems: Problems) -> tuple[Check, ...]:
    checks: dict[str, list[Check]] = {}
    for key in ("require", "check"):
        if key not in entries:
            continue
        what = f"'{key}' of step '{step_id}'"
        counters = problems.take({}, entries[key].mapping, what)
        if not counters and isinstance(entries[key].value, dict):
            problems.add(
                InputError(
                    f"{what} is empty",
                    where=entries[key].where,
                    expected="counters with what they have to be",
                )
            )
        for counter, node in counters.items():
            if counter in checks:
                problems.add(
                    InputError(
                        f"check id '{step_id}.{counter}' is given twice",
                        where=node.key_where,
                        expected="a counter under 'check' or under 'require', not both",
                    )
                )
            checks[counter] = [
                Check(
                    id=f"{step_id}.{counter}",
                    counter=counter,
                    expectation=expectation,
                    required=key == "require",
                    where=place.key_where,
                    only=only,
                )
                for only, place in _by_case(counter, node, problems)
                if (expectation := problems.take(None, _expectation, counter, place)) is not None
            ]
    return tuple(check for found in checks.values() for check in found)


def _by_case(counter: str, node: Node, problems: Problems) -> list[tuple[tuple[str, ...], Node]]:
    """The expectations of a counter: one for all cases, or one for each arm or lane it names."""
    if not isinstance(node.value, dict):
        return [((), node)]
    if not node.value:
        problems.add(
            InputError(
                f"the expectations of '{counter}' are empty",
                where=node.where,
                expected=f"{ARMS_OR_LANES}, each with what it has to be there",
            )
        )
    return [((name,), expected) for name, expected in node.value.items()]


def _expectation(counter: str, node: Node) -> Expectation:
    what = f"the expectation of '{counter}'"
    if node.value is None or isinstance(node.value, dict | list):
        raise node.error(what, FORMS)
    expectation = parse_expectation(node.raw, node.where)
    # The text "1" is not the number 1; which of the two was meant shows only in the quotes.
    quoted = isinstance(node.value, str) and not isinstance(expectation.operand, str)
    if quoted and expectation.relation == "==":
        raise node.error(what, f"{node.raw} without quotes, or a word")
    return expectation


def read_gates(node: Node, problems: Problems) -> tuple[GateUse, ...]:
    """The gates below the key `gates`."""
    items = node.sequence("'gates'")
    if not items:
        raise InputError(
            "'gates' is empty",
            where=node.where,
            expected="one gate at least",
            hint="leave the key out when the checks say it all",
        )
    uses: dict[str, GateUse] = {}
    for item in items:
        use = problems.take(None, _gate, item)
        if use is None:
            continue
        if use.name in uses:
            problems.add(
                InputError(
                    f"gate '{use.name}' is named twice",
                    where=use.where,
                    expected="each gate once",
                    hint=f"the first is at line {uses[use.name].where.line}",
                )
            )
        uses[use.name] = use
    return tuple(uses.values())


def _gate(node: Node) -> GateUse:
    name, body = _call(node, "a gate", "one gate, with its parameters below it")
    entries = body.mapping_or_empty(f"gate '{name}'")
    params = {key: item.plain() for key, item in entries.items()}
    return GateUse(name=name, params=params, where=body.key_where)
