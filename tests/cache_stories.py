"""Traces of graph caches written by hand, call by call, for tests of gates."""

import threading

from capturegate import notes
from capturegate.backend import Outcome
from capturegate.gates.base import Evidence
from capturegate.gates.registry import all_gates
from capturegate.trace import CAPABILITIES, Recorder

OK = Outcome("cudaSuccess")
CAPTURED = Outcome("cudaSuccess", capture=1)

HIT = "later-observations-replay"
FIRST = "never-launched-unproven"
BOUND = "executables-are-bounded"


class Cache:
    """Writes the trace of a graph cache, call by call."""

    def __init__(self):
        self.recorder = Recorder()
        self.notes = notes.GraphNotes(self.recorder)
        self.graph = 100

    def call(self, api, handle=0, outcome=OK, **detail):
        self.recorder.call(api, outcome, 2, handle=handle, detail=detail)
        return self

    def step(self, phase):
        self.recorder.phase = phase
        return self

    def in_thread(self, work):
        thread = threading.Thread(target=work, args=(self,))
        thread.start()
        thread.join()
        return self

    def observe(self, identity="a", properties="1"):
        self.what = ("prompt", identity, properties)
        self.notes.observed(*self.what)
        return self

    def work(self, kernel="embed", capture=0, at=0):
        writes = () if capture else ((1, at, 64),)
        outcome = Outcome("cudaSuccess", capture=capture, writes=writes)
        return self.call("cudaLaunchKernel", kernel, outcome)

    def ran(self):
        self.notes.ran_directly(*self.what)
        return self

    def copy(self, api="cudaMemcpyAsync", capture=0):
        return self.call(api, outcome=Outcome("cudaSuccess", capture=capture))

    def captured(self, *kernels, capture=1, graph=None):
        """Capture kernels and end it; what is made next is made of its graph."""
        self.graph = graph or self.graph + 1
        for kernel in kernels:
            self.work(kernel, capture=capture)
        outcome = Outcome("cudaSuccess", capture=capture)
        return self.call("cudaStreamEndCapture", self.graph, outcome, nodes=len(kernels))

    def made(self, executable=7):
        self.call("cudaGraphInstantiate", executable, graph=self.graph)
        return self.holds(executable)

    def updated(self, executable=7, outcome=OK):
        return self.call("cudaGraphExecUpdate", executable, outcome, graph=self.graph)

    def holds(self, executable=7):
        self.notes.holds(executable, *self.what)
        return self

    def seed(self, identity="a", properties="1", executable=7):
        return self.observe(identity, properties).work().ran().made(executable)

    def launch(self, executable=7):
        return self.call("cudaGraphLaunch", executable)

    def destroy(self, executable=7):
        return self.call("cudaGraphExecDestroy", executable)

    def drop(self, executable=7):
        self.notes.dropped(executable)
        return self.destroy(executable)

    def release(self, namespace="prompt"):
        self.notes.released(namespace)
        return self

    def judge(self, gate, **params):
        evidence = Evidence(trace=self.recorder.trace(CAPABILITIES), runs=[])
        return all_gates()[gate].judge(evidence, params)
