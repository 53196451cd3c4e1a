"""What the process of one mutant does: serve the flipped source, run cases, tell their results.

Imports nothing of the harness before the flipped source is in place.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capturegate_mutations.oracles import KeptOracle
from capturegate_mutations.serve import (
    NotServedError,
    Served,
    check_served,
    serve,
    serve_probed,
)

EVERYTHING = "*"
"""The hit of a case that may have entered anything."""

_TRACE_CHARS_MAX = 3000
_STARTS_A_PROCESS = frozenset(
    {
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "pty.spawn",
        "subprocess.Popen",
    }
)


def mutant(request: dict[str, Any]) -> dict[str, Any]:
    """The target `mutant`: results of all cases of one environment, under one mutation.

    The request holds `sources` to serve, `cases` to run, `predicates` (name, answer, lane,
    scenarios), `calls_max`, `tell_modules`, `probed`, a file of modules to serve with probes in
    them, `oracles`, a folder to keep the oracles of cases in, and `known`, the cases whose oracle
    is taken from there. The answer has `cases`, or `import_error` or `not_served`; `carried` tells
    what was loaded in the zygote, `modules` what is now, `hits` what the probes told.
    """
    carried = sorted(sys.modules) if request["tell_modules"] else []
    served = [Served(**source) for source in request["sources"]]
    probed: list[Served] = []
    hits: set[str] = set()
    try:
        serve(served)
        if request["probed"]:
            probed, hits = serve_probed(Path(request["probed"]))
            mark_other_processes(hits)
    except NotServedError as error:
        return {"not_served": str(error)}
    except BaseException as error:
        return {"import_error": _told(error)}
    from capturegate.trace import Recorder

    Recorder.calls_max = request["calls_max"]
    answers = [_run(case, request, hits) for case in request["cases"]]
    try:
        # A case may have taken a module out and imported it anew, from its file.
        check_served(served + probed)
    except NotServedError as error:
        return {"not_served": str(error)}
    told: dict[str, Any] = {"cases": answers, "hits": sorted(hits)}
    if request["tell_modules"]:
        told["modules"] = sorted(sys.modules)
        told["carried"] = carried
    return told


def mark_other_processes(hits: set[str]) -> None:
    """From now on a case that starts another process enters everything.

    What such a process enters is told to nobody.
    """

    def heard(event: str, _: tuple[Any, ...]) -> None:
        if event in _STARTS_A_PROCESS:
            hits.add(EVERYTHING)

    sys.addaudithook(heard)


def _run(case: dict[str, Any], request: dict[str, Any], hits: set[str]) -> dict[str, Any]:
    """One case: its `result`, or `overran`, or `raised` with what ended it.

    Where its oracle was kept, `oracle_hits` tells what that entered.
    """
    from capturegate.run.execute import run_case
    from capturegate.trace import Recorder

    name = f"{case['scenario']['name']}[{case['lane']}/{case['arm']}]"
    # On the captured standard error: the last line names the case that a crash happened in.
    print(f"case {name}", file=sys.stderr, flush=True)  # noqa: T201
    kept: KeptOracle | None = None
    if request["oracles"] and (request["probed"] or name in request["known"]):
        is_known = name in request["known"]
        kept = KeptOracle(Path(request["oracles"]), name, is_known=is_known, entered=hits)
    try:
        with _answering(case, request["predicates"]):
            result = run_case(case, kept)
    except BaseException as error:
        ended: dict[str, Any] = {"raised": _told(error)}
    else:
        ended = {"result": result.to_json()}
    if Recorder.overran:
        # Whatever the engine made of it: a case that was cut short proves nothing.
        Recorder.overran = False
        ended = {"overran": f"more than {Recorder.calls_max} calls on one backend"}
    told = {"oracle_hits": kept.hits} if kept is not None and kept.hits is not None else {}
    return {"case": name} | ended | told


@contextmanager
def _answering(case: Mapping[str, Any], predicates: list[dict[str, Any]]) -> Iterator[None]:
    """Let the flipped skip predicates of the case's adapter answer what the plan says."""
    flipped = {
        flip["predicate"]: flip["answers"]
        for flip in predicates
        if flip["lane"] in ("", case["lane"])
        if not flip["scenarios"] or case["scenario"]["name"] in flip["scenarios"]
    }
    if not flipped:
        yield
        return
    from capturegate.run.engines import load_adapter

    adapter: Any = load_adapter(case["scenario"]["engine"])
    before = adapter.predicates
    answers = {name: _constant(flipped[name]) for name in flipped.keys() & before.keys()}
    adapter.predicates = {**before, **answers}
    try:
        yield
    finally:
        adapter.predicates = before


def _constant(answer: bool) -> Any:
    return lambda: answer


def _told(error: BaseException) -> str:
    lines = traceback.format_exception(error)
    return "".join(lines)[-_TRACE_CHARS_MAX:].rstrip()
