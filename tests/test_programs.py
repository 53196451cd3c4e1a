"""Call programs: the format, the interpreter, the generator, the shrinker."""

from __future__ import annotations

import itertools

import pytest

from capturegate.backend import GraphNode
from capturegate.errors import InputError
from capturegate.programs import (
    OPS,
    Observation,
    Runner,
    check_program,
    first_difference,
    generate,
    run_program,
    shrink,
)
from capturegate.programs.observation import graph_form
from capturegate.programs.structures import structures
from capturegate.programs.sweeps import beside_captures
from capturegate_backends.fake.device import FakeDevice

CAPTURED = [
    ["begin", 0, "n1", "thread_local"],
    ["launch", 0, "add", "d1", 1, "n1"],
    ["record", 0, "e1", "n1", 0],
    ["wait", 0, "b1", "e1", 0],
    ["launch", 0, "mix", "d2", 2, "b1"],
    ["record", 0, "e2", "b1", 0],
    ["wait", 0, "n1", "e2", 0],
    ["host_func", 0, 3, "n1"],
    ["end", 0, "n1", "g1"],
    ["instantiate", 0, "g1", "x1"],
    ["graph_launch", 0, "x1", "b2"],
]


@pytest.fixture(scope="module")
def runner() -> Runner:
    return Runner(FakeDevice())


def test_a_program_shows_statuses_shared_captures_the_graph_and_its_results(
    runner: Runner,
) -> None:
    seen = runner.run(CAPTURED)
    assert seen.calls[3].captures == {"n1": "A1", "b1": "A1"}
    assert seen.calls[8].value == [
        3,
        [["host", 1], ["kernel", 1], ["kernel", 1]],
        [[1, 0, 1], [1, 2, 1], [2, 0, 1]],
    ]
    assert seen.calls[8].captures == {}
    assert {call.error for call in seen.calls} == {"cudaSuccess"}
    assert seen.host == (3,)
    assert seen.blocks is not None
    assert sorted(seen.blocks) == ["d1", "d2"]


def test_a_refusal_shows_its_error_the_poison_and_the_last_error(runner: Runner) -> None:
    seen = runner.run([["begin", 0, "n1", "global"], ["malloc", 0, "m1", 64]])
    refused = seen.calls[1]
    assert refused.error == "cudaErrorStreamCaptureUnsupported"
    assert refused.last == "cudaErrorStreamCaptureUnsupported"
    assert refused.captures == {"n1": "I"}


def test_threads_have_their_own_mode_and_their_own_default_stream(runner: Runner) -> None:
    seen = runner.run(
        [
            ["begin", 0, "own", "global"],
            ["exchange", 1, "relaxed"],
            ["malloc", 1, "m1", 64],
            ["begin", 1, "own", "relaxed"],
        ]
    )
    assert seen.calls[2].error == "cudaSuccess"
    assert seen.calls[3].captures == {"own0": "A1", "own1": "A2"}


def test_calls_about_things_that_do_not_exist_are_not_made(runner: Runner) -> None:
    seen = runner.run([["graph_launch", 0, "x1", "n1"], ["free", 0, "m1"]])
    assert [call.error for call in seen.calls] == ["absent", "absent"]


def test_nothing_of_a_program_is_left_for_the_next(runner: Runner) -> None:
    dirty = [
        ["exchange", 1, "relaxed"],
        ["begin", 0, "n1", "global"],
        ["memset_async", 0, "d1", 9, "n2"],
        ["host_register", 1, "r1"],
        ["malloc", 0, "m1", 64],
    ]
    alone = Runner(FakeDevice()).run(CAPTURED)
    runner.run(dirty)
    assert first_difference(alone, runner.run(CAPTURED)) is None
    assert runner.run([["exchange", 1, "global"]]).calls[0].value == "global"


def test_a_graph_that_races_with_itself_has_no_bytes_to_compare(runner: Runner) -> None:
    racing = [list(call) for call in CAPTURED]
    racing[4] = ["launch", 0, "mix", "d1", 2, "b1"]
    assert runner.run(racing).blocks is None
    racing[4] = ["launch", 0, "add", "d1", 2, "b1"]
    assert runner.run(racing).blocks is not None


