"""Serving flipped source through the import system, in the process of one mutant.

Imports nothing of the harness: in a bare zygote every module of it can still be flipped.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import linecache
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The source that a module gets instead of its file's."""

    module: str
    path: str
    text: str
    is_package: bool


class ServedLoader(importlib.abc.InspectLoader):
    """Compiles the served text under the file's own path; reads and writes no bytecode."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        """The served text."""
        return self._served.text

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        """The served text, compiled."""
        return compile(self._served.text, self._served.path, "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002
        """Whether the module is a package."""
        return self._served.is_package

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, its served lines shown in tracebacks."""
        lines = self._served.text.splitlines(keepends=True)
        # Without a time of change the entry is never checked against the file.
        linecache.cache[self._served.path] = (
            len(self._served.text),
            None,
            lines,
            self._served.path,
        )
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102, as an import does


class ServingFinder(importlib.abc.MetaPathFinder):
    """Finds the served modules, before anybody else can."""

    def __init__(self, served: Mapping[str, Served]) -> None:
        self._served = served

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
            fullname, served.path, loader=ServedLoader(served)
        )


class NotServedError(Exception):
    """A module that is to be served is there already, or came from elsewhere."""


def serve(modules: Sequence[Served]) -> None:
    """Serve modules from now on, and import them.

    Raises:
        NotServedError: one of them was loaded before, or is not what was served after all.
        BaseException: whatever the served source raises while it is imported.
    """
    for served in modules:
        if served.module in sys.modules:
            raise NotServedError(f"{served.module} is loaded already")
    sys.meta_path.insert(0, ServingFinder({served.module: served for served in modules}))
    for served in modules:
        imported = importlib.import_module(served.module)
        loader = imported.__spec__.loader if imported.__spec__ else None
        if not isinstance(loader, ServedLoader) or imported.__file__ != served.path:
            raise NotServedError(f"{served.module} was imported from elsewhere")
