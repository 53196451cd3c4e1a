"""Safe YAML as nodes that know their place in the file.

Nothing is constructed: nodes are composed from the parser's events, so that tags, anchors and
aliases are refused before they could mean anything. What two versions of YAML read differently is
refused as well.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from capturegate.errors import InputError, Location
from capturegate.scenario.plain import Surprise, resolve
from capturegate.scenario.problems import Problems, described, shortened, unknown

if TYPE_CHECKING:
    import yaml

BYTES_MAX = 1_000_000
DEPTH_MAX = 20
VALUES_MAX = 50_000

_CONTROL = re.compile(r"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]")

Scalar = str | int | float | bool


class _Mark(Protocol):
    """The parser's idea of a place; counts from 0."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One value of a file.

    `where` is the value's place, `key_where` that of its key in the mapping around it (the
    value's own when there is none). `raw` is a scalar as it is written, without its quotes.
    The typed readers take what the value is called, for the message when it is something else.
    """

    where: Location
    key_where: Location
    value: Scalar | dict[str, Node] | list[Node] | None
    raw: str = ""

    @property
    def described(self) -> str:
        """What the value is, as a message says it."""
        return described(self.value)

    def mapping(self, what: str) -> dict[str, Node]:
        """The entries of a mapping."""
        if isinstance(self.value, dict):
            return self.value
        raise self.error(what, "a mapping of keys to values")

    def mapping_or_empty(self, what: str) -> dict[str, Node]:
        """The entries of a mapping; none where the file says nothing."""
        return {} if self.value is None else self.mapping(what)

    def sequence(self, what: str) -> list[Node]:
        """The items of a list."""
        if isinstance(self.value, list):
            return self.value
        hint = "start each item with '- ' on a line of its own" if self.value else ""
        raise self.error(what, "a list", hint)

    def text(self, what: str) -> str:
        """A text that is not empty."""
        if isinstance(self.value, str) and self.value.strip():
            return self.value
        quote = isinstance(self.value, bool | int | float)
        raise self.error(what, "text", hint=f'write "{self.raw}", in quotes' if quote else "")

    def word(self, what: str, pattern: re.Pattern[str], expected: str) -> str:
        """A text that matches a pattern as a whole."""
        text = self.text(what)
        if not pattern.fullmatch(text):
            raise self.error(what, expected)
        return text

    def integer(self, what: str, minimum: int, maximum: int) -> int:
        """An integer between two bounds, both included."""
        if type(self.value) is int and minimum <= self.value <= maximum:
            return self.value
        raise self.error(what, f"an integer from {minimum} to {maximum}")

    def boolean(self, what: str) -> bool:
        """A boolean."""
        if isinstance(self.value, bool):
            return self.value
        raise self.error(what, "true or false")

    def scalar(self, what: str) -> Scalar:
        """A text, number or boolean."""
        if isinstance(self.value, Scalar):
            return self.value
        raise self.error(what, "text, a number, true or false")

    def plain(self) -> Any:
        """The value as plain Python data."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def places(self, path: str = "") -> dict[str, Location]:
        """Every key below this node, and every item of a list, by its dotted path."""
        found: dict[str, Location] = {}
        entries: dict[str, Node] = {}
        if isinstance(self.value, dict):
            entries = self.value
        elif isinstance(self.value, list):
            entries = {str(index): node for index, node in enumerate(self.value)}
        for key, node in entries.items():
            dotted = f"{path}.{key}" if path else key
            found[dotted] = node.key_where
            found.update(node.places(dotted))
        return found

    def error(self, what: str, expected: str, hint: str = "") -> InputError:
        """The error that this value is not what was expected."""
        return InputError(
            f"{what} is {self.described}", where=self.where, expected=expected, hint=hint
        )


def check_keys(
    entries: dict[str, Node], allowed: frozenset[str], within: str, problems: Problems
) -> None:
    """Report every key that is not allowed, with the nearest one that is."""
    for key, node in entries.items():
        if key not in allowed:
            problems.add(unknown("key", key, allowed, where=node.key_where, within=within))