def test_a_race_is_seen_under_a_graphs_second_name_too(runner: Runner) -> None:
    grown = [
        ["begin", 0, "n1", "relaxed"],
        ["launch", 0, "mix", "d1", 2, "n1"],
        ["end", 0, "n1", "g1"],
        ["begin_to_graph", 0, "n1", "g1", "none", "relaxed"],
        ["memset_async", 0, "d1", 7, "n1"],
        ["end", 0, "n1", "g2"],
        ["instantiate", 0, "g1", "x1"],
        ["graph_launch", 0, "x1", "n2"],
    ]
    assert runner.run(grown).blocks is None


def test_an_observation_survives_being_written_down(runner: Runner) -> None:
    seen = runner.run(CAPTURED)
    again = Observation.from_data(seen.as_data())
    assert first_difference(seen, again) is None
    assert again == seen


def test_the_first_difference_names_the_call_and_the_field(runner: Runner) -> None:
    one = runner.run([["set_device", 0], ["begin", 0, "n1", "global"]])
    other = runner.run([["set_device", 0], ["begin", 0, "legacy", "global"]])
    assert first_difference(one, other) == (1, "error")


def _chain(first: int) -> list[GraphNode]:
    return [GraphNode(first, "kernel"), GraphNode(first + 1, "memset", dependencies=(first,))]


def test_the_form_of_a_graph_does_not_depend_on_order_or_numbers() -> None:
    forms = {str(graph_form(order)) for order in itertools.permutations([*_chain(1), *_chain(7)])}
    assert forms == {"[4, [['kernel', 2], ['memset', 2]], [[0, 1, 2]]]"}


def test_the_form_of_a_graph_tells_edges_apart() -> None:
    fan = [
        GraphNode(1, "kernel"),
        GraphNode(2, "memset", dependencies=(1,)),
        GraphNode(3, "memset", dependencies=(1,)),
    ]
    chain = [
        GraphNode(1, "kernel"),
        GraphNode(2, "memset", dependencies=(1,)),
        GraphNode(3, "memset", dependencies=(2,)),
    ]
    assert graph_form(fan) != graph_form(chain)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (["dance", 0], "call 1: unknown call ['dance', 0]"),
        (["begin"], "call 1: unknown call ['begin']"),
        (["begin", 9, "n1", "global"], "call 1: 9 is no thread"),
        (["begin", 0, "n1"], "call 1: begin with 1 arguments"),
        (["begin", 0, "n7", "global"], "call 1: 'n7' is no stream"),
        (["begin", 0, "n1", "strict"], "call 1: 'strict' is no mode"),
        (["memset", 0, "d1", "x"], "call 1: 'x' is no int"),
        (["launch", 0, "add", "h1", 1, "n1"], "call 1: 'h1' is no reachable"),
    ],
)
def test_a_bad_program_is_refused_with_the_call_that_is_bad(
    call: list[object], problem: str
) -> None:
    with pytest.raises(InputError) as caught:
        run_program([call], FakeDevice())
    assert str(caught.value).splitlines()[0] == problem


def test_generated_programs_are_programs_of_eight_calls_or_more_and_the_same_for_a_seed() -> None:
    programs = [generate(seed) for seed in range(300)]
    for program in programs:
        check_program(program)
    assert min(len(program) for program in programs) >= 8
    assert generate(17) == programs[17]
    assert generate(18) != programs[17]


def test_generated_programs_use_every_call_of_the_interface() -> None:
    used = {call[0] for seed in range(3000) for call in generate(seed)}
    assert set(OPS) == used


def test_a_fifth_of_the_generated_programs_closes_a_capture_of_three_nodes(runner: Runner) -> None:
    closing = 0
    for seed in range(400):
        program = generate(seed)
        seen = runner.run(program)
        closing += any(
            call[0] == "end" and one.value and one.value[0] >= 3
            for call, one in zip(program, seen.calls, strict=True)
        )
    assert closing >= 80


def test_the_sweeps_are_ten_times_as_wide_as_the_handed_table() -> None:
    named = [*beside_captures(), *structures()]
    for _, program in named:
        check_program(program)
    assert len({name for name, _ in named}) == len(named)
    assert len(named) >= 15120


EMBEDDED = [
    *CAPTURED[:9],
    ["graph_create", 0, "g2"],
    ["add_child", 0, "g2", "g1", "none"],
    ["add_child", 0, "g2", "g1", "leaves"],
    ["nodes", 0, "g2"],
]


