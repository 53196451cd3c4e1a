"""The arms and lanes of a scenario file."""

from __future__ import annotations

from capturegate.errors import InputError, Location
from capturegate.run.result import Verdict
from capturegate.scenario.keys import (
    ARM_KEYS,
    EXPECT_KEYS,
    LANE_KEYS,
    NAME,
    NAME_SPELLED,
    WORD,
    WORD_SPELLED,
)
from capturegate.scenario.model import DEFAULT_ARM, DEFAULT_LANE, Arm, Expect, Lane
from capturegate.scenario.nodes import Node, check_keys
from capturegate.scenario.problems import Problems, unknown

_A = {"arm": "an arm", "lane": "a lane"}
_VERDICTS = tuple(verdict.value for verdict in Verdict)


def default_arm(root: Node) -> Arm:
    """The arm of a scenario that names none."""
    return Arm(name=DEFAULT_ARM, config={}, expect={}, where=root.where)


def read_arms(node: Node, problems: Problems) -> tuple[Arm, ...]:
    """The arms below the key `arms`."""
    return tuple(_arm(name, body, problems) for name, body in _named_entries(node, "arm", problems))


def _named_entries(node: Node, noun: str, problems: Problems) -> list[tuple[str, Node]]:
    entries = node.mapping(f"'{noun}s'")
    if not entries:
        raise InputError(
            f"'{noun}s' is empty",
            where=node.key_where,
            expected=f"one {noun} at least",
            hint="leave the key out for the default",
        )
    for name, body in entries.items():
        if not NAME.fullmatch(name):
            problems.add(
                InputError(
                    f"'{name}' cannot be the name of {_A[noun]}",
                    where=body.key_where,
                    expected=NAME_SPELLED,
                )
            )
    return list(entries.items())


def _arm(name: str, node: Node, problems: Problems) -> Arm:
    entries = problems.take({}, node.mapping_or_empty, f"arm '{name}'")
    expected: dict[str, Node] = {}
    if "expect" in entries:
        expected = problems.take({}, entries["expect"].mapping, f"'expect' of arm '{name}'")
    expect = {
        gate: found
        for gate, body in expected.items()
        if (found := problems.take(None, _expect, gate, body, problems)) is not None
    }
    raises = ""
    if "raises" in entries:
        raises = problems.take("", entries["raises"].word, "'raises'", WORD, WORD_SPELLED)
    config = {key: body.plain() for key, body in entries.items() if key not in ARM_KEYS}
    return Arm(name=name, config=config, expect=expect, where=node.key_where, raises=raises)


def _expect(gate: str, node: Node, problems: Problems) -> Expect:
    what = f"the expected verdict of gate '{gate}'"
    if not isinstance(node.value, dict):
        return Expect(verdict=_verdict(node, what), witness="", where=node.key_where)
    check_keys(node.value, EXPECT_KEYS, what, problems)
    if "verdict" not in node.value:
        raise InputError(f"{what} is missing", where=node.where, expected="the key 'verdict'")
    verdict = _verdict(node.value["verdict"], what)
    witness = ""
    if "witness" in node.value:
        witness = node.value["witness"].text(f"the expected witness of gate '{gate}'")
        if verdict != Verdict.BROKEN:
            raise InputError(
                f"gate '{gate}' has no witness where it is {verdict}",
                where=node.value["witness"].key_where,
                expected="a witness beside 'verdict: broken' alone",
            )
    return Expect(verdict=verdict, witness=witness, where=node.key_where)


def _verdict(node: Node, what: str) -> str:
    word = node.text(what)
    if word not in _VERDICTS:
        raise unknown("verdict", word, _VERDICTS, where=node.where, within=what)
    return word


def default_lane(root: Node) -> Lane:
    """The lane of a scenario that names none."""
    return Lane(name=DEFAULT_LANE, env={}, skip_if="", reason="", judged_in="", where=root.where)


def read_lanes(node: Node, problems: Problems) -> tuple[Lane, ...]:
    """The lanes below the key `lanes`, with each skip judged in another of them."""
    entries = _named_entries(node, "lane", problems)
    lanes = tuple(_lane(name, body, problems) for name, body in entries)
    by_name = {lane.name: lane for lane in lanes}
    for (_, body), lane in zip(entries, lanes, strict=True):
        if lane.skip_if and lane.judged_in and isinstance(body.value, dict):
            where = body.value["judged_in"].where
            problems.take(None, _check_judged_in, lane, by_name, where)
    return lanes


def _check_judged_in(lane: Lane, lanes: dict[str, Lane], where: Location) -> None:
    if lane.judged_in not in lanes:
        within = f"'judged_in' of lane '{lane.name}'"
        others = set(lanes) - {lane.name}
        raise unknown("lane", lane.judged_in, others, where=where, within=within)
    if lane.judged_in == lane.name:
        raise InputError(
            f"lane '{lane.name}' is skipped and cannot be judged in itself",
            where=where,
            expected="the name of another lane",
        )
    if lanes[lane.judged_in].skip_if == lane.skip_if:
        raise InputError(
            f"lane '{lane.judged_in}' is skipped by '{lane.skip_if}' too",
            where=where,
            expected="a lane that judges where this one is skipped",
        )


def _lane(name: str, node: Node, problems: Problems) -> Lane:
    what = f"lane '{name}'"
    entries = problems.take({}, node.mapping_or_empty, what)
    check_keys(entries, LANE_KEYS, what, problems)
    texts = {
        key: problems.take("", entries[key].text, f"'{key}' of {what}")
        for key in ("skip_if", "reason", "judged_in")
        if key in entries
    }
    if "skip_if" in entries and "judged_in" not in entries:
        problems.add(
            InputError(
                f"{what} is skipped, and nothing says where its guarantees are judged",
                where=entries["skip_if"].key_where,
                expected="'judged_in' with the name of another lane",
            )
        )
    for key in ("reason", "judged_in"):
        if key in entries and "skip_if" not in entries:
            problems.add(
                InputError(
                    f"'{key}' of {what} goes with a skip, and nothing skips it",
                    where=entries[key].key_where,
                    expected="'skip_if' with the name of a predicate",
                )
            )
    skip_if = texts.get("skip_if", "")
    return Lane(
        name=name,
        env=_env(entries["env"], what, problems) if "env" in entries else {},
        skip_if=skip_if,
        reason=texts.get("reason", f"{skip_if} holds" if skip_if else ""),
        judged_in=texts.get("judged_in", ""),
        where=node.key_where,
    )


def _env(node: Node, lane: str, problems: Problems) -> dict[str, str]:
    env: dict[str, str] = {}
    for name, body in problems.take({}, node.mapping, f"'env' of {lane}").items():
        if not WORD.fullmatch(name):
            problems.add(
                InputError(
                    f"'{name}' cannot be the name of an environment variable",
                    where=body.key_where,
                    expected=WORD_SPELLED,
                )
            )
        if isinstance(body.value, str):
            env[name] = body.value
        else:
            env[name] = problems.take("", body.text, f"environment variable '{name}'")
        if not _can_be_set(env[name]):
            problems.add(
                InputError(
                    f"environment variable '{name}' holds a character that none can hold",
                    where=body.where,
                    expected="text without NUL and without lone surrogates",
                )
            )
    return env


def _can_be_set(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
