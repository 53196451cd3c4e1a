"""Source text of a module, found without importing it, and edits on spans of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType

from capturegate.errors import CapturegateError, InputError, Location


class InvalidFlip(CapturegateError):
    """A flip cannot be applied: the mutation is `invalid`, whatever else it says.

    `where` is the place in the source that was to be flipped.
    """

    def __init__(
        self, problem: str, *, where: str = "", expected: str = "", hint: str = ""
    ) -> None:
        self.problem = problem
        self.where = where
        self.expected = expected
        self.hint = hint
        super().__init__(str(InputError(problem, where=where, expected=expected, hint=hint)))

    def of_plan(self, flip: Location) -> InputError:
        """The same as a mistake of the plan that has the flip at this place."""
        problem = f"{self.problem}, at {self.where}" if self.where else self.problem
        return InputError(problem, where=flip, expected=self.expected, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` by `new`; offsets count characters from 0."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One module's source: decoded by its own cookie, with newlines as the compiler sees them."""

    module: str
    path: str
    text: str

    def offset(self, line: int, column_bytes: int) -> int:
        """The character offset of a position as `ast` tells it: UTF-8 bytes into a line."""
        lines = self.text.split("\n")
        before = sum(len(text) + 1 for text in lines[: line - 1])
        return before + len(lines[line - 1].encode()[:column_bytes].decode())

    def line_of(self, offset: int) -> int:
        """The line of a character offset, from 1."""
        return self.text.count("\n", 0, offset) + 1

    def at(self, offset: int) -> str:
        """`path:line` of a character offset."""
        return f"{self.path}:{self.line_of(offset)}"


def find_spec(module: str) -> ModuleSpec | None:
    """The import system's answer for a module, without importing it or its packages."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = _ask_finders(name, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or [])
    return spec


def _ask_finders(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path)
        if spec is not None:
            return spec
    # Children look into the working directory last, so a module there can be flipped as well.
    return PathFinder.find_spec(name, [str(Path.cwd())]) if path is None else None


def read_source(module: str) -> Source:
    """Read a module's source.

    Raises:
        InvalidFlip: there is no such module, it has no source, or its bytes do not decode.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise InvalidFlip(
            f"module '{module}' has no Python source",
            expected="a module that can be imported from here, written in Python",
            hint="a target is written module:Qualified.name",
        )
    data = Path(spec.origin).read_bytes()
    try:
        text = importlib.util.decode_source(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InvalidFlip(f"cannot decode the source: {error}", where=spec.origin) from error
    return Source(module=module, path=spec.origin, text=text)


def apply(source: Source, edits: Iterable[Edit]) -> str:
    """The source's text with all edits made.

    Raises:
        InvalidFlip: two edits overlap, so that the result would depend on their order.
    """
    text = source.text
    before = len(text) + 1
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        if edit.end > before:
            raise InvalidFlip(
                "two flips edit the same characters",
                where=source.at(edit.start),
                hint="make one flip of them",
            )
        text = text[: edit.start] + edit.new + text[edit.end :]
        before = edit.start
    return text


def compile_source(text: str, path: str) -> CodeType:
    """Compile a module's text as the import system would.

    Raises:
        InvalidFlip: it does not compile.
    """
    try:
        return compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InvalidFlip(
            f"the flipped source does not compile: {error}",
            where=path,
            hint="what a flip puts in has to keep the indentation of the lines around it",
        ) from error


def same_bytecode(one: CodeType, other: CodeType) -> bool:
    """Whether two code objects do the same, wherever their lines are."""
    return essence(one) == essence(other)


def essence(code: CodeType) -> tuple[object, ...]:
    """What a code object does, as something to compare; lines are no part of it."""
    consts = tuple(
        essence(const) if isinstance(const, CodeType) else (type(const), repr(const))
        for const in code.co_consts
    )
    return (
        code.co_code,
        consts,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_name,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_exceptiontable,
    )
