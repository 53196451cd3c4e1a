"""One hash over the files that a run must leave alone."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path


def tree_hash(paths: Iterable[Path]) -> str:
    """sha256 over names and bytes of `paths` and of the files around them.

    For a file in a git checkout these are all tracked files of the checkout, otherwise the
    Python and YAML files of its outermost package.
    """
    files = {path.resolve() for path in paths}
    around: set[Path] = set()
    for folder in sorted({file.parent for file in files}):
        if not any(file.is_relative_to(folder) for file in around):
            around.update(_tracked(folder) or _package_files(folder))
    files |= around
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(str(file).encode() + b"\0")
        if file.is_file():
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _tracked(folder: Path) -> set[Path]:
    try:
        top = _git(folder, "rev-parse", "--show-toplevel").decode().rstrip("\n")
        names = _git(Path(top), "ls-files", "-z").split(b"\0")
    except (OSError, subprocess.CalledProcessError):
        return set()
    tracked = {Path(top) / name.decode(errors="surrogateescape") for name in names if name}
    return tracked if any(file.is_relative_to(folder) for file in tracked) else set()


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True
    ).stdout


def _package_files(folder: Path) -> set[Path]:
    while (folder / "__init__.py").exists() and (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return {
        file for pattern in ("*.py", "*.yaml") for file in folder.rglob(pattern) if file.is_file()
    }
