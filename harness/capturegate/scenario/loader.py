"""Finding and loading scenario files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from capturegate.errors import InputError
from capturegate.scenario.document import scenario_from
from capturegate.scenario.model import Scenario
from capturegate.scenario.nodes import read_yaml
from capturegate.scenario.problems import Problems

SUFFIX = ".scenario.yaml"


def load_scenario(path: Path | str) -> Scenario:
    """The scenario in a file.

    Raises:
        InputError: the file cannot be read, is not safe YAML, or does not say a scenario.
    """
    return scenario_from(read_yaml(Path(path)))


def load_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """The scenarios in several files; a name may stand in one of them only.

    Raises:
        InputErrors: what is wrong in any of them.
    """
    problems = Problems()
    loaded: dict[str, Scenario] = {}
    for path in paths:
        scenario = problems.take(None, load_scenario, path)
        if scenario is None:
            continue
        if (first := loaded.get(scenario.name)) is not None:
            problems.add(
                InputError(
                    f"scenario name '{scenario.name}' is given twice",
                    where=scenario.where["scenario"],
                    expected="each name in one file",
                    hint=f"the first is at {first.where['scenario']}",
                )
            )
        loaded[scenario.name] = scenario
    problems.raise_any()
    return list(loaded.values())


def find_scenarios(paths: Sequence[Path | str]) -> list[Path]:
    """The scenario files that are named, and those below the folders that are named.

    Folders whose name starts with a dot are passed over. Each file comes once, in the order of
    the paths, those of a folder sorted.

    Raises:
        InputErrors: a path does not exist, is no scenario file, or holds none.
    """
    problems = Problems()
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for file in problems.take([], _below, path):
            if (real := problems.take(None, _real, file)) is not None:
                found.setdefault(real, file)
    problems.raise_any()
    return list(found.values())


def shipped_scenarios() -> list[Path]:
    """The scenario files of installed packages, by the entry points `capturegate.scenarios`.

    Raises:
        InputErrors: an entry point names a package that is not there, or that holds no scenario.
    """
    folders: list[Path] = []
    problems = Problems()
    for point in sorted(entry_points(group="capturegate.scenarios")):
        folders += problems.take([], _package_folders, point.name, point.module)
    problems.raise_any()
    return find_scenarios(folders)


def _package_folders(entry_point: str, package: str) -> list[Path]:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the scenarios '{entry_point}' are missing: there is no package '{package}'",
            expected="an entry point of group capturegate.scenarios whose value is a package",
            hint="install the distribution that registers it again",
        )
    return [Path(folder) for folder in spec.submodule_search_locations]


def files_below(folder: Path, suffix: str) -> list[Path]:
    """The files with that end of their name in a folder and below it, sorted.

    Folders whose name starts with a dot are passed over: environments and caches of tools.

    Raises:
        InputError: a folder cannot be read; what it holds would go unjudged.
    """

    def refuse(error: OSError) -> None:
        problem = f"the folder cannot be read: {error.strerror}"
        raise InputError(problem, where=str(error.filename)) from error

    files: list[Path] = []
    for inside, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(inside, name) for name in names if name.endswith(suffix)]
    return sorted(files)


def _real(file: Path) -> Path:
    try:
        return file.resolve()
    except (OSError, RuntimeError):
        # What a loop raises depends on Python's version.
        raise InputError(
            "the file cannot be found: its links go in a circle", where=str(file)
        ) from None


def _below(path: Path) -> list[Path]:
    if path.is_dir():
        files = files_below(path, SUFFIX)
        if not files:
            raise InputError(
                f"there is no scenario in the folder {path}",
                expected=f"files whose names end in {SUFFIX}",
            )
        return files
    if not path.exists():
        raise InputError(
            f"there is no file or folder {path}",
            expected=f"a file whose name ends in {SUFFIX}, or a folder that holds some",
        )
    if not path.name.endswith(SUFFIX):
        raise InputError(f"{path} is not a scenario file", expected=f"a name that ends in {SUFFIX}")
    return [path]
