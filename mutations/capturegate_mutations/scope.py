"""Where a flip may edit: the span of a target, and the statements that an anchor names."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from capturegate_mutations.source import InvalidFlip, Source

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_COMPOUND = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


_ONCE = "exactly one match"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One statement of a target: by the dotted name of a call in it, or by its own text."""

    kind: Literal["call", "statement"]
    text: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.text}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A target's span in its source, decorators included; `node` is what lies in it."""

    source: Source
    node: ast.Module | Definition
    start: int
    end: int

    @property
    def text(self) -> str:
        """The source text of the span."""
        return self.source.text[self.start : self.end]

    @property
    def lines(self) -> list[str]:
        """The lines of the span, without their indentation."""
        return [line.strip() for line in self.text.splitlines()]

    def statement(self, anchor: Anchor) -> ast.stmt:
        """The one statement that an anchor names.

        Raises:
            InvalidFlip: none or several match; the message has the lines.
        """
        matches = list(_matches(self.node, anchor))
        if len(matches) == 1:
            return matches[0]
        lines = [f"{self.source.path}:{match.lineno}" for match in matches]
        there = _called(self.node) if anchor.kind == "call" else self.lines
        raise mismatch(self, str(anchor), lines, wanted=anchor.text, there=there)

    def simple_statement(self, anchor: Anchor) -> ast.stmt:
        """The one statement that an anchor names, when it has its line to itself.

        Raises:
            InvalidFlip: as `statement`; or it is a compound statement, or shares its line.
        """
        found = self.statement(anchor)
        where = f"{self.source.path}:{found.lineno}"
        if isinstance(found, _COMPOUND):
            raise InvalidFlip(
                f"{anchor} is a compound statement",
                where=where,
                expected="a simple one",
                hint="use 'replace' on its text",
            )
        start, end = self.span(found)
        line_start = self.source.text.rfind("\n", 0, start) + 1
        line_end = self.source.text.find("\n", end)
        after = self.source.text[end : None if line_end < 0 else line_end].strip()
        if self.source.text[line_start:start].strip() or (after and not after.startswith("#")):
            raise InvalidFlip(
                f"{anchor} shares its line with something else",
                where=where,
                expected="a statement that has its line to itself",
                hint="use 'replace' on its text",
            )
        return found

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """The character offsets of a statement, without its decorators."""
        if node.end_lineno is None or node.end_col_offset is None:
            raise InvalidFlip("a statement has no end", where=f"{self.source.path}:{node.lineno}")
        start = self.source.offset(node.lineno, node.col_offset)
        return start, self.source.offset(node.end_lineno, node.end_col_offset)


def mismatch(
    scope: Scope, what: str, lines: list[str], *, wanted: str = "", there: Iterable[str] = ()
) -> InvalidFlip:
    """The error that says that an anchor does not match exactly once, with the lines.

    Of what is `there` the nearest to what was `wanted` is told.
    """
    where = scope.source.at(scope.start)
    if not lines:
        close = difflib.get_close_matches(wanted, dict.fromkeys(there), n=1)
        return InvalidFlip(
            f"{what} matches nothing in the target",
            where=where,
            expected=_ONCE,
            hint=f"did you mean '{close[0]}'?" if close else "the code may have changed since",
        )
    return InvalidFlip(
        f"{what} matches {len(lines)} times in the target: {', '.join(lines)}",
        where=where,
        expected=_ONCE,
        hint="take in more of the text around it, or name a smaller target",
    )


def open_scope(source: Source, qualname: str) -> Scope:
    """The span of a function or class by its qualified name; of the module for an empty one.

    Raises:
        InvalidFlip: the source does not parse, or not exactly one definition has that name.
    """
    try:
        tree = ast.parse(source.text)
    except SyntaxError as error:
        raise InvalidFlip(f"the source does not parse: {error}", where=source.path) from error
    whole = Scope(source=source, node=tree, start=0, end=len(source.text))
    if not qualname:
        return whole
    found = list(_definitions(tree, qualname.replace(".<locals>", "").split(".")))
    if len(found) != 1:
        what = f"'{qualname}' of module {source.module}"
        lines = [f"{source.path}:{node.lineno}" for node in found]
        raise mismatch(whole, what, lines, wanted=qualname, there=_defined(tree))
    node = found[0]
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    start = source.offset(first, 0)
    return Scope(source=source, node=node, start=start, end=whole.span(node)[1])


def _definitions(parent: ast.AST, names: list[str]) -> Iterator[Definition]:
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, Definition):
            if child.name != names[0]:
                continue
            if len(names) == 1:
                yield child
            else:
                yield from _definitions(child, names[1:])
        else:
            yield from _definitions(child, names)


def _defined(parent: ast.AST, prefix: str = "") -> Iterator[str]:
    """The qualified names of what is defined in a module, as a plan writes them."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, Definition):
            yield f"{prefix}{child.name}"
            yield from _defined(child, f"{prefix}{child.name}.")
        else:
            yield from _defined(child, prefix)


def _called(node: ast.AST) -> Iterator[str]:
    """The dotted names of the calls in a node."""
    for child in ast.walk(node):
        if isinstance(child, ast.Call):
            yield ast.unparse(child.func)


def _matches(node: ast.AST, anchor: Anchor) -> Iterator[ast.stmt]:
    if anchor.kind == "call":
        yield from _calls(node, anchor.text, None)
        return
    try:
        wanted = [ast.dump(item) for item in ast.parse(anchor.text.strip()).body]
    except SyntaxError as error:
        raise InvalidFlip(f"{anchor} is not a statement: {error.msg}") from error
    if len(wanted) != 1:
        raise InvalidFlip(f"{anchor} is not one statement")
    for child in ast.walk(node):
        if isinstance(child, ast.stmt) and child is not node and ast.dump(child) == wanted[0]:
            yield child


def _calls(node: ast.AST, dotted: str, statement: ast.stmt | None) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        around = child if isinstance(child, ast.stmt) else statement
        if isinstance(child, ast.Call) and ast.unparse(child.func) == dotted and around is not None:
            yield around
        yield from _calls(child, dotted, around)
