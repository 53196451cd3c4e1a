"""The events that an engine with a memory pool tells of itself, in one vocabulary.

Gates that judge a pool need the capability `pool`: an engine that notes these. Sizes are in
bytes; `size_class` is the class that a request was charged to.
"""

from __future__ import annotations

from collections.abc import Mapping

from capturegate.trace import Recorder

GET = "pool.get"
GOT = "pool.got"
PUT = "pool.put"
DRAIN = "pool.drain"
PROFILE = "pool.profile"
PRE_GREW = "pool.pre_grew"


class PoolNotes:
    """Writes a pool's events into a trace.

    A request is noted when it is made, before anything can refuse it, so attempted requests
    count. A block is told by its allocation id; 0 is a block that did not come about.
    """

    def __init__(self, recorder: Recorder, pool: str) -> None:
        self._note = recorder.note
        self._pool = pool

    def get(self, size_class: int, needed_bytes: int, free: int, live: int) -> None:
        """A request: `free` blocks lay in its class, `live` were out before it."""
        detail = {
            "pool": self._pool,
            "size_class": size_class,
            "needed_bytes": needed_bytes,
            "free": free,
            "live": live,
        }
        self._note(GET, detail)

    def got(self, size_class: int, allocation: int, source: str) -> None:
        """The request was served from `source`: hit, borrow, driver."""
        detail = {"pool": self._pool, "size_class": size_class, "source": source}
        self._note(GOT, detail, allocation)

    def put(self, size_class: int, allocation: int) -> None:
        """A block came back; `size_class` is the class that its request was charged to."""
        self._note(PUT, {"pool": self._pool, "size_class": size_class}, allocation)

    def drain(self, freed_bytes: int) -> None:
        """All free blocks went to the driver."""
        self._note(DRAIN, {"pool": self._pool, "freed_bytes": freed_bytes})

    def profile(self, profile: Mapping[int, int]) -> None:
        """A demand profile is about to be used for a capture: blocks wanted per class."""
        self._note(PROFILE, {"pool": self._pool, "profile": dict(profile)})

    def pre_grew(self, created: Mapping[int, tuple[int, ...]]) -> None:
        """A pre-grow made these blocks, allocation ids per class; empty when it made none."""
        self._note(PRE_GREW, {"pool": self._pool, "created": dict(created)})
