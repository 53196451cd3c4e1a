"""The files that a run is to write: looked at before anything runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from capturegate.errors import InputError

# What a shell hands a program as the name of an open descriptor.
_DESCRIPTORS = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")


def check_targets(targets: Mapping[str, Path | None], inputs: Mapping[str, Iterable[Path]]) -> None:
    """See that each file can be written, and is neither an input nor another one of them.

    Args:
        targets: the files by the option that names them.
        inputs: the files that are read, by what they are, such as `scenario`.

    Raises:
        InputError: one is not a regular file, cannot be written, or is there for something else.
    """
    taken = {
        _identity(path): f"the {kind} {path}" for kind, paths in inputs.items() for path in paths
    }
    for option, path in targets.items():
        if path is None or is_descriptor(path):
            continue
        _check_writable(option, path)
        identity = _identity(path)
        if identity in taken:
            raise InputError(
                f"{option} {path} would write over {taken[identity]}",
                expected="a file of its own",
            )
        taken[identity] = f"the file of {option}"


def is_descriptor(path: Path) -> bool:
    """Whether a path means an open descriptor, such as /dev/stdout."""
    return str(path).startswith(_DESCRIPTORS)


def same_file(first: Path, second: Path) -> bool:
    """Whether two names mean one file, which need not be there yet."""
    return _identity(first) == _identity(second)


def _check_writable(option: str, path: Path) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        folder = path.parent
        if path.is_symlink() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise InputError(
                f"{option} {path} cannot be written",
                expected="a file in a folder that is there and can be written to",
            ) from None
    except OSError as error:
        raise InputError(f"{option} {path} cannot be written: {error.strerror}") from error
    else:
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{option} {path} is not a regular file")
        if not os.access(path, os.W_OK):
            raise InputError(f"{option} {path} cannot be written: it is read-only")


def _identity(path: Path) -> tuple[int, int] | str:
    """What two names of one file have in common."""
    try:
        status = path.stat()
    except OSError:
        return str(path.absolute())
    return status.st_dev, status.st_ino
