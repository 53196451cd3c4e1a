"""Small engines with one fault each, to see that a case of theirs comes out red."""

import struct
import threading

from capturegate.adapter import Output, verb
from capturegate.backend import CaptureMode, StreamKind

WIDTH = 8
NBYTES = 4 * WIDTH


class Doubling:
    """Writes twice its input; the first step is eager, the second captures, later ones replay."""

    config_keys = {"capture_mode": (str, "thread_local")}
    predicates = {}
    tells_pool = False
    rows = 2

    def __init__(self, backend, config, *, oracle):
        self.backend = backend
        self.mode = CaptureMode(config["capture_mode"])
        self.oracle = oracle
        self.stream = backend.stream_create(StreamKind.NON_BLOCKING)
        self.input = backend.malloc_host(NBYTES)
        self.result = backend.malloc(NBYTES)
        self.graph = None
        self.steps = 0

    @verb
    def step(self):
        """Run the next step."""
        self.steps += 1
        values = [float(self.steps + column) for column in range(WIDTH)]
        self.backend.host_write(self.input, struct.pack(f"<{WIDTH}f", *values))
        self.run()
        self.backend.stream_synchronize(self.stream)
        return {"state": "cold" if self.steps == 1 else "later"}

    def run(self):
        if self.steps == 1 or self.oracle:
            self.work()
            return
        if self.graph is None:
            self.graph = self.capture()
        self.backend.graph_launch(self.graph, self.stream)

    def capture(self):
        self.backend.stream_begin_capture(self.stream, self.mode)
        self.work()
        return self.backend.graph_instantiate(self.backend.stream_end_capture(self.stream))

    def work(self):
        self.backend.memcpy_async(self.result, self.input, NBYTES, self.stream)

    def counters(self):
        return {}

    def outputs(self):
        if not self.steps:
            return ()
        row_bytes = NBYTES // 2
        return (
            Output(
                name="result",
                pointer=self.result,
                row_bytes=row_bytes,
                rows=self.rows,
                rows_padded=self.rows,
            ),
        )

    def buffers(self):
        return (self.result,)

    def close(self):
        pass


class CopiesBeforeItsCapture(Doubling):
    """Has work in flight when it captures, but for a copy to the host on the legacy stream."""

    config_keys = Doubling.config_keys | {"kind": (str, "blocking")}

    def __init__(self, backend, config, *, oracle):
        super().__init__(backend, config, oracle=oracle)
        self.stream = backend.stream_create(StreamKind(config["kind"]))
        self.copied = backend.malloc_host(NBYTES)

    def capture(self):
        self.work()
        self.backend.memcpy(self.copied, self.result, NBYTES)
        return super().capture()


class Stale(Doubling):
    """Captures from a copy of its input that nobody refreshes."""

    def capture(self):
        frozen = self.backend.malloc_host(NBYTES)
        self.backend.host_write(frozen, self.backend.host_read(self.input, NBYTES))
        self.input, fresh = frozen, self.input
        graph = super().capture()
        self.input = fresh
        return graph


class CapturingOracle(Stale):
    """Ignores that it is the oracle."""

    def run(self):
        self.oracle = False
        super().run()


class FewerRows(Doubling):
    """Shows one row of two when it replays."""

    def outputs(self):
        self.rows = 1 if self.graph else 2
        return super().outputs()


class LosesOutput(Doubling):
    """Shows no output any more once it replays."""

    def outputs(self):
        return () if self.graph else super().outputs()


class PoisonsPart(Doubling):
    """Lets only the first item of its output be poisoned."""

    def buffers(self):
        return (self.result.at(0, 4),)


class EagerBehind(Doubling):
    """Replays a graph that writes something else, and computes the result eagerly."""

    def capture(self):
        scratch = self.backend.malloc(NBYTES)
        self.backend.stream_begin_capture(self.stream, self.mode)
        self.backend.memset_async(scratch, 0, NBYTES, self.stream)
        return self.backend.graph_instantiate(self.backend.stream_end_capture(self.stream))

    def run(self):
        super().run()
        self.work()


class AllocatesThenTrips(Doubling):
    """Allocates inside its window, then dies of something else."""

    def work(self):
        self.backend.malloc(64)
        super().work()

    def capture(self):
        graph = super().capture()
        raise AttributeError("an unrelated bug")
        return graph


class LeavesAnError(Doubling):
    """Has a call refused on its second step, looks at its code, and leaves the last error."""

    def capture(self):
        assert not self.backend.raw.set_device(7).ok
        return super().capture()


class CapturesInAThread(Doubling):
    """Has its second step run by a thread of its own."""

    def run(self):
        if self.steps != 2:
            super().run()
            return
        thread = threading.Thread(target=super().run)
        thread.start()
        thread.join()


class RefusesItself(Doubling):
    """Refuses to capture, with an exception of its own."""

    def capture(self):
        raise NotImplementedError("this engine does not capture")


class Exits(Doubling):
    """Leaves the process from its second step."""

    def capture(self):
        raise SystemExit(3)


class RefusesInput(Doubling):
    """Finds the scenario's mistake only while it runs."""

    def capture(self):
        from capturegate.errors import InputError

        raise InputError("no such thing", expected="something else")


class Unprintable(Exception):
    """Cannot say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


def raising(error):
    def method(*args, **options):
        raise error

    return method


def answering(answer):
    def method(*args, **options):
        return answer

    return method


def with_output(**changes):
    def outputs(self):
        facts = {"name": "result", "pointer": self.result, "row_bytes": 8, "rows": 1}
        return [Output(**(facts | {"rows_padded": 1} | changes))]

    return outputs


def doubling(**methods):
    """A class as `Doubling`, but for these methods."""
    return type("Faulty", (Doubling,), methods)
