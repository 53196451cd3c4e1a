"""Figures of Capturegate's own speed. Every ratio is measured within one run.

Prints one table; `--json FILE` keeps it. Nothing here passes or fails.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

from capturegate.backend import Backend, Outcome
from capturegate.trace import Recorder
from capturegate_backends.fake.device import FakeDevice


class Quiet:
    """A device whose calls do nothing, to see what recording alone costs."""

    answer = Outcome("cudaSuccess")

    def event_query(self, event):
        return self.answer

    def malloc(self, nbytes):
        return self.answer


class Event:
    id = 1


def at_depth(depth, work):
    """Call `work` with `depth` frames below it."""
    return work() if depth <= 0 else at_depth(depth - 1, work)


def per_call_us(call, times=20_000, repeats=7):
    """Microseconds a call, the median of several runs."""
    runs = []
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(times):
            call()
        runs.append((time.perf_counter() - started) / times * 1e6)
    return statistics.median(runs)


def recorded_calls():
    """A recorded call against the same call unrecorded, and against an empty method."""
    rows = {}
    event = Event()
    device = Quiet()

    def recorded(name, argument):
        method = getattr(Backend(device, Recorder()).raw, name)
        return per_call_us(lambda: method(argument))

    for depth in (15, 40):
        bare = at_depth(depth, lambda: per_call_us(lambda: device.event_query(event)))
        empty = at_depth(depth, lambda: per_call_us(lambda: None))
        one = at_depth(depth, lambda: recorded("event_query", event))
        full = at_depth(depth, lambda: recorded("malloc", 64))
        rows[f"recorded call, one frame, depth {depth}"] = {"us": one, "over_bare_us": one - bare}
        rows[f"recorded call, eight frames, depth {depth}"] = {
            "us": full,
            "over_bare_us": full - bare,
        }
        rows[f"unrecorded call, depth {depth}"] = {"us": bare, "times_empty": bare / empty}
    return rows


def event_memory(events=1_000_000):
    """Bytes that a stored event takes."""
    recorder = Recorder()
    answer = Outcome("cudaSuccess")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    started = time.perf_counter()
    for _ in range(events):
        recorder.call("cudaLaunchKernel", answer, 2, handle="k")
    seconds = time.perf_counter() - started
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return {f"{events} events": {"bytes_each": used / events, "seconds_traced": seconds}}


def fake_launches():
    """What a tiny kernel costs on the fake, by way."""
    from capturegate.backend import CaptureMode, StreamKind
    from capturegate_reference.kernels import ADD

    backend = Backend(FakeDevice())
    stream = backend.stream_create(StreamKind.NON_BLOCKING)
    a, b = (backend.malloc(32).array((8,)) for _ in range(2))
    eager = per_call_us(lambda: backend.launch(ADD, (a, b, 8), stream, 8), times=2_000)
    backend.stream_synchronize(stream)
    backend.stream_begin_capture(stream, CaptureMode.RELAXED)
    for _ in range(200):
        backend.launch(ADD, (a, b, 8), stream, 8)
    graph = backend.graph_instantiate(backend.stream_end_capture(stream))

    def replay():
        backend.graph_launch(graph, stream)
        backend.stream_synchronize(stream)

    node = per_call_us(replay, times=20) / 200
    return {"eager launch on the fake": {"us": eager}, "replayed node on the fake": {"us": node}}


def programs(seconds=5.0):
    """Random call programs a second: on the fake and, where one is, on a device."""
    from capturegate.errors import InputError
    from capturegate.programs import Runner, generate
    from capturegate_backends.conform.devices import BACKENDS, make_device

    rows = {}
    made = [generate(seed) for seed in range(2_000)]
    for backend in BACKENDS:
        try:
            runner = Runner(make_device(backend))
        except InputError:
            continue  # no device here
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            runner.run(made[count % len(made)])
            count += 1
        spent = time.perf_counter() - started
        runner.close()
        rows[f"call programs on {backend}"] = {"programs_per_s": count / spent}
    return rows


def proofs(workers=2):
    """Mutants a second over the shipped sheet, and the floor: the same mutants without a case."""
    from dataclasses import replace

    from capturegate.run.plan import expand, load
    from capturegate.run.pool import Pool
    from capturegate_mutations.batch import Settings, tasks_of
    from capturegate_mutations.reader import load_plans, shipped_plans
    from capturegate_mutations.runner import Runner, prepare_all

    cases = expand(load([]), "fake")
    plans = load_plans(shipped_plans(), [case.name for case in cases])
    settings = Settings(seed=0, time_limit_s=600.0)
    with Pool(workers) as pool:
        prepared = prepare_all(plans, cases)
        runner = Runner(pool=pool, cases=cases, prepared=prepared, settings=settings)
        started = time.perf_counter()
        ground = runner.ground()
        baseline = time.perf_counter() - started
        empty = [
            replace(task, request={**task.request, "cases": []})
            for item in prepared
            if item.mutant
            for task in tasks_of(replace(item.mutant, cases=cases[:1]), settings, bare=item.bare)
        ]
        started = time.perf_counter()
        for task in empty:
            pool.submit(task)
        answered = sum(answer.fate == "answered" for _, answer in pool.answers())
        floor = (time.perf_counter() - started) / answered
        started = time.perf_counter()
        ran = [outcome.ran for _, outcome in runner.mutants({p.name for p in plans}, ground)]
        each = (time.perf_counter() - started) / len(ran)
    return {
        "baseline twice and controls": {"seconds": baseline, "cases": len(cases)},
        "mutants without a case": {"per_s": 1 / floor},
        "mutants with the cases that they reach": {
            "per_s": 1 / each,
            "cases_each": sum(ran) / len(ran),
            "times_floor": each / floor,
            "ms_a_case": 1e3 * each * len(ran) / sum(ran),
        },
    }


def commands():
    """Whole processes: help, the gate."""
    rows = {}
    for name, arguments in {
        "capturegate --help": ["--help"],
        "capturegate run, one scenario": ["run", "-q", "-k", "decode-nonspec-dense"],
        "capturegate run, all": ["run", "-q"],
    }.items():
        runs = []
        for _ in range(3):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "capturegate", *arguments],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            runs.append(time.perf_counter() - started)
        rows[name] = {"seconds": statistics.median(runs)}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="keep the figures as JSON")
    arguments = parser.parse_args()
    rows = recorded_calls() | fake_launches() | event_memory() | commands()
    rows |= programs() | proofs()
    for name, figures in rows.items():
        told = "  ".join(f"{key} {value:.3g}" for key, value in figures.items())
        print(f"{name:45} {told}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