def read_yaml(path: Path) -> Node:
    """The root node of a YAML file.

    Raises:
        InputError: the file cannot be read, or is not safe, unambiguous YAML.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError("this is not a regular file", where=str(path))
        if status.st_size > BYTES_MAX:
            raise InputError(
                f"the file has {status.st_size:,} bytes",
                where=str(path),
                expected=f"at most {BYTES_MAX:,} bytes",
                hint="split it into several files",
            )
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        raise InputError(
            "the file is binary: it is not UTF-8 from here on",
            where=_end_of(before, str(path)),
            expected="YAML text in UTF-8",
        ) from None
    return compose(text, str(path))


def compose(text: str, path: str) -> Node:
    """The root node of a YAML text; `path` is what its places name.

    Raises:
        InputError: the text is not safe, unambiguous YAML.
    """
    import yaml

    _refuse_control_characters(text, path)
    if not text.strip():
        raise InputError("the file is empty", where=Location(path))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(yaml.parse(text, Loader=loader), path).document()
    except yaml.YAMLError as error:
        raise _syntax_error(error, path) from None


class _Composer:
    """Makes nodes of parser events, and refuses what has no place in our files."""

    def __init__(self, events: Iterator[yaml.Event], path: str) -> None:
        self._events = events
        self._path = path
        self._values = 0

    def document(self) -> Node:
        """The root node of the only document."""
        import yaml

        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise InputError("the file holds nothing but comments", where=Location(self._path))
        root = self._node(next(self._events), None, 1)
        next(self._events)
        if isinstance(after := next(self._events), yaml.DocumentStartEvent):
            raise InputError(
                "a second document starts here",
                where=_place(after.start_mark, self._path),
                expected="one document in a file",
            )
        return root

    def _node(self, event: yaml.Event, key_where: Location | None, depth: int) -> Node:
        import yaml

        where = _place(event.start_mark, self._path)
        _refuse_reference_or_tag(event, where)
        self._values += 1
        if self._values > VALUES_MAX:
            raise InputError(
                "the file holds too many values",
                where=where,
                expected=f"at most {VALUES_MAX:,}",
            )
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, where)
            raw = event.value
            return Node(where=where, key_where=key_where or where, value=value, raw=raw)
        if depth > DEPTH_MAX:
            raise InputError(
                "this is nested too deeply", where=where, expected=f"at most {DEPTH_MAX} levels"
            )
        items = (
            self._mapping(depth)
            if isinstance(event, yaml.MappingStartEvent)
            else self._sequence(depth)
        )
        return Node(where=where, key_where=key_where or where, value=items)

    def _sequence(self, depth: int) -> list[Node]:
        import yaml

        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, None, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Node]:
        import yaml

        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, None, depth + 1)
            if not isinstance(key.value, str) or not key.value:
                raise key.error(
                    "a key", "a word", hint="" if key.value == "" else "put it in quotes"
                )
            if key.value == "<<":
                raise InputError(
                    "the merge key '<<' is not allowed",
                    where=key.where,
                    hint="write the keys out",
                )
            if key.value in entries:
                first = entries[key.value].key_where
                raise InputError(
                    f"key '{shortened(key.value)}' is given twice",
                    where=key.where,
                    expected="each key once",
                    hint=f"the first is at line {first.line}, column {first.column}",
                )
            entries[key.value] = self._node(next(self._events), key.where, depth + 1)
        return entries


def _scalar(event: yaml.ScalarEvent, where: Location) -> Scalar | None:
    if event.style:
        return event.value
    value = resolve(event.value)
    if isinstance(value, Surprise):
        raise InputError(
            f"unquoted '{shortened(event.value)}' {value.reason}", where=where, hint=value.hint
        )
    return value


def _refuse_reference_or_tag(event: yaml.Event, where: Location) -> None:
    import yaml

    anchor = getattr(event, "anchor", None)
    if isinstance(event, yaml.AliasEvent):
        raise InputError(
            f"the alias '*{anchor}' is not allowed", where=where, hint="write the value out"
        )
    if anchor is not None:
        raise InputError(
            f"the anchor '&{anchor}' is not allowed", where=where, hint="write the value out"
        )
    if (tag := getattr(event, "tag", None)) is not None:
        shown = tag.replace("tag:yaml.org,2002:", "!!")
        hint = 'an expectation such as "!= 2" needs its quotes' if tag == "!=" else ""
        raise InputError(
            f"the tag '{shortened(shown)}' is not allowed",
            where=where,
            expected="a plain value",
            hint=hint,
        )


def _refuse_control_characters(text: str, path: str) -> None:
    found = _CONTROL.search(text)
    if found is None:
        return
    where = _end_of(text[: found.start()], path)
    if found.group() == "\t":
        raise InputError(
            "there is a tab", where=where, expected="spaces", hint='inside a text write "\\t"'
        )
    raise InputError(
        f"the file is binary: it holds the character {ord(found.group()):#04x}",
        where=where,
        expected="YAML text in UTF-8",
    )


def _syntax_error(error: yaml.YAMLError, path: str) -> InputError:
    words = str(getattr(error, "problem", None) or getattr(error, "reason", "unreadable text"))
    context = getattr(error, "context", None) or ""
    if context and (opened := getattr(error, "context_mark", None)):
        words += f", {context} from line {opened.line + 1}, column {opened.column + 1}"
    hint = "put expectations such as \"> 0\", and texts with ': ' or ' #', in quotes"
    if "flow" in context or "quoted" in context:
        hint = "close the bracket or quote that opens there"
    where = _place(getattr(error, "problem_mark", None), path)
    return InputError(f"this is not valid YAML: {words}", where=where, hint=hint)


def _place(mark: _Mark | None, path: str) -> Location:
    return Location(path, mark.line + 1, mark.column + 1) if mark else Location(path)


def _end_of(text: str, path: str) -> Location:
    return Location(path, text.count("\n") + 1, len(text) - text.rfind("\n"))
