"""Standard output that outlives its reader: the verdict counts, whoever listens."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Lenient(io.RawIOBase):
    """A descriptor that takes everything; what cannot be written is dropped.

    `error` is the first error that was more than a reader who has gone.
    """

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw
        self._gone = False
        self.error: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of it, as far as the caller can tell."""
        left = memoryview(data).cast("B")
        nbytes = left.nbytes
        try:
            while left and not self._gone:
                left = left[self._raw.write(left) or 0 :]
        except OSError as error:
            self._gone = True
            if error.errno != errno.EPIPE:
                self.error = error
        return nbytes

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._raw.fileno()

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return self._raw.isatty()


@contextmanager
def lenient_streams() -> Iterator[list[Lenient]]:
    """Make the standard streams lenient, where they are descriptors; gives standard output's."""
    before = sys.stdout, sys.stderr
    found = [_lenient(stream) for stream in before]
    sys.stdout, sys.stderr = (
        new[0] if new else old for new, old in zip(found, before, strict=True)
    )
    try:
        yield [found[0][1]] if found[0] else []
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def _lenient(stream: object) -> tuple[io.TextIOWrapper[Any], Lenient] | None:
    if not isinstance(stream, io.TextIOWrapper):
        return None
    # An unbuffered stream has the descriptor where others have their buffer.
    buffered = isinstance(stream.buffer, io.BufferedWriter)
    raw = stream.buffer.raw if isinstance(stream.buffer, io.BufferedWriter) else stream.buffer
    if not isinstance(raw, io.FileIO):
        return None
    stream.flush()
    lenient = Lenient(raw)
    text: io.TextIOWrapper[Any] = io.TextIOWrapper(
        io.BufferedWriter(lenient) if buffered else lenient,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return text, lenient
