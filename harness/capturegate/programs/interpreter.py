"""Runs call programs on a device and notes what can be seen after each call.

The procedure around the calls (how the device is brought to rest, what is asked after a call) is
the same on every backend, since resting and asking are calls too. Work is brought to rest before
the next call that is not more work on the same stream, so that what a program shows does not
depend on how fast a device is.
"""

from __future__ import annotations

from functools import partial

from capturegate.backend.device import Device
from capturegate.backend.handles import CaptureMode, CaptureStatus
from capturegate.programs.bench import Bench, BenchError, must
from capturegate.programs.calls import MAKERS, shown_value
from capturegate.programs.names import Names
from capturegate.programs.observation import ABSENT, Observation, Seen
from capturegate.programs.ops import OPS, PAGEABLE_BLOCKS, Call, Program, check_program
from capturegate.programs.races import Races
from capturegate.programs.threads import Threads
from capturegate.status import SUCCESS

_ABSENT = Seen(ABSENT, None, "", {})
_BEGINS = ("begin", "begin_to_graph")
_MORE_WORK = frozenset(name for name, op in OPS.items() if op.works and name != "wait")


class Runner:
    """Runs programs one after the other on one device, which it brings back to rest each time.

    Use it from the thread that made it: that is thread 0 of every program.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._bench = Bench(device)
        self._threads = Threads(lambda: must(device.set_device(0), "device selection"))

    def run(self, program: Program) -> Observation:
        """Run one program.

        Raises:
            BenchError: the device did not come back to rest; go on in a new process.
        """
        self._bench.reset()
        return _Run(self._device, self._bench, self._threads, program).observe()

    def close(self) -> None:
        """End the threads; the device stays open."""
        self._threads.close()


def run_program(program: Program, device: Device) -> Observation:
    """Check one program and run it on a device.

    Raises:
        InputError: the program is not one.
        BenchError: the device did not come back to rest.
    """
    check_program(program)
    runner = Runner(device)
    try:
        return runner.run(program)
    finally:
        runner.close()


class _Run:
    """One program while it runs."""

    def __init__(self, device: Device, bench: Bench, threads: Threads, program: Program) -> None:
        self._device = device
        self._bench = bench
        self._threads = threads
        self._program = program
        self._names = Names(device, bench, program)
        self._races = Races()
        self._captures: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._pending: set[str] = set()
        self._rest_error = SUCCESS
        self._used = sorted({0} | {call[1] for call in program})

    def observe(self) -> Observation:
        """Run the calls, read memory, give everything back."""
        run = self._threads.run
        seen = tuple(run(call[1], partial(self._step, call)) for call in self._program)
        if self._captures:
            for thread in self._used:
                self._threads.run(thread, partial(self._end_captures, thread))
            for thread in self._used:
                self._threads.run(thread, self._check_ended)
        must(self._device.device_synchronize(), "device synchronise at the end")
        blocks = None if self._races.happened else self._bench.contents()
        host = tuple(sorted(self._bench.host_tags))
        self._names.release()
        for thread in self._used:
            self._threads.run(thread, self._calm_thread)
        return Observation(seen, blocks, host)

    def _step(self, call: Call) -> Seen:
        name, thread = call[0], call[1]
        stream = stream_of(call)
        key = key_of(stream, thread)
        before = self._captures.get(key, "")
        arguments = self._names.resolve(call, bool(before))
        if arguments is None:
            return _ABSENT
        more = name in _MORE_WORK and self._pending == {stream} and not _reads_host_now(call)
        if self._pending and not more:
            self._rest()
        outcome = MAKERS[name](self._device, self._bench, *arguments)
        if outcome.error == ABSENT:
            return _ABSENT
        succeeded = outcome.error == SUCCESS
        value = shown_value(name, outcome, self._device)
        if succeeded:
            self._names.keep(call, outcome.value)
        last = self._device.peek_at_last_error().value or ""
        if self._captures or (succeeded and name in _BEGINS):
            self._look(thread)
        after = self._captures.get(key, "")
        if succeeded:
            self._races.follow(call, stream, before, after)
            self._note_work(call, stream, after)
        if succeeded and name == "begin_to_graph":
            self._names.into[key] = arguments[1]
        elif name == "end" and not after:
            self._names.leave(key, alive=succeeded)
        if self._rest_error != SUCCESS:
            value, self._rest_error = ["rest", self._rest_error], SUCCESS
        return Seen(outcome.error, value, last, dict(self._captures))

    def _note_work(self, call: Call, stream: str, after: str) -> None:
        """Remember where work may be in flight."""
        if OPS[call[0]].works and not after:
            self._pending.add(stream)
            if stream == "own":  # no other thread could wait for it
                self._rest()

    def _look(self, thread: int) -> None:
        """Ask every watched stream for its capture."""
        found = {k: v for k, v in self._captures.items() if k.startswith("own")}
        for name in self._names.watched:
            key = key_of(name, thread)
            outcome = self._device.stream_get_capture_info(self._names.streams[name])
            info = outcome.value
            if outcome.error != SUCCESS or info is None:
                found[key] = outcome.error
            elif info.status is CaptureStatus.ACTIVE:
                number = self._numbers.setdefault(info.capture, len(self._numbers) + 1)
                found[key] = f"A{number}"
            elif info.status is CaptureStatus.INVALIDATED:
                found[key] = "I"
            else:
                found.pop(key, None)
        self._captures = found

    def _rest(self) -> None:
        """Wait until submitted work is done, without touching a capture."""
        device, pending = self._device, self._pending
        self._pending = set()
        if not self._captures:
            self._rest_error = device.device_synchronize().error
            return
        mode = must(device.thread_exchange_stream_capture_mode(CaptureMode.RELAXED), "exchange")
        for name in sorted(pending):
            if name in self._names.streams:
                error = device.stream_synchronize(self._names.streams[name]).error
                if error != SUCCESS:
                    self._rest_error = error
        must(device.thread_exchange_stream_capture_mode(mode), "exchange")

    def _end_captures(self, thread: int) -> None:
        for name in self._names.watched:
            stream = self._names.streams[name]
            info = self._device.stream_get_capture_info(stream).value
            if info is not None and info.status is not CaptureStatus.NONE:
                graph = self._device.stream_end_capture(stream).value
                if graph is not None:
                    self._names.own_graph(graph)
                after = self._device.stream_get_capture_info(stream).value
                if after is not None and after.status is CaptureStatus.NONE:
                    self._names.leave(key_of(name, thread), alive=graph is not None)

    def _check_ended(self) -> None:
        for name in self._names.watched:
            info = must(
                self._device.stream_get_capture_info(self._names.streams[name]), "capture info"
            )
            if info.status is not CaptureStatus.NONE:
                raise BenchError(f"stream {name} still captures after the program")

    def _calm_thread(self) -> None:
        must(self._device.thread_exchange_stream_capture_mode(CaptureMode.GLOBAL), "exchange")
        self._device.get_last_error()


def _reads_host_now(call: Call) -> bool:
    """Whether a call reads pageable memory before it returns, which work in flight may write."""
    return call[0] in ("memcpy_async", "memcpy_batch") and call[3] in PAGEABLE_BLOCKS


def stream_of(call: Call) -> str:
    """The stream that a call is about; work that names none goes to the legacy stream."""
    op = OPS[call[0]]
    for kind, value in zip(op.args, call[2:], strict=True):
        if kind.lstrip("+-") == "stream":
            return str(value)
    return "legacy" if op.works else ""


def key_of(stream: str, thread: int) -> str:
    """The name of a stream over all threads: each thread has a per-thread stream of its own."""
    return f"own{thread}" if stream == "own" else stream
