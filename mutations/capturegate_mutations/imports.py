"""Who imports whom, read from source: what may be loaded before a module is flipped."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from capturegate_mutations.source import InvalidFlip, read_source


def imported_by(module: str, text: str, *, is_package: bool = False) -> set[str]:
    """Every module that a source may import, inside functions too, and their packages."""
    names: set[str] = set()
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                parents = parents[: len(parents) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            names.add(base)
            # `from package import name` may name a module.
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names | {parent for name in names for parent in parents_of(name)}


def parents_of(module: str) -> list[str]:
    """The packages around a module, outermost first."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def import_graph(modules: Collection[str]) -> dict[str, set[str]]:
    """For each module with Python source, what it imports; its own packages are among that."""
    graph = {}
    for module in modules:
        try:
            source = read_source(module)
        except InvalidFlip:
            continue
        package = source.path.endswith("__init__.py")
        found = imported_by(module, source.text, is_package=package)
        graph[module] = found | set(parents_of(module))
    return graph


def importers_of(flipped: Collection[str], graph: Mapping[str, Collection[str]]) -> set[str]:
    """The flipped modules and everything that imports one of them, directly or not."""
    reached = set(flipped)
    while True:
        more = {m for m, imports in graph.items() if m not in reached and reached & set(imports)}
        if not more:
            return reached
        reached |= more
