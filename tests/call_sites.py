"""The calls of a module that a capture depends on, and which flips are about them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from capturegate_mutations.operators import OPERATORS
from capturegate_mutations.plan import CodeFlip
from capturegate_mutations.scope import open_scope
from capturegate_mutations.source import Edit, Source

CALLS = frozenset(
    {
        # The backend's own.
        "event_destroy",
        "event_record",
        "event_synchronize",
        "free_host",
        "get_last_error",
        "graph_create",
        "graph_destroy",
        "graph_exec_destroy",
        "graph_exec_update",
        "graph_instantiate",
        "graph_launch",
        "stream_begin_capture",
        "stream_begin_capture_to_graph",
        "stream_destroy",
        "stream_end_capture",
        "stream_is_capturing",
        "stream_synchronize",
        "stream_wait_event",
        # The pool's and the arena's.
        "drain",
        "mark_step_boundary",
        "pin_for_graph",
        "pre_grow_for_capture",
        "recording",
        "release",
        "scope",
        "step_demand_profile",
        "unpin_for_graph",
        "put",
        # The seam's own, the containers' and the captured graphs'.
        "_abandon",
        "_begin",
        "_destroy",
        "_drop",
        "_end",
        "_look",
        "_remove",
        "_reset",
        "abandon",
        "begin",
        "begin_into",
        "destroy",
        "end",
        "executable_of",
        "graph.capture",
        "graph.replay",
        "instantiate",
        "leaves",
        "self.join",
        "window",
        # What the host vectors, the input cells and the room of prompts share.
        "cell.close",
        "host.close",
        "room.close",
        "read_by",
        "self._mark",
        "refresh",
        "refresh_host",
        # The entries of the prompt cache, and what is told to the gates.
        "proven.append",
        "_notes.holds",
        "_notes.observed",
        "notes.get",
        "notes.got",
        "notes.pre_grew",
        "notes.profile",
        "notes.put",
        "_notes.ran_directly",
        "_notes.released",
    }
)

_WORDS = re.compile(r"\w+|\s|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A call or a condition: how it is written, and where it and what decides on it stand.

    Places are character offsets: of the site itself, of what a condition decides on, and of the
    beginning of the statement.
    """

    name: str
    own: tuple[int, int]
    decides: tuple[int, int] | None
    statement: int
    function: str

    def flipped_by(self, flip: CodeFlip, edits: list[tuple[int, int]]) -> bool:
        """Whether a flip takes it away, changes it, puts it behind a test, or moves it."""
        if flip.operator == "return_value":
            return self.function == flip.qualname
        return any(self._meets(start, end) for start, end in edits)

    def _meets(self, start: int, end: int) -> bool:
        if start == end:
            # Behind a condition it goes on with it; behind a call it is another statement.
            inside = self.own[0] < start < self.own[1] + (self.decides is not None)
            return inside or start == self.statement
        if self.decides and start <= self.decides[0] and self.decides[1] <= end:
            return True
        return start < self.own[1] and self.own[0] < end


class Sites(ast.NodeVisitor):
    """The capture-relevant calls of a module, and the conditions of the functions they are in."""

    def __init__(self, source: Source) -> None:
        self.found: list[Site] = []
        self._source = source
        self._names: list[str] = []
        self._conditions: list[Site] = []
        self._statement = 0
        self._seen: Counter[str] = Counter()
        self.visit(ast.parse(source.text))

    def visit(self, node: ast.AST) -> None:
        """Remember the statement that is visited."""
        if isinstance(node, ast.stmt):
            self._statement = self._span(node)[0]
        super().visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._names.append(node.name)
        outer, self._conditions = self._conditions, []
        before = len(self.found)
        self.generic_visit(node)
        if len(self.found) > before:
            self.found += self._conditions
        self._names.pop()
        self._conditions = outer

    def visit_If(self, node: ast.If) -> None:
        self._branch(node.test, node.body, node.orelse)

    visit_While = visit_If  # noqa: N815

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._branch(node.test, [node.body], [node.orelse])

    def visit_Call(self, node: ast.Call) -> None:
        written = ast.unparse(node.func)
        if any(written == name or written.endswith(f".{name}") for name in CALLS):
            self.found.append(self._site(written, node))
        self.generic_visit(node)

    def _branch(self, test: ast.expr, *blocks: list[ast.AST]) -> None:
        statement = self._statement
        operands = test.values if isinstance(test, ast.BoolOp) else [test]
        decides = self._span(blocks[0][0])[0], self._span(blocks[0][-1])[1]
        for operand in operands:
            self._conditions.append(self._site(f"if {ast.unparse(operand)}", operand, decides))
        self.visit(test)
        for block in blocks:
            for child in block:
                self.visit(child)
        self._statement = statement

    def _site(self, written: str, node: ast.expr, decides: tuple[int, int] | None = None) -> Site:
        function = ".".join(self._names)
        name = f"{self._source.module.rpartition('.')[2]}:{function} {written}"
        self._seen[name] += 1
        if self._seen[name] > 1:
            name += f" #{self._seen[name]}"
        return Site(
            name=name,
            own=self._span(node),
            decides=decides,
            statement=self._statement,
            function=function,
        )

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        return (
            self._source.offset(node.lineno, node.col_offset),
            self._source.offset(node.end_lineno or 0, node.end_col_offset or 0),
        )


def trimmed(source: Source, edit: Edit) -> tuple[int, int]:
    """The words and signs that an edit really takes away; none where it only puts something in.

    Letters are not compared one by one: what goes and what stays may well begin alike.
    """
    old, new = _WORDS.findall(source.text[edit.start : edit.end]), _WORDS.findall(edit.new)
    most = min(len(old), len(new))
    front = 0
    while front < most and old[front] == new[front]:
        front += 1
    back = 0
    while back < most - front and old[-1 - back] == new[-1 - back]:
        back += 1
    return (
        edit.start + len("".join(old[:front])),
        edit.end - len("".join(old[len(old) - back :])),
    )


def plans_of(source: Source, flips: Sequence[tuple[str, CodeFlip]]) -> dict[str, list[str]]:
    """The plans whose flips are about each site of a module, which may be none."""
    placed = []
    for plan, flip in flips:
        edits = OPERATORS[flip.operator].edits(open_scope(source, flip.qualname), flip.arguments)
        placed.append((plan, flip, [trimmed(source, edit) for edit in edits]))
    return {
        site.name: [plan for plan, flip, edits in placed if site.flipped_by(flip, edits)]
        for site in Sites(source).found
    }


def uncovered(source: Source, flips: Sequence[CodeFlip]) -> list[str]:
    """The sites of a module that no flip of it is about."""
    plans = plans_of(source, [("", flip) for flip in flips])
    return [site for site, found in plans.items() if not found]
