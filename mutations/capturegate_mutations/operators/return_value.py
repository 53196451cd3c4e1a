"""`return_value`: a function returns at once."""

from __future__ import annotations

import ast
from typing import ClassVar

from capturegate_mutations.operators.base import Arguments, Example, parsed_expression
from capturegate_mutations.scope import Scope
from capturegate_mutations.source import Edit, InvalidFlip

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class ReturnValue:
    """Puts a return in the place of a function's first statement; the rest is never reached.

    A docstring stays. Generators are refused, since a return there is not what a caller gets.
    """

    name: ClassVar[str] = "return_value"
    anchors: ClassVar[tuple[str, ...]] = ()
    texts: ClassVar[tuple[str, ...]] = ("value",)
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            target="Tank.level",
            arguments=Arguments(texts={"value": "0"}),
            before=(
                "class Tank:\n"
                "    @property\n"
                "    def level(self):\n"
                '        """How full."""\n'
                "        with self.lock:\n"
                "            found = self.read()\n"
                "        return found\n"
                "    after = 1\n"
            ),
            after=(
                "class Tank:\n"
                "    @property\n"
                "    def level(self):\n"
                '        """How full."""\n'
                "        return 0\n"
                "\n"
                "        return found\n"
                "    after = 1\n"
            ),
        ),
        Example(
            target="one",
            arguments=Arguments(texts={"value": "None"}),
            before="def one(): return 1\n",
            after="def one(): return None\n",
        ),
    )

    def edits(self, scope: Scope, arguments: Arguments) -> list[Edit]:
        """One replacement, of the first statement after a docstring."""
        value = parsed_expression(arguments.texts["value"], "value")
        node = scope.node
        where = scope.source.at(scope.start)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            raise InvalidFlip("the target of 'return_value' is not a function", where=where)
        if _is_generator(node):
            raise InvalidFlip("the target of 'return_value' is a generator", where=where)
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if not body:
            raise InvalidFlip("the target has no statement but its docstring", where=where)
        start, end = scope.span(body[0])
        lines = scope.source.text.count("\n", start, end)
        return [Edit(start, end, f"return {value}" + "\n" * lines)]


def _is_generator(function: ast.AST) -> bool:
    for child in ast.iter_child_nodes(function):
        if isinstance(child, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(child, _OWN_SCOPE) and _is_generator(child):
            return True
    return False
