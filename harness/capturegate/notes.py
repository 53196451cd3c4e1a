"""The events that an engine tells of its memory pool and of its graph cache, in one vocabulary.

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

OBSERVED = "graph.observed"
RAN_DIRECTLY = "graph.ran_directly"
HOLDS = "graph.holds"
DROPPED = "graph.dropped"
RELEASED = "graph.released"


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


class GraphNotes:
    """Writes a graph cache's events into a trace.

    An observation is one piece of work that arrives to be run. `namespace` is the kind of work,
    `identity` tells what its nodes are, wherever their data lies, and `properties` what an
    executable bakes beyond that: the addresses. Neither may depend on how the cache keys.

    An observation is answered by a direct run or by a launch of an executable that holds it. Tell
    of it before it is answered, and of the next one of the same thread afterwards; one that comes
    before is nested in it, and has to be answered first.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._note = recorder.note

    def observed(self, namespace: str, identity: str, properties: str) -> None:
        """An observation arrived; nothing of it was submitted yet."""
        self._tell(OBSERVED, namespace, identity, properties)

    def ran_directly(self, namespace: str, identity: str, properties: str) -> None:
        """The observation was submitted call by call, no executable involved."""
        self._tell(RAN_DIRECTLY, namespace, identity, properties)

    def holds(self, executable: int, namespace: str, identity: str, properties: str) -> None:
        """From now on an executable holds this; it was made or updated for it."""
        self._tell(HOLDS, namespace, identity, properties, executable)

    def dropped(self, executable: int) -> None:
        """The cache lets an executable go to stay within its bounds."""
        self._note(DROPPED, {"executable": executable})

    def released(self, namespace: str) -> None:
        """Everything of a namespace was let go."""
        self._note(RELEASED, {"namespace": namespace})

    def _tell(
        self, name: str, namespace: str, identity: str, properties: str, executable: int = 0
    ) -> None:
        detail = {
            "namespace": namespace,
            "identity": identity,
            "properties": properties,
            "executable": executable,
        }
        self._note(name, detail)
