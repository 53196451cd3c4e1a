"""The census of the reference engine's call sites: the plans of each, or why it has none.

`python tests/census.py` writes docs/call-sites.md anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from call_sites import plans_of
from capturegate.gates.registry import all_gates
from capturegate.run.plan import expand, load
from capturegate_mutations.plan import Plan
from capturegate_mutations.reader import load_plans, shipped_plans
from capturegate_mutations.source import read_source

PAGE = Path(__file__).parent.parent / "docs/call-sites.md"
HEAD = """\
# Call sites and their plans

Written by `python tests/census.py`; do not edit. Every call of the reference engine that a
capture depends on, and every condition of a function that has one, with the plans that take it
away, change it or move it. Behind a plan stand the gates whose verdict it changes, whether checks
fail, and in how many cases; the plan's file has the exact set, and every other case stays as it
was. `capturegate mutate -k NAME` proves one.

What no plan is about says why. The test of this page fails when a call has no plan and no reason,
and when a reason is not needed any more."""

MODULES = (
    "arena",
    "breakable",
    "captures",
    "cells",
    "chunk",
    "decode",
    "draft_driver",
    "engine",
    "inputs",
    "parts",
    "pool",
    "prompt_cache",
    "prompt_runner",
    "sampler",
    "server_core",
    "serving",
    "shape_caches",
)

HANDS_ON = "it hands on to another function, whose own calls have plans"
ASKS = "it asks what a capture came to; the family's inert plan flips the answer"
NEEDED = "without it there is nothing that the next line could work with"
ORACLE = "the oracle's own switch: without it there is nothing to compare with"
REFUSES = "it refuses a caller's mistake; tests/test_reference_seam.py"
EACH_OWN = "all that it decides on has plans of its own"
WORK = "it decides what is computed, and not whether it is captured"

UNBOUND = "nothing is bound; all three are bound at once"
EMPTY = "nothing is there to give back"
NOT_OUT = "it refuses a block that is not out; tests/test_reference_pool.py"
GIVES_UP = "no client of a scenario gives up; tests/test_reference_server.py"
RUNS_OUT = "without it the pages run out and every client waits for ever; a hang proves nothing"
ORIGINAL = "a fault of the original that is kept on purpose, for the scenario shape-caches"

WITHOUT_A_PLAN = {
    "breakable:BreakableGraph._end if graph is not None": ASKS,
    "breakable:BreakableGraph._end instantiate": NEEDED,
    "breakable:BreakableGraph._end self.join": "forks-left-open flips the loop around it",
    "breakable:BreakableGraph.fork if not self._sides": NEEDED,
    "breakable:BreakableGraph.fork if self.state is not ContainerState.OPEN": REFUSES,
    "breakable:BreakableGraph.join if fork[0] is side": REFUSES,
    "breakable:BreakableGraph.replay if self.state is not ContainerState.CLOSED": REFUSES,
    "captures:StreamCapture._end_again self._backend.raw.stream_is_capturing": NEEDED,
    "captures:StreamCapture._look if self.inert": ASKS,
    "captures:StreamCapture.abandon if ended.ok": "an end that was refused hands nothing out",
    "captures:StreamCapture.begin self._look": HANDS_ON,
    "captures:StreamCapture.begin_into self._look": HANDS_ON,
    "captures:StreamCapture.end if self.inert": ASKS,
    "captures:StreamCapture.window if into is None": EACH_OWN,
    "captures:StreamCapture.window self.begin": HANDS_ON,
    "captures:StreamCapture.window self.begin_into": HANDS_ON,
    "captures:StreamCapture.window self.end": HANDS_ON,
    "captures:executable_of backend.graph_instantiate": NEEDED,
    "captures:instantiate executable_of": NEEDED,
    "cells:InputCell.close if self._block is None": UNBOUND,
    "cells:InputCell.close if self._staged is None": UNBOUND,
    "cells:InputCell.close if self._staging is None": UNBOUND,
    "cells:InputCell.refresh_host if not data": "nothing to bring in",
    "cells:InputCell.refresh_host if self._staged is None": UNBOUND,
    "cells:InputCell.refresh_host if self._staging is None": UNBOUND,
    "chunk:ChunkDriver._capture if self.graph.state is ContainerState.NEW": ASKS,
    "chunk:ChunkDriver.step if self._config.always_cold": ORACLE,
    "chunk:ChunkDriver.step if self._demand is None": NEEDED,
    "chunk:ChunkDriver.step if self.graph.state is ContainerState.NEW #2": ASKS,
    "chunk:ChunkDriver.step if self.graph.state is ContainerState.NEW": (
        "the container refuses to be captured again; closed-container-recaptured flips that"
    ),
    "decode:DecodeDriver._capture if slot.graph is None": ASKS,
    "decode:DecodeDriver._reset if slot.graph is not None": EACH_OWN,
    "decode:DecodeDriver._run_eager if host is None": NEEDED,
    "decode:DecodeDriver._slot if ring is None": NEEDED,
    "decode:DecodeDriver.step if declined": "each reason to decline has a plan of its own",
    "decode:DecodeDriver.step if self._config.always_cold": ORACLE,
    "decode:DecodeDriver.step if slot.graph is None #2": ASKS,
    "draft_driver:DraftDriver._add_piece if graph is None": ASKS,
    "draft_driver:DraftDriver._build self._backend.graph_create": NEEDED,
    "draft_driver:DraftDriver._capture if slot.graph is None": ASKS,
    "draft_driver:DraftDriver.draft if self._config.always_cold": ORACLE,
    "draft_driver:DraftDriver.draft if slot.demand is None": NEEDED,
    "draft_driver:DraftDriver.draft if slot.graph is None #2": ASKS,
    "engine:Engine._admit if len(self._free_pages) < sizes.columns": WORK,
    "engine:Engine._release if self.last is not None": EMPTY,
    "inputs:HostVectors.read_by self._mark #2": HANDS_ON,
    "pool:DevicePool._hand_out if taken is not None": "nobody records",
    "pool:DevicePool.get if found is not None": NEEDED,
    "pool:DevicePool.put if block.owner is not self": NOT_OUT,
    "pool:DevicePool.put if self._out.get(allocation) is not block": NOT_OUT,
    "prompt_cache:PromptGraphCache._refresh if graph is None": ASKS,
    "prompt_cache:PromptGraphCache._refresh executable_of": NEEDED,
    "prompt_cache:PromptGraphCache._seed executable_of": NEEDED,
    "prompt_cache:PromptGraphCache._remove if not self._entries[key]": (
        "a key without entries holds nothing, and is filled anew"
    ),
    "prompt_cache:PromptGraphCache._seed if graph is None": ASKS,
    "prompt_cache:PromptGraphCache._seed if outcome == INERT": ASKS,
    "prompt_cache:PromptGraphCache.run if not self._config.enabled": ORACLE,
    "prompt_runner:PromptRunner._room if room is None": NEEDED,
    "prompt_runner:PromptRunner._run_part.work if part.last": WORK,
    "prompt_runner:PromptRunner._run_part.work if tapped": WORK,
    "prompt_runner:PromptRunner.close if self.room is not None": EMPTY,
    "prompt_runner:PromptRunner.release self.cache.release": HANDS_ON,
    "server_core:ServerCore._admit if cached == len(tokens)": WORK,
    "server_core:ServerCore._admit if shared": "it counts, and nothing else",
    "server_core:ServerCore._admit self._table.release": (
        "no figure tells: what is shared here has other holders meanwhile"
    ),
    "server_core:ServerCore._finish self._table.release": RUNS_OUT,
    "server_core:ServerCore.drop if request in queue": GIVES_UP,
    "server_core:ServerCore.drop self._table.release": GIVES_UP,
    "shape_caches:AlignTables.table if found is None": ORIGINAL,
    "shape_caches:AlignTables.table self._backend.stream_synchronize": ORIGINAL,
    "shape_caches:ShapeKeyedScratch.buffer if found is None": NEEDED,
}
"""The sites that no plan flips, and why."""


def shipped() -> list[Plan]:
    """The shipped plans."""
    return load_plans(shipped_plans(), [case.name for case in expand(load([]), "fake")])


def page(plans: Sequence[Plan]) -> str:
    """docs/call-sites.md."""
    lines = [HEAD]
    told = {plan.name: _told(plan) for plan in plans}
    for name in MODULES:
        source = read_source(f"capturegate_reference.{name}")
        flips = [
            (plan.name, flip)
            for plan in plans
            for flip in plan.code_flips
            if flip.module == source.module
        ]
        lines += [
            "",
            f"## `{name}.py`",
            "",
            "| function | call or condition | plans |",
            "|---|---|---|",
        ]
        for site, found in plans_of(source, flips).items():
            function, _, written = site.partition(":")[2].partition(" ")
            proofs = "<br>".join(told[plan] for plan in dict.fromkeys(found))
            cell = proofs or f"none: {WITHOUT_A_PLAN.get(site, '')}"
            shown = written.replace("|", "\\|")
            lines.append(f"| `{function}` | `{shown}` | {cell} |")
    return "\n".join(lines) + "\n"


def _told(plan: Plan) -> str:
    """A plan, what it turns red by, and in how many cases."""
    codes = {gate.name: gate.code for gate in all_gates().values()}
    members = {member for case in plan.expect.values() for member in case}
    red = sorted({codes[member] for member in members if member in codes})
    if members - codes.keys():
        red.append("checks")
    count = len(plan.expect)
    return f"`{plan.name}`: {', '.join(red)}; {count} case{'s' if count > 1 else ''}"


if __name__ == "__main__":
    PAGE.write_text(page(shipped()))
