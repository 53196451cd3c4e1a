"""Serving code through the import system, in the process of one mutant.

Imports nothing of the harness: in a bare zygote every module of it can still be flipped.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import linecache
import marshal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

PROBE = "__capturegate_probe__"
"""The global of a probed module that its probes call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The source that a module gets instead of its file's.

    `code` is that source compiled and marshalled, with probes in it; empty for a source to compile
    as it is.
    """

    module: str
    path: str
    text: str
    code: bytes = b""

    @property
    def is_package(self) -> bool:
        """Whether other modules lie in it."""
        return Path(self.path).name == "__init__.py"


class ServedLoader(importlib.abc.InspectLoader):
    """Runs the served text under the file's own path; reads and writes no bytecode.

    `hits`, when given, hears of the module as it starts to run, and what its probes tell.
    """

    def __init__(self, served: Served, hits: set[str] | None = None) -> None:
        self._served = served
        self._hits = hits

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        """The served text."""
        return self._served.text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The served text, compiled."""
        served = self._served
        if served.code:
            code: CodeType = marshal.loads(served.code)  # noqa: S302, the parent wrote it for us
            return code
        return compile(served.text, served.path, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002
        """Whether the module is a package."""
        return self._served.is_package

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, its served lines shown in tracebacks."""
        served = self._served
        # Without a time of change the entry is never checked against the file.
        lines = served.text.splitlines(keepends=True)
        linecache.cache[served.path] = (len(served.text), None, lines, served.path)
        if self._hits is not None:
            self._hits.add(f"{served.module}:")
            module.__dict__[PROBE] = self._hits.add
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102, as an import does


class ServingFinder(importlib.abc.MetaPathFinder):
    """Finds the served modules, before anybody else can."""

    def __init__(self, served: Mapping[str, Served], hits: set[str] | None = None) -> None:
        self._served = served
        self._hits = hits

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec of a served module, None for every other."""
        served = self._served.get(fullname)
        if served is None:
            return None
        return importlib.util.spec_from_file_location(
            fullname, served.path, loader=ServedLoader(served, self._hits)
        )


class NotServedError(Exception):
    """A module that is to be served is there already, or came from elsewhere."""


def serve(modules: Sequence[Served]) -> None:
    """Serve modules from now on, and import them.

    Raises:
        NotServedError: one of them was loaded before, or is not what was served after all.
        BaseException: whatever the served source raises while it is imported.
    """
    _install(modules, None)
    for served in modules:
        _check(importlib.import_module(served.module), served.path)


def serve_probed(file: Path) -> tuple[list[Served], set[str]]:
    """Serve the modules of a file of probed code as they are imported, now or later.

    Returns:
        The modules, and the set that fills with the keys of what runs.

    Raises:
        NotServedError: one of them was loaded before.
    """
    entries = marshal.loads(file.read_bytes())  # noqa: S302, the parent wrote it for us
    modules = [
        Served(module=module, path=path, text=text, code=code)
        for module, (path, text, code) in entries.items()
    ]
    hits: set[str] = set()
    _install(modules, hits)
    return modules, hits


def check_served(modules: Sequence[Served]) -> None:
    """See that those of the modules that are loaded are the ones that were served.

    Raises:
        NotServedError: one is not.
    """
    for served in modules:
        if served.module in sys.modules:
            _check(sys.modules[served.module], served.path)


def _check(module: ModuleType, path: str) -> None:
    loader = module.__spec__.loader if module.__spec__ else None
    if not isinstance(loader, ServedLoader) or module.__file__ != path:
        raise NotServedError(f"{module.__name__} was imported from elsewhere")


def _install(modules: Sequence[Served], hits: set[str] | None) -> None:
    for served in modules:
        if served.module in sys.modules:
            raise NotServedError(f"{served.module} is loaded already")
    finder = ServingFinder({served.module: served for served in modules}, hits)
    sys.meta_path.insert(0, finder)
