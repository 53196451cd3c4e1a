"""Call sites: cheap to take while recording, resolved to lines once, afterwards.

A frame is kept as (code object, offset of its last instruction), interned; frame objects are
never held. One frame costs well under a microsecond, eight a few (see ci/bench).
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from types import CodeType, FrameType

DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class Frame:
    """One resolved frame; `function` is the qualified name, `line` counts from 1."""

    module: str
    function: str
    path: str
    line: int

    @property
    def dotted(self) -> str:
        """Module and qualified name in one."""
        return f"{self.module}.{self.function}"

    def __str__(self) -> str:
        return f"{self.path}:{self.line} in {self.function}"


class SiteTable:
    """Interned call sites of one trace. Site 0 means unknown."""

    def __init__(self, own_files: frozenset[str]) -> None:
        self._own_files = own_files
        self._codes: dict[int, tuple[CodeType, str]] = {}
        self._ids: dict[tuple[int, ...], int] = {}
        self._keys: list[tuple[int, ...]] = [()]
        self._lock = threading.Lock()

    def take(self, depth_max: int) -> int:
        """The id of the caller's site, at most `depth_max` frames, innermost first.

        Frames of the recording layer itself are left out.
        """
        frame: FrameType | None = sys._getframe(1)
        own = self._own_files
        while frame is not None and frame.f_code.co_filename in own:
            frame = frame.f_back
        caller = frame
        key: list[int] = []
        while frame is not None and depth_max > 0:
            key.append(id(frame.f_code))
            key.append(frame.f_lasti)
            frame = frame.f_back
            depth_max -= 1
        # Codes of a known site are held by the table, so none of these ids was taken anew.
        site = self._ids.get(found := tuple(key))
        return self._new(found, caller) if site is None else site

    def _new(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        """The id of a site that was not seen before, whose innermost frame this is."""
        with self._lock:
            for ident in key[::2]:
                if frame is not None and ident not in self._codes:
                    name = str(frame.f_globals.get("__name__", ""))
                    self._codes[ident] = (frame.f_code, name)
                frame = frame.f_back if frame is not None else None
            site = self._ids.get(key)
            if site is None:
                self._keys.append(key)
                site = self._ids[key] = len(self._keys) - 1
        return site

    def resolve(self, site: int) -> tuple[Frame, ...]:
        """The frames of a site, innermost first; empty for an unknown one."""
        key = self._keys[site]
        frames = []
        for ident, lasti in zip(key[::2], key[1::2], strict=True):
            code, module = self._codes[ident]
            frames.append(Frame(module, code.co_qualname, code.co_filename, line_of(code, lasti)))
        return tuple(frames)


def line_of(code: CodeType, lasti: int) -> int:
    """The source line of an instruction offset, the function's first line when it has none."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno
