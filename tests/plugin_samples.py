"""A user's engine and scenarios, as text, for the tests of the pytest plugin."""

TOY = """\
import os
import struct
import time
from pathlib import Path

from capturegate.adapter import Output, verb
from capturegate.backend import CaptureMode

FLOATS = 4


def log(word):
    if "TOY_LOG" in os.environ:
        with Path(os.environ["TOY_LOG"]).open("a") as file:
            file.write(f"{word} {os.getpid()} {os.getppid()}\\n")


class Toy:
    config_keys = {
        "allocates": (bool, False),
        "does": (str, "nothing"),
        "mode": (str, "thread_local"),
    }
    predicates = {
        "toy.off": lambda: os.environ.get("TOY_OFF") == "1",
        "toy.never": lambda: True,
    }
    tells_pool = False

    def __init__(self, backend, config, *, oracle):
        log("oracle" if oracle else "engine")
        self.backend = backend
        self.allocates = config["allocates"]
        self.does = config["does"]
        self.mode = CaptureMode(config["mode"])
        self.oracle = oracle
        self.stream = backend.stream_create()
        self.source = backend.malloc_host(4 * FLOATS)
        self.out = backend.malloc(4 * FLOATS)
        self.executable = None
        self.steps = 0

    @verb
    def capture_step(self):
        self.misbehave()
        self.next()
        if self.oracle:
            return self.eager()
        self.backend.stream_begin_capture(self.stream, self.mode)
        self.record()
        graph = self.backend.stream_end_capture(self.stream)
        self.executable = self.backend.graph_instantiate(graph)
        return self.replay()

    @verb
    def replay_step(self):
        self.next()
        return self.eager() if self.oracle else self.replay()

    def record(self):
        if self.allocates:
            self.backend.malloc(64)
        self.copy()

    def copy(self):
        self.backend.memcpy_async(self.out, self.source, 4 * FLOATS, self.stream)

    def eager(self):
        self.copy()
        self.backend.stream_synchronize(self.stream)
        return {"steps": 1}

    def replay(self):
        self.backend.graph_launch(self.executable, self.stream)
        self.backend.stream_synchronize(self.stream)
        return {"steps": 1}

    def next(self):
        self.steps += 1
        data = struct.pack(f"<{FLOATS}f", *[float(self.steps)] * FLOATS)
        self.backend.host_write(self.source, data)

    def misbehave(self):
        if self.does == "raise":
            raise RuntimeError("the toy broke")
        if self.does == "exit":
            os._exit(7)
        if self.does == "hang":
            log("hangs")
            time.sleep(1000)

    def counters(self):
        return {}

    def outputs(self):
        return [Output(name="out", pointer=self.out, row_bytes=4 * FLOATS, rows=1, rows_padded=1)]

    def buffers(self):
        return [self.out.at(0, 4 * FLOATS)]

    def close(self):
        pass
"""

SCENARIO = """\
scenario: toy
about: The toy captures and takes nothing.
engine: toy:Toy
arms:
  plain: {}
  relaxed: {mode: relaxed}
steps:
  - capture_step: {check: {captures: 1, steps: 1}}
  - replay_step: {times: 2, check: {replays: 2}}
gates: [capture-completes, replay-matches-eager]
"""

ALLOCATING = """\
scenario: allocating
about: The toy allocates inside the window.
engine: toy:Toy
config: {allocates: true, mode: relaxed}
steps:
  - capture_step: {check: {captures: 1}}
  - replay_step: {times: 2}
gates:
  - capture-completes
  - no-driver-allocation-in-window
"""

RED_ARM = """\
scenario: red-arm
about: The toy allocates inside the window, and that is expected.
engine: toy:Toy
config: {allocates: true, mode: relaxed}
arms:
  red:
    expect: {no-driver-allocation-in-window: {verdict: broken, witness: Toy.record}}
steps:
  - capture_step: {check: {captures: 1}}
gates: [no-driver-allocation-in-window]
"""

SKIPPING = """\
scenario: skipping
about: Off is off.
engine: toy:Toy
lanes:
  live: {}
  idle:
    env: {TOY_OFF: "1"}
    skip_if: toy.off
    reason: an engine that is off captures nothing
    judged_in: live
steps:
  - capture_step: {check: {captures: 1}}
gates: [capture-completes]
"""

PLAN = """\
mutation: allocates-always
about: The toy allocates inside the window, whatever its configuration says.
flips:
  - target: toy:Toy.record
    replace: {old: if self.allocates, new: if True}
expect:
  toy[default/relaxed]: {no-driver-allocation-in-window: {verdict: broken, witness: Toy.record}}
"""

PLAN_OF_TWO_ARMS = f"""\
{PLAN}\
  toy[default/plain]: {{capture-completes: broken, no-driver-allocation-in-window: broken}}
"""
