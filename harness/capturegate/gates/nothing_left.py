"""CG011: after the teardown nothing is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from capturegate.gates.base import Evidence, Judgement
from capturegate.run.result import Verdict
from capturegate.trace import BEGIN_TO_GRAPH_API, END_API, ENGINE, Event, Trace

_MADE_BY_HANDLE = {
    "cudaGraphInstantiate": "executable",
    "cudaStreamCreateWithFlags": "stream",
    "cudaEventCreate": "event",
    "cudaGraphCreate": "graph",
    "cudaStreamEndCapture": "graph",
}
_GONE_BY_HANDLE = {
    "cudaGraphExecDestroy": "executable",
    "cudaEventDestroy": "event",
    "cudaGraphDestroy": "graph",
}
_MADE_BY_ALLOCATION = {
    "cudaMalloc": "device block",
    "cudaMallocAsync": "device block",
    "cudaMallocManaged": "managed block",
    "cudaMallocHost": "pinned host block",
    "cudaHostRegister": "registered host block",
}
_GONE_BY_ALLOCATION = frozenset({"cudaFree", "cudaFreeAsync", "cudaFreeHost", "cudaHostUnregister"})
_LOOKED_AT = (
    *_MADE_BY_HANDLE,
    *_GONE_BY_HANDLE,
    *_MADE_BY_ALLOCATION,
    *_GONE_BY_ALLOCATION,
    BEGIN_TO_GRAPH_API,
    "cudaStreamDestroy",
)


class NothingLeftAtTeardown:
    """What an engine made during its life is gone when it has been closed.

    What it checks:
        Executables, graphs, streams, events, device memory and pinned memory: everything that
        was made, outside of a capture, against what was destroyed or freed until the end of the
        case. A block that is still pinned for a graph shows as device memory that stays.

    Why it is unsafe:
        A server that reloads a model, or a worker that restarts its engine in one process, loses
        what was left behind each time, and an executable that lives on keeps pool blocks that
        nobody can take back.

    Goes red when:
        Something was made and is still there. Vacuous when nothing was made.

    How to fix it:
        Close in the order graphs, blocks, streams; unpin a graph's blocks when it is dropped,
        and drain each pool last. Do it on the failure path too.

    When it is vacuous:
        Let the engine make something that its close has to undo.

    Proven by:
        allocation-beside-the-pool, arena-blocks-kept, begin-without-end,
        cell-closed-with-block, cell-closed-with-event, cell-closed-with-staging,
        chunk-closed-with-blocks, chunk-closed-with-cell, chunk-closed-with-scratch,
        chunk-scratch-released, closed-container-keeps-graphs, closed-with-blocks,
        container-closed-with-events, container-closed-with-streams,
        container-failure-not-abandoned, container-graphs-kept, container-last-not-ended,
        container-not-abandoned, container-not-ended, decode-captured-anew,
        decode-closed-with-slots, draft-begin-refused-keeps-graph, draft-begin-removed,
        draft-captured-anew, draft-closed-with-blocks, draft-closed-with-cells,
        draft-closed-with-graphs, draft-closed-with-guesses, draft-closed-with-scratch,
        draft-not-abandoned, draft-piece-not-ended, dropped-blocks-kept,
        dropped-executable-kept, dropped-graph-kept, dropped-graph-of-executable-kept,
        dropped-slot-keeps-graph, dropped-vectors-kept, eager-inputs-not-refreshed,
        eager-vectors-kept, end-reported-for-the-cause, engine-logits-kept,
        lost-capture-not-ended, lost-forks-forgotten, lost-forks-still-open,
        outgrown-scratch-freed, outgrown-vectors-kept, pins-not-lifted,
        prompt-capture-not-abandoned, prompt-closed-with-entries, prompt-closed-with-room,
        prompt-executable-kept, prompt-graph-kept, prompt-held-not-compared,
        prompt-not-ended, prompt-outgrown-room-kept, prompt-refresh-unpin-removed,
        prompt-refreshed-graph-kept, prompt-released-entries-kept,
        prompt-removed-entry-kept, prompt-replaced-executable-kept, prompt-room-blocks-kept,
        prompt-room-vectors-kept, prompt-unpin-removed, refused-end-left-open,
        refused-end-taken-for-ended, refused-graph-kept, replaced-slot-kept,
        sampler-closed-with-block, sampler-closed-with-host-memory,
        seam-abandon-ends-nothing, seam-abandoned-graph-kept, seam-inert-graph-kept,
        seam-not-ended, seam-window-not-abandoned, server-keeps-its-stream,
        server-logits-kept, server-scores-kept, tokens-read-unwaited,
        vectors-closed-with-event, vectors-closed-with-memory.
    """

    code: ClassVar[str] = "CG011"
    name: ClassVar[str] = "nothing-left-at-teardown"
    needs: ClassVar[frozenset[str]] = frozenset({"allocations"})
    params: ClassVar[Mapping[str, type]] = {}
    by_default: ClassVar[bool] = False

    def judge(self, evidence: Evidence, params: Mapping[str, Any]) -> Judgement:
        """Broken by whatever is left; the witness shows what made it."""
        made, left = lives(evidence.trace)
        figures = {"made": made, "left": len(left)}
        if left:
            kinds = Counter(kind for kind, _ in left)
            said = ", ".join(f"{count} {kind}(s)" for kind, count in sorted(kinds.items()))
            return Judgement(
                verdict=Verdict.BROKEN,
                reason=f"{said} left at teardown",
                figures=figures,
                witness=tuple(event for _, event in left),
            )
        if not made:
            return Judgement(verdict=Verdict.VACUOUS, reason="nothing was made", figures=figures)
        return Judgement(verdict=Verdict.HELD, figures=figures)


def lives(trace: Trace) -> tuple[int, list[tuple[str, Event]]]:
    """How much was made, and what of it is left, each with its kind and the call that made it."""
    there: dict[tuple[str, int | str], tuple[str, Event]] = {}
    added_to: dict[int, int | str] = {}
    made = 0
    for event in trace.of(_LOOKED_AT):
        if event.actor != ENGINE:
            continue
        if event.refused:
            # A capture that is lost takes the graph that it was adding to with it.
            if event.api == END_API and event.capture in added_to:
                there.pop(("graph", added_to[event.capture]), None)
            continue
        if event.api == BEGIN_TO_GRAPH_API:
            added_to[event.capture] = event.handle
        if kind := _MADE_BY_HANDLE.get(event.api):
            if event.handle:
                there[kind, event.handle] = kind, event
                made += 1
        elif kind := _GONE_BY_HANDLE.get(event.api):
            there.pop((kind, event.handle), None)
        elif event.api == "cudaStreamDestroy":
            there.pop(("stream", event.stream), None)
        elif (kind := _MADE_BY_ALLOCATION.get(event.api)) and not event.capture:
            there["memory", event.allocation] = kind, event
            made += 1
        elif event.api in _GONE_BY_ALLOCATION:
            there.pop(("memory", event.allocation), None)
    return made, list(there.values())
