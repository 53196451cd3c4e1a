"""One digest over the code that a case runs: a result is worth nothing for another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from capturegate.run.plan import backends, engine_package
from capturegate.scenario.model import Case


def packages_of(case: Case) -> tuple[str, ...]:
    """Where the code is that runs and judges a case: core, plugged-in gates, backend, engine.

    Of an engine that is its adapter's top-level package, or that one module.
    """
    gates = (point.module for point in entry_points(group="capturegate.gates"))
    modules = ["capturegate", *gates, backends()[case.backend]]
    packages = {module.partition(".")[0] for module in modules}
    return tuple(sorted(packages | {engine_package(case.scenario.engine)} - {""}))


def digest_of(packages: Iterable[str]) -> str:
    """sha256 over names and bytes of the files of packages."""
    digest = hashlib.sha256()
    for package in packages:
        for name, file in sorted(_files_of(package)):
            digest.update(f"{package}/{name}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files_of(package: str) -> Iterator[tuple[str, Path]]:
    # Children look into the working directory last, so an engine may lie there.
    spec = find_spec(package) or PathFinder.find_spec(package, [str(Path.cwd())])
    if spec is None:
        return
    if spec.submodule_search_locations is None and spec.origin is not None:
        yield "", Path(spec.origin)
    for folder in spec.submodule_search_locations or ():
        for path in Path(folder).rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                yield str(path.relative_to(folder)), path
