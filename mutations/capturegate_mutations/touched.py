"""What a flip touches: the functions whose own code differs, or a module as a whole.

A case that enters none of them cannot tell the mutant from the original.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from capturegate_mutations.places import Def, entry, first_difference, outermost
from capturegate_mutations.source import Source, compile_source, essence

Key = str
"""`module:Qualified.name@place` in a function that no function surrounds, else `module:`."""


def touched(source: Source, text: str) -> frozenset[Key]:
    """The keys of what differs between a module and its flipped text.

    What is defined in a function exists once that function ran, so it counts as that function; the
    place is where in it the difference begins. Module-level code, class bodies, decorators,
    defaults and signatures take effect without any call: they count as the module.

    Raises:
        InvalidFlip: one of the two does not compile.
    """
    before = compile_source(source.text, source.path)
    after = compile_source(text, source.path)
    found = dict(_differing(before, after))
    ours, theirs = _defs(source.text), _defs(text)
    return frozenset(
        f"{source.module}:{name}" + (_place(ours[name], theirs[name], same_scope) if name else "")
        for name, same_scope in found.items()
    )


def _defs(text: str) -> dict[str, list[Def]]:
    found: dict[str, list[Def]] = defaultdict(list)
    for name, node in outermost(ast.parse(text)):
        found[name].append(node)
    return found


def _place(ours: list[Def], theirs: list[Def], same_scope: bool) -> str:
    """Where in a function, as the end of a key; nothing where several have its name."""
    if len(ours) != 1 or len(theirs) != 1:
        return ""
    way = first_difference(ours[0], theirs[0]) if same_scope else entry(ours[0])
    return "@" + ".".join(map(str, way))


def _differing(before: CodeType, after: CodeType) -> Iterator[tuple[str, bool]]:
    """Qualified names of what differs, empty for what belongs to no function.

    With it comes whether each name in the function means what it meant: only then does the code
    before the first difference do the same.
    """
    nested = _nested(before), _nested(after)
    names = [[code.co_qualname for code in codes] for codes in nested]
    if _own(before) != _own(after) or names[0] != names[1]:
        yield "", True
    for one, other in zip(*nested, strict=False):
        if _is_class(one) and _is_class(other):
            yield from _differing(one, other)
        elif essence(one) != essence(other):
            name = one.co_qualname if _is_def(one) and _called_alike(one, other) else ""
            yield name, _scope(one) == _scope(other)


def _nested(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _own(code: CodeType) -> tuple[object, ...]:
    """What a code object does, whatever the code that lies in it does."""
    consts = tuple(
        const.co_qualname if isinstance(const, CodeType) else None for const in code.co_consts
    )
    bare = code.replace(
        co_consts=tuple(None if isinstance(c, CodeType) else c for c in code.co_consts)
    )
    return essence(bare), consts


def _is_class(code: CodeType) -> bool:
    """Whether it is the body of a class: code that runs where it stands, in a scope of its own."""
    return not code.co_flags & CO_OPTIMIZED and not code.co_name.startswith("<")


def _is_def(code: CodeType) -> bool:
    """Whether a `def` made it; a lambda or a comprehension of a module has no place for a probe."""
    return bool(code.co_flags & CO_OPTIMIZED) and not code.co_name.startswith("<")


def _called_alike(one: CodeType, other: CodeType) -> bool:
    """Whether calls reach the bodies of both, or of neither."""
    return _signature(one) == _signature(other)


def _scope(code: CodeType) -> tuple[set[str], ...]:
    return set(code.co_varnames), set(code.co_cellvars), set(code.co_freevars)


def _signature(code: CodeType) -> tuple[object, ...]:
    both = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + both.bit_count()
    return (
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_varnames[:count],
    )
