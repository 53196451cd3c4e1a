"""Original modules with probes in them: how far cases get, told by the code itself.

A probe is a statement that adds its key to a set. Unlike a trace function it
works in every thread and costs only where it stands.
"""

from __future__ import annotations

import ast
import marshal
from collections.abc import Collection
from pathlib import Path
from types import CodeType

from capturegate_mutations.places import Place, entry, outermost, statements
from capturegate_mutations.serve import PROBE
from capturegate_mutations.source import Source, read_source
from capturegate_mutations.touched import Key


def probed(source: Source, keys: Collection[Key]) -> CodeType:
    """A module's code with a probe at each place in a function that a key names; no line moves."""
    tree = ast.parse(source.text, source.path)
    found: list[tuple[list[ast.stmt], int, Key]] = []
    for qualname, node in outermost(tree):
        for key in keys:
            module, _, rest = key.partition(":")
            name, _, way = rest.partition("@")
            if (module, name) == (source.module, qualname):
                place = _place(way) if way else entry(node)
                found.append((*statements(node, place), key))
    # From the end of each block, so that no index moves before it is used.
    for block, index, key in sorted(found, key=lambda item: item[1], reverse=True):
        block.insert(index, _probe(key, block[min(index, len(block) - 1)]))
    return compile(tree, source.path, "exec", dont_inherit=True)


def write_probed(keys: Collection[Key], file: Path) -> None:
    """Compile every module that a key names, for children to load: one file for all of them."""
    modules = sorted({key.partition(":")[0] for key in keys})
    entries = {
        source.module: (source.path, source.text, marshal.dumps(probed(source, keys)))
        for source in map(read_source, modules)
    }
    file.write_bytes(marshal.dumps(entries))


def _place(way: str) -> Place:
    return tuple(int(step) if step.isdigit() else step for step in way.split("."))


def _probe(key: Key, beside: ast.stmt) -> ast.stmt:
    """A probe on the line of a statement, that stands for no text of it: see the interleaver."""
    probe = ast.parse(f"{PROBE}({key!r})").body[0]
    for part in ast.walk(probe):
        ast.copy_location(part, beside)
        if isinstance(part, ast.expr | ast.stmt):
            part.end_lineno, part.end_col_offset = part.lineno, part.col_offset
    return probe
