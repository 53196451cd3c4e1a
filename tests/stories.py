"""Traces written by hand, the way a backend would write them, for tests of gates."""

from capturegate import notes
from capturegate.backend import Outcome
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.trace import CAPABILITIES, Recorder

INVALIDATED = "cudaErrorStreamCaptureInvalidated"
UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"


class Story:
    """Writes a trace the way a backend would."""

    def __init__(self):
        self.recorder = Recorder()
        self.notes = notes.PoolNotes(self.recorder, "main")

    def phase(self, label):
        self.recorder.phase = label
        return self

    def begin(self, capture=1):
        outcome = Outcome("cudaSuccess", capture=capture)
        self.recorder.call("cudaStreamBeginCapture", outcome, 2, detail={"mode": "relaxed"})
        return self

    def end(self, capture=1, nodes=3, error="cudaSuccess"):
        outcome = Outcome(error, capture=capture)
        self.recorder.call("cudaStreamEndCapture", outcome, 2, detail={"nodes": nodes})
        return self

    def malloc(self, error="cudaSuccess", capture=0):
        self.recorder.call("cudaMalloc", Outcome(error, capture=capture), nbytes=512)
        return self

    def launch(self, writes=(), error="cudaSuccess", handle=1):
        self.recorder.call("cudaGraphLaunch", Outcome(error, writes=writes), 2, handle=handle)
        return self

    def take(self, size_class, allocation=1, free=1):
        self.notes.get(size_class, size_class - 1, free, 0)
        self.notes.got(size_class, allocation, "hit")
        return self

    def grow(self, allocation=1):
        """A block fetched from the driver ahead of a window."""
        self.recorder.call("cudaMalloc", Outcome("cudaSuccess"), nbytes=512, allocation=allocation)
        return self

    def drained(self, freed_bytes=4096, pool="main"):
        notes.PoolNotes(self.phase("2:drain").recorder, pool).drain(freed_bytes)
        return self

    def evidence(self, capabilities=CAPABILITIES, **more):
        return Evidence(trace=self.recorder.trace(capabilities), runs=[], **more)


def judge(name, evidence):
    return all_gates()[name].judge(evidence, {})


W = "no-driver-allocation-in-window"
C = "profile-covers-window"
B = "pregrow-is-used"
H = "capture-completes"
E = "replay-matches-eager"
