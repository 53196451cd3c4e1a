"""The prompt graph cache: the first observation runs directly, later ones are one launch.

A capture executes nothing. So an executable is made beside the first observation of its graph,
never for it: what is launched has run the ordinary way before, with the very addresses that it
bakes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from capturegate.backend import Backend, CaptureMode, Graph, GraphExec, Stream
from capturegate.notes import GraphNotes
from capturegate_reference.captures import StreamCapture, executable_of
from capturegate_reference.pool import Block, DevicePool
from capturegate_reference.prompt_graph import Nodes, Observation

INERT = "inert"
PROMPT = "prompt"
SHARED = "graphs"
PROVEN_MAX = 4

Work = Callable[[], None]
Key = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCacheConfig:
    """How the cache works. The last three are known mistakes, for cases that expect them.

    Attributes:
        enabled: whether prompt graphs are captured at all.
        entries_max: executables at most.
        siblings_max: executables at most whose graphs have the same first node.
        keyed_by_address: also key by where the tokens lie, which is another place every time.
        shared_namespace: put entries where decode graphs stand, which a release leaves alone.
        launch_unproven: launch an executable right after it was updated.
    """

    enabled: bool = True
    entries_max: int = 8
    siblings_max: int = 2
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL
    keyed_by_address: bool = False
    shared_namespace: bool = False
    launch_unproven: bool = False


@dataclass(slots=True, kw_only=True)
class Entry:
    """One executable.

    Attributes:
        nodes: the graph that it is an executable of.
        properties: the addresses that it bakes now.
        proven: addresses with which this graph has run directly, the latest ones.
        demand: the scratch of one run, for the next capture.
        graph: id of the graph that it was made or updated from; its blocks are pinned under it.
        used: when it was used last.
    """

    nodes: Nodes
    properties: tuple[int, ...]
    proven: deque[tuple[int, ...]]
    demand: Mapping[int, int]
    executable: GraphExec
    graph: int
    used: int


class PromptGraphCache:
    """Executables of prompt graphs by first node and namespace, then by all their nodes.

    Attributes:
        counts: seeded, replayed, updated, reinstantiated, released, inert: part of the contract;
            begins and ends of captures.
    """

    def __init__(
        self, backend: Backend, config: PromptCacheConfig, *, stream: Stream, pool: DevicePool
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._backend = backend
        self._config = config
        self._stream = stream
        self._pool = pool
        self._notes = GraphNotes(backend.recorder)
        self._captures = StreamCapture(
            backend, stream, mode=config.capture_mode, counts=self.counts
        )
        self._entries: dict[Key, list[Entry]] = {}
        self._clock = 0

    @property
    def size(self) -> int:
        """How many executables there are."""
        return sum(len(siblings) for siblings in self._entries.values())

    def run(self, observation: Observation, work: Work) -> str:
        """Run an observation, whose calls `work` submits; what came of it.

        On a backend that captures nothing it is inert: the work ran once more, and there is no
        executable of it.

        Raises:
            CudaError: a call failed; the stream is idle, and the entry gone that was to change.
        """
        if not self._config.enabled or self._pool.bypassed:
            work()
            return "direct"
        self._clock += 1
        self._notes.observed(PROMPT, observation.identity, observation.baked)
        entry = self._find(observation)
        if entry is None:
            demand = self._run_directly(observation, work)
            return self._seed(observation, demand, work)
        entry.used = self._clock
        if observation.properties not in entry.proven and not self._config.launch_unproven:
            entry.demand = self._run_directly(observation, work)
            entry.proven.append(observation.properties)
            return self._hold(entry, observation, entry.demand, work)
        if entry.properties != observation.properties:
            outcome = self._hold(entry, observation, entry.demand, work)
            if outcome == INERT:
                # There is no executable any more, and nothing is left to run.
                return outcome
        self._backend.graph_launch(entry.executable, self._stream)
        self.counts["replayed"] += 1
        return "replayed"

    def release(self) -> int:
        """Let go of every prompt graph; how many there were.

        Decode begins: prompts have other shapes and another lifetime, and their memory is wanted.
        """
        keys = [key for key in self._entries if key[0] == PROMPT]
        released = [entry for key in keys for entry in self._entries.pop(key)]
        for entry in released:
            self._destroy(entry)
        self.counts["released"] += len(released)
        self._notes.released(PROMPT)
        return len(released)

    def close(self) -> None:
        """Let go of everything."""
        for siblings in self._entries.values():
            for entry in siblings:
                self._destroy(entry)
        self._entries.clear()

    def _key(self, observation: Observation) -> Key:
        namespace = SHARED if self._config.shared_namespace else PROMPT
        key: Key = (namespace, observation.nodes[0])
        # The same pass arrives from another place every time, so the place is no part of it.
        return (*key, observation.source) if self._config.keyed_by_address else key

    def _find(self, observation: Observation) -> Entry | None:
        siblings = self._entries.get(self._key(observation), ())
        return next((entry for entry in siblings if entry.nodes == observation.nodes), None)

    def _run_directly(self, observation: Observation, work: Work) -> dict[int, int]:
        """Run the ordinary way; the scratch that it took."""
        self._pool.mark_step_boundary()
        work()
        self._notes.ran_directly(PROMPT, observation.identity, observation.baked)
        return self._pool.step_demand_profile()

    def _seed(self, observation: Observation, demand: Mapping[int, int], work: Work) -> str:
        """Make an executable for the observations to come; it is not launched for this one.

        Where a capture is inert there is none, and the next observation runs directly again.
        """
        siblings = self._entries.get(self._key(observation), [])
        if len(siblings) >= self._config.siblings_max:
            entry = min(siblings, key=lambda sibling: sibling.used)
            outcome = self._hold(entry, observation, demand, work)
            if outcome == INERT:
                return outcome
            entry.nodes, entry.demand, entry.used = observation.nodes, demand, self._clock
            # What its former graph proved is worth nothing for this one.
            entry.proven = deque([observation.properties], PROVEN_MAX)
            return outcome
        if self.size >= self._config.entries_max:
            self._drop_oldest()
        graph, taken = self._record(demand, work)
        if graph is None:
            self.counts[INERT] += 1
            return INERT
        try:
            executable = executable_of(self._backend, graph)
        finally:
            self._backend.graph_destroy(graph)
        entry = Entry(
            nodes=observation.nodes,
            properties=observation.properties,
            proven=deque([observation.properties], PROVEN_MAX),
            demand=demand,
            executable=executable,
            graph=graph.id,
            used=self._clock,
        )
        # It may be the first of its key, and the drop may have taken the list away.
        self._entries.setdefault(self._key(observation), siblings).append(entry)
        self._pool.pin_for_graph(graph.id, taken)
        self._tell(entry, observation)
        self.counts["seeded"] += 1
        return "seeded"

    def _hold(
        self, entry: Entry, observation: Observation, demand: Mapping[int, int], work: Work
    ) -> str:
        """Make an executable hold an observation: by an update, or anew where none is possible."""
        try:
            outcome = self._refresh(entry, observation, demand, work)
        except BaseException:
            # Nobody knows what it holds now.
            self._remove(self._key(observation), entry)
            raise
        if outcome == INERT:
            self._remove(self._key(observation), entry)
        else:
            self._tell(entry, observation)
        self.counts[outcome] += 1
        return outcome

    def _refresh(
        self, entry: Entry, observation: Observation, demand: Mapping[int, int], work: Work
    ) -> str:
        graph, taken = self._record(demand, work)
        if graph is None:
            return INERT
        try:
            outcome = "updated"
            if not self._backend.raw.graph_exec_update(entry.executable, graph).ok:
                self._backend.get_last_error()
                outcome = "reinstantiated"
                fresh = executable_of(self._backend, graph)
                self._backend.graph_exec_destroy(entry.executable)
                entry.executable = fresh
        finally:
            self._backend.graph_destroy(graph)
        self._pool.unpin_for_graph(entry.graph)
        self._pool.pin_for_graph(graph.id, taken)
        entry.graph, entry.properties = graph.id, observation.properties
        return outcome

    def _record(self, demand: Mapping[int, int], work: Work) -> tuple[Graph | None, list[Block]]:
        """Capture the work; the graph, None where it just ran, and the blocks that it writes to."""
        pool = self._pool
        pool.notes.profile(demand)
        pool.pre_grow_for_capture(demand)
        with pool.recording() as taken, self._captures.window():
            work()
        return self._captures.graph, taken

    def _drop_oldest(self) -> None:
        key, entry = min(
            ((key, entry) for key, siblings in self._entries.items() for entry in siblings),
            key=lambda pair: pair[1].used,
        )
        self._remove(key, entry)
        self.counts["released"] += 1

    def _remove(self, key: Key, entry: Entry) -> None:
        self._entries[key].remove(entry)
        if not self._entries[key]:
            del self._entries[key]
        self._destroy(entry)

    def _destroy(self, entry: Entry) -> None:
        self._pool.unpin_for_graph(entry.graph)
        self._backend.graph_exec_destroy(entry.executable)

    def _tell(self, entry: Entry, observation: Observation) -> None:
        self._notes.holds(entry.executable.id, PROMPT, observation.identity, observation.baked)
