"""A toy engine and its scenario, small enough to be mutated in every way that can go wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

ADAPTER = """
from typing import Any, ClassVar
from capturegate.adapter import verb

def is_off():
    import toy_core
    return toy_core.is_off()

class ToyAdapter:
    config_keys: ClassVar = {"base": (int, 3)}
    predicates: ClassVar = {"toy.off": is_off}
    tells_pool: ClassVar = False

    def __init__(self, backend, config, *, oracle):
        import toy_core
        self._core = toy_core.Core(backend, config["base"])

    @verb
    def work(self, amount: int = 1):
        return {"total": self._core.total(amount)}

    @verb
    def capture(self):
        self._core.capture()
        return {}

    def counters(self):
        return {}

    def outputs(self):
        return []

    def buffers(self):
        return []

    def close(self):
        self._core.close()
"""

CORE = """
import os
from capturegate.backend import CaptureMode

OFF = os.environ.get("TOY_OFF") == "1"
LIMIT = 100

def is_off():
    return OFF

class Core:
    def __init__(self, backend, base, limit=LIMIT):
        self.backend = backend
        self.base = base
        self.limit = limit
        self.buffer = backend.malloc(64)
        self.stream = backend.stream_create()

    def total(self, amount):
        self.warm(amount)
        return min(self.base + amount, self.limit)

    def warm(self, amount):
        for _ in range(amount):
            self.backend.memset(self.buffer, 1, 64)

    def capture(self):
        self.backend.stream_begin_capture(self.stream, CaptureMode.RELAXED)
        self.backend.memset_async(self.buffer, 7, 64, self.stream)
        graph = self.backend.stream_end_capture(self.stream)
        self.backend.graph_destroy(graph)

    def close(self):
        self.backend.free(self.buffer)
"""

SCENARIO = """
scenario: toy
about: A toy that adds and captures.
engine: toy_adapter:ToyAdapter
lanes:
  plain: {}
  idle:
    env: {TOY_OFF: "1"}
    skip_if: toy.off
    reason: it is off
    judged_in: plain
steps:
  - work: {amount: 2, check: {total: 5}}
  - capture: {check: {captures: 1}}
gates: [capture-completes]
"""

PLAIN = "toy[plain/default]"
OFF = "toy[idle/default]"


def write_toy(folder: Path, plans: Mapping[str, str], **files: str) -> None:
    """The engine, its scenario and plans; `files` replace the toy's own by their stem."""
    texts = {"toy_adapter": ADAPTER, "toy_core": CORE, "toy": SCENARIO} | files
    for stem, text in texts.items():
        suffix = ".scenario.yaml" if stem == "toy" else ".py"
        (folder / f"{stem}{suffix}").write_text(text)
    (folder / "plans").mkdir(exist_ok=True)
    for name, text in plans.items():
        head = f"mutation: {name}\nabout: A toy's mutation.\n"
        (folder / "plans" / f"{name}.mutation.yaml").write_text(head + text)


def replacing(old: str, new: str, expect: str, target: str = "toy_core:Core.total") -> str:
    """A plan's text: one replacement, and what is expected of it."""
    return (
        f"flips:\n  - target: {target}\n    replace:\n"
        f"      old: {json.dumps(old)}\n      new: {json.dumps(new)}\nexpect:\n{expect}"
    )


def expecting(case: str, **members: str) -> str:
    """An `expect` entry; `__` in a name stands for a dot, `_` for a hyphen."""
    lines = [f"  {case}:"]
    for name, verdict in members.items():
        lines.append(f"    {name.replace('__', '.').replace('_', '-')}: {verdict}")
    return "\n".join(lines) + "\n"
