"""Original modules with probes in them: which functions a case enters, told by the code itself.

A probe is a first statement that adds the function's key to a set. Unlike a trace function it
works in every thread and costs only where it stands.
"""

from __future__ import annotations

import ast
import marshal
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType

from capturegate_mutations.serve import PROBE
from capturegate_mutations.source import Source, read_source
from capturegate_mutations.touched import Key

_Def = ast.FunctionDef | ast.AsyncFunctionDef


def probed(source: Source, keys: Collection[Key]) -> CodeType:
    """A module's code with a probe in each function that a key names; no line moves."""
    tree = ast.parse(source.text, source.path)
    for qualname, node in _outermost(tree, ""):
        key = f"{source.module}:{qualname}"
        if key in keys:
            _put_first(node, key)
    return compile(tree, source.path, "exec", dont_inherit=True)


def write_probed(keys: Collection[Key], file: Path) -> None:
    """Compile every module that a key names, for children to load: one file for all of them."""
    modules = sorted({key.partition(":")[0] for key in keys})
    entries = {
        source.module: (source.path, source.text, marshal.dumps(probed(source, keys)))
        for source in map(read_source, modules)
    }
    file.write_bytes(marshal.dumps(entries))


def _outermost(parent: ast.AST, prefix: str) -> Iterator[tuple[str, _Def]]:
    """The functions that no other function surrounds, by qualified name."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, _Def):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _outermost(child, f"{prefix}{child.name}.")
        else:
            yield from _outermost(child, prefix)


def _put_first(node: _Def, key: Key) -> None:
    """Put the probe where the body starts to run: after the docstring, at its first line."""
    at = 1 if ast.get_docstring(node, clean=False) is not None else 0
    probe = ast.parse(f"{PROBE}({key!r})").body[0]
    place = node.body[at] if at < len(node.body) else node.body[-1]
    for part in ast.walk(probe):
        ast.copy_location(part, place)
    node.body.insert(at, probe)
