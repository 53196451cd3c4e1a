"""What a flip touches: the functions whose own code differs, or a module as a whole.

A case that enters none of them cannot tell the mutant from the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from capturegate_mutations.source import Source, compile_source, essence

Key = str
"""`module:Qualified.name` of a function that no function surrounds; `module:` for all the rest."""


def touched(source: Source, text: str) -> frozenset[Key]:
    """The keys of what differs between a module and its flipped text.

    What is defined in a function exists once that function ran, so it counts as that function.
    Module-level code, class bodies, decorators, defaults and signatures take effect without any
    call of a function: they count as the module.

    Raises:
        InvalidFlip: one of the two does not compile.
    """
    before = compile_source(source.text, source.path)
    after = compile_source(text, source.path)
    return frozenset(f"{source.module}:{name}" for name in _differing(before, after))


def _differing(before: CodeType, after: CodeType) -> Iterator[str]:
    """Qualified names of what differs; empty for what belongs to no function."""
    nested = _nested(before), _nested(after)
    names = [[code.co_qualname for code in codes] for codes in nested]
    if _own(before) != _own(after) or names[0] != names[1]:
        yield ""
    for one, other in zip(*nested, strict=False):
        if _is_class(one) and _is_class(other):
            yield from _differing(one, other)
        elif essence(one) != essence(other):
            yield one.co_qualname if _is_def(one) and _called_alike(one, other) else ""


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

