"""Where in a function a flip begins to matter: the first statement that differs.

Control that never gets there does what it did. A place is written as the way to it through the
syntax tree: fields that hold statements, and indices into them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from typing import Any

Def = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str | int, ...]


def outermost(parent: ast.AST, prefix: str = "") -> Iterator[tuple[str, Def]]:
    """The functions that no other function surrounds, by qualified name."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, Def):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from outermost(child, f"{prefix}{child.name}.")
        else:
            yield from outermost(child, prefix)


def first_difference(before: Def, after: Def) -> Place:
    """The way to the first statement of `before` that differs.

    It ends with the index of a statement, or with the length of a block that only `after` goes on.
    """
    return _in_block(before, after, "body", start=_docstrings(before))


def statements(node: Def, place: Place) -> tuple[list[ast.stmt], int]:
    """The block that a place is in, and the index in it."""
    *way, field, index = place
    block: list[ast.stmt] = getattr(_follow(node, way), str(field))
    return block, int(index)


def entry(node: Def) -> Place:
    """The way to where a function's body starts to run."""
    return "body", _docstrings(node)


def _docstrings(node: Def) -> int:
    """How many statements at the beginning have to stay there."""
    return 0 if ast.get_docstring(node, clean=False) is None else 1


def _in_block(before: ast.AST, after: ast.AST, field: str, start: int = 0) -> Place:
    ours: list[ast.stmt] = getattr(before, field)
    theirs: list[ast.stmt] = getattr(after, field)
    at = start
    while at < min(len(ours), len(theirs)) and ast.dump(ours[at]) == ast.dump(theirs[at]):
        at += 1
    if at < len(ours) and len(ours) == len(theirs):
        same_rest = all(
            ast.dump(one) == ast.dump(other)
            for one, other in zip(ours[at + 1 :], theirs[at + 1 :], strict=True)
        )
        if same_rest and (deeper := _in_statement(ours[at], theirs[at])):
            return field, at, *deeper
    return field, at


def _in_statement(before: ast.stmt, after: ast.stmt) -> Place:
    """The way on into a statement whose blocks alone differ, and only one of them."""
    blocks = _blocks(before)
    if type(before) is not type(after) or blocks != _blocks(after):
        return ()
    if _without_blocks(before) != _without_blocks(after):
        return ()
    differing = [block for block in blocks if _dumps(before, block) != _dumps(after, block)]
    if len(differing) != 1:
        return ()
    *way, field = differing[0]
    return (*way, *_in_block(_follow(before, way), _follow(after, way), str(field)))


def _blocks(node: ast.stmt) -> list[Place]:
    """The ways to the blocks of a statement that run as part of it, by control flow alone."""
    if isinstance(node, Def | ast.ClassDef):
        return []
    found: list[Place] = []
    for field, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            found.append((field,))
        elif field in ("handlers", "cases"):
            found += [(field, index, "body") for index in range(len(value))]
    return found


def _follow(node: ast.AST, way: Sequence[str | int]) -> ast.AST:
    inner: Any = node
    for step in way:
        inner = getattr(inner, step) if isinstance(step, str) else inner[step]
    found: ast.AST = inner
    return found


def _dumps(node: ast.stmt, block: Place) -> list[str]:
    *way, field = block
    return [ast.dump(item) for item in getattr(_follow(node, way), str(field))]


def _without_blocks(node: ast.stmt) -> str:
    """A statement's own parts: conditions, targets, the exceptions that it takes."""
    bare = copy.deepcopy(node)
    for *way, field in _blocks(bare):
        setattr(_follow(bare, way), str(field), [ast.Pass()])
    return ast.dump(bare)
