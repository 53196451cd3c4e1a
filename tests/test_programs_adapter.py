"""Programs as an engine: lines, facts, looking, and the run without graphs."""

from __future__ import annotations

from typing import Any

import pytest

from capturegate.adapter import Facts
from capturegate.backend import Backend
from capturegate.errors import InputError
from capturegate.programs.adapter import ProgramAdapter
from capturegate.programs.eager import Eager
from capturegate.programs.lines import parse_line
from capturegate_backends.fake.device import FakeDevice

UNSUPPORTED = "cudaErrorStreamCaptureUnsupported"
GRAPH = ["begin 0 n1 thread_local", "launch 0 move d1 1 n1", "end 0 n1 g1", "instantiate 0 g1 x1"]


def engine(*, oracle: bool = False, **config: Any) -> tuple[ProgramAdapter, Backend]:
    backend = Backend(FakeDevice())
    defaults = {name: default for name, (_, default) in ProgramAdapter.config_keys.items()}
    return ProgramAdapter(backend, defaults | config, oracle=oracle), backend


def told(facts: Facts, *names: str) -> list[object]:
    return [facts[name] for name in names]


def test_a_line_is_a_call_and_its_recorded_answer() -> None:
    line = parse_line("memcpy_batch 0 d1 d3 n1 -> cudaErrorStreamCaptureUnsupported")
    assert line.call == ["memcpy_batch", 0, "d1", "d3", "n1"]
    assert line.error == "cudaErrorStreamCaptureUnsupported"
    assert parse_line("device_sync 2").error == "cudaSuccess"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (5, "5 is no line of a program"),
        ("", "unknown call"),
        ("frobnicate 0", "unknown call"),
        ("begin 0 n1 sideways", "'sideways' is no mode"),
        ("begin 9 n1 global", "9 is no thread"),
        ("malloc 0 m1", "malloc with 1 arguments"),
        ("device_sync 0 ->", "does not say what is answered"),
        ("device_sync 0 -> one two", "does not say what is answered"),
    ],
)
def test_what_is_no_line_is_the_users_mistake(text: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_line(text)


def test_facts_say_what_was_made_what_was_absent_and_what_surprised() -> None:
    program, _ = engine()
    facts = program.calls(
        [
            "begin 0 n1 thread_local",
            "malloc 0 m1 64",
            "launch 0 mix d2 1 n1 -> cudaErrorStreamCaptureInvalidated",
            "end 0 n1 g1 -> cudaErrorStreamCaptureInvalidated",
            "instantiate 0 g1 x1 -> absent",
        ]
    )
    assert told(facts, "made", "absent", "unexpected", "last") == [4, 1, 1, "absent"]
    assert facts["surprise"] == f"malloc {UNSUPPORTED}"
    program.close()


def test_steps_share_names_and_blocks_say_whether_they_changed() -> None:
    program, backend = engine()
    assert "d1" not in program.calls(GRAPH[:2])
    assert told(program.calls(GRAPH[2:]), "d1", "d2") == ["kept", "kept"]
    assert told(program.calls(["graph_launch 0 x1 n1"]), "d1", "d2") == ["changed", "kept"]
    program.close()
    made = {e.api for e in backend.recorder.since(0)}
    assert {"cudaGraphDestroy", "cudaGraphExecDestroy"} <= made


@pytest.mark.parametrize(("looks", "unlooked"), [(True, 0), (False, 1)])
def test_a_program_looks_at_codes_or_does_not(looks: bool, unlooked: int) -> None:
    program, backend = engine(looks=looks)
    program.calls(["begin 0 n1 thread_local", "memcpy_batch 0 d1 d2 n1", "end 0 n1 g1"])
    assert len(backend.trace().unlooked) == unlooked
    program.close()


def test_calls_of_other_threads_are_theirs_in_the_trace() -> None:
    program, backend = engine()
    program.calls(["device_sync 0", "device_sync 1", "device_sync 0"])
    syncs = [e.thread for e in backend.recorder.since(0) if e.api == "cudaDeviceSynchronize"]
    assert syncs == [0, 1, 0]
    program.close()


def test_the_oracle_runs_the_recorded_work_and_never_captures() -> None:
    subject, _ = engine(output="d1")
    oracle, backend = engine(output="d1", oracle=True)
    for program in (subject, oracle):
        program.calls(GRAPH)
        assert program.outputs() == ()
        program.calls(["launch 0 add d4 5 n1", "graph_launch 0 x1 n1"])
    mine, theirs = (p._backend.harness_read(p.outputs()[0].pointer, 64) for p in (subject, oracle))
    assert mine == theirs
    assert {e.api for e in backend.recorder.since(0)} & {"cudaStreamBeginCapture"} == set()


def test_what_escapes_a_capture_runs_at_every_launch_of_the_oracle() -> None:
    eager = Eager()
    now = [line for text in GRAPH for line in eager.due(parse_line(text))]
    assert now == []
    due = eager.due(parse_line("graph_launch 0 x1 n1"))
    assert [line.call[0] for line in due] == ["launch"]
    assert eager.due(parse_line("device_sync 0"))[0].call == ["device_sync", 0]


def test_the_oracle_runs_a_child_graphs_calls_after_those_of_the_graph_that_embeds_it() -> None:
    eager = Eager()
    child = ["begin 0 n1 relaxed", "memset_async 0 d1 1 n1", "end 0 n1 g2"]
    added = ["add_child 0 g1 g2 leaves", "instantiate 0 g1 x2"]
    for text in (*GRAPH, *child, *added):
        assert eager.due(parse_line(text)) == []
    due = eager.due(parse_line("graph_launch 0 x2 n1"))
    assert [line.call[0] for line in due] == ["launch", "memset_async"]
    assert len(eager.due(parse_line("graph_launch 0 x1 n1"))) == 1


def test_an_output_that_is_no_block_is_refused() -> None:
    with pytest.raises(InputError, match="'d9' is no block"):
        engine(output="d9")
