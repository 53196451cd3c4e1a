"""Records the corpus on a device, in several processes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from capturegate.programs import Runner
from capturegate_backends.conform.corpus import corpus
from capturegate_backends.conform.devices import make_device
from capturegate_backends.conform.pool import Lost, end_with_parent, run_workers
from capturegate_backends.truth.recordings import RecordedCase, parse_case, write_recording


def record(backend: str, path: Path, processes: int) -> tuple[int, list[tuple[str, Lost]]]:
    """Record the corpus; returns the number of cases, and the programs that were lost."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{i}.jsonl") for i in range(processes)]
        lost = run_workers(record_slice, processes, paths, backend)
        description: dict[str, str] = {}
        numbered: dict[int, RecordedCase] = {}
        for part in paths:
            for line in Path(part).read_text("utf-8").splitlines():
                kind, _, rest = line.partition(" ")
                if kind == "device":
                    description = json.loads(rest)
                else:
                    numbered[int(kind)] = parse_case(rest)
    cases = [numbered[index] for index in sorted(numbered)]
    write_recording(path, description, cases)
    names = [name for name, _ in corpus()]
    return len(cases), [(names[one.job], one) for one in lost]


def record_slice(first: int, stride: int, cell: Any, path: str, backend: str) -> None:
    """Record every `stride`-th program of the corpus from `first` on, a line each."""
    end_with_parent(Path(path).parent)
    device = make_device(backend)
    runner = Runner(device)
    with Path(path).open("a", buffering=1, encoding="utf-8") as out:
        out.write(f"device {json.dumps(device.description)}\n")
        try:
            for index, (name, program) in enumerate(corpus()):
                if index < first or (index - first) % stride:
                    continue
                cell.value = index
                case = RecordedCase(name=name, program=program, observation=runner.run(program))
                out.write(f"{index} {case.line()}\n")
        finally:
            out.flush()
    runner.close()