def test_a_child_graph_shows_the_form_of_what_it_embeds(runner: Runner) -> None:
    seen = runner.run(EMBEDDED)
    inner = '[3,[["host",1],["kernel",1],["kernel",1]],[[1,0,1],[1,2,1],[2,0,1]]]'
    assert seen.calls[12].value == [2, [[f"graph {inner}", 1]] * 2, [[0, 1, 1]]]
    grown = [["begin_to_graph", 0, "n1", "g2", "leaves", "relaxed"], ["end", 0, "n1", "g3"]]
    assert runner.run([*EMBEDDED, *grown]).calls[14].value == seen.calls[12].value


def test_a_refused_end_shows_whether_the_capture_is_over(runner: Runner) -> None:
    begun = CAPTURED[:4]
    unmatched = runner.run([*begun, ["end", 0, "b1", "g1"]]).calls[4]
    assert (unmatched.error, unmatched.value) == ("cudaErrorStreamCaptureUnmatched", None)
    poisoned = runner.run([*begun, ["device_sync", 0], ["end", 0, "n1", "g1"]]).calls[5]
    assert (poisoned.error, poisoned.value) == ("cudaErrorStreamCaptureInvalidated", [0, "over"])


@pytest.mark.parametrize(
    ("program", "index"),
    [
        ([*EMBEDDED, ["add_child", 0, "g2", "g2", "none"]], 13),
        ([["begin", 0, "n1", "relaxed"], ["memset_async", 0, "h1", 1, "n1"]], 1),
        ([["stream_create", 0, "t1", "blocking"]] * 2, 1),
    ],
)
def test_what_cuda_does_not_define_is_not_called(
    runner: Runner, program: list[list[object]], index: int
) -> None:
    seen = runner.run(program)
    assert (seen.calls[index - 1].error, seen.calls[index].error) == ("cudaSuccess", "absent")


def test_a_child_graph_races_with_what_stands_beside_it_and_not_with_what_it_follows(
    runner: Runner,
) -> None:
    for which, compared in (("none", False), ("leaves", True)):
        beside = [
            ["begin", 0, "n1", "relaxed"],
            ["launch", 0, "mix", "d1", 2, "n1"],
            ["end", 0, "n1", "g1"],
            ["add_child", 0, "g1", "g2", which],
            ["instantiate", 0, "g1", "x1"],
            ["graph_launch", 0, "x1", "n2"],
        ]
        child = [
            ["begin", 0, "n1", "relaxed"],
            ["memset_async", 0, "d1", 2, "n1"],
            ["end", 0, "n1", "g2"],
        ]
        assert (runner.run([*child, *beside]).blocks is not None) is compared
    racing = [list(call) for call in CAPTURED[:9]]
    racing[4] = ["launch", 0, "mix", "d1", 2, "b1"]
    embedded = [
        *racing,
        ["graph_create", 0, "g2"],
        ["add_child", 0, "g2", "g1", "leaves"],
        ["instantiate", 0, "g2", "x1"],
        ["graph_launch", 0, "x1", "n2"],
    ]
    assert runner.run(embedded).blocks is None


class _Counting:
    """A fake that counts how often somebody waits for it."""

    def __init__(self) -> None:
        self._fake = FakeDevice()
        self.waits = 0

    def device_synchronize(self) -> object:
        self.waits += 1
        return self._fake.device_synchronize()

    def __getattr__(self, name: str) -> object:
        return getattr(self._fake, name)


def test_work_is_done_before_a_call_reads_pageable_memory_that_it_may_write() -> None:
    waits = []
    for source in ("p1", "h1"):
        device = _Counting()
        run_program(
            [["memset_async", 0, "d1", 1, "n1"], ["memcpy_async", 0, "d2", source, "n1"]],
            device,  # type: ignore[arg-type]
        )
        waits.append(device.waits)
    assert waits[1] == waits[0] + 1


def test_shrinking_keeps_just_the_calls_that_matter() -> None:
    program = [["set_device", 0] for _ in range(9)]
    program[2] = ["begin", 0, "n1", "global"]
    program[7] = ["malloc", 0, "m1", 64]

    def poisons(calls: list[list[object]]) -> bool:
        seen = run_program(calls, FakeDevice())
        return any("I" in one.captures.values() for one in seen.calls)

    assert shrink(program, poisons) == [["begin", 0, "n1", "global"], ["malloc", 0, "m1", 64]]
