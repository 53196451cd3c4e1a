"""Events, windows and call sites."""

import pytest

from capturegate.backend import CudaError, Outcome
from capturegate.sites import SiteTable
from capturegate.trace import CAPABILITIES, Recorder

OK = Outcome("cudaSuccess")
UNSUPPORTED = Outcome("cudaErrorStreamCaptureUnsupported")


def begin(recorder, capture=1, stream=2):
    outcome = Outcome("cudaSuccess", capture=capture)
    recorder.call("cudaStreamBeginCapture", outcome, stream, detail={"mode": "global"})


def end(recorder, capture=1, stream=2):
    outcome = Outcome("cudaSuccess", capture=capture)
    recorder.call("cudaStreamEndCapture", outcome, stream, detail={"nodes": 1})


def story(*calls):
    """A trace of calls: api, capture, graph, and for an end how many nodes the graph then has."""
    recorder = Recorder()
    for number, (api, capture, graph, nodes) in enumerate(calls, 1):
        node = number if api in ("cudaLaunchKernel", "cudaGraphAddChildGraphNode") else 0
        detail = {"nodes": nodes}
        outcome = Outcome("cudaSuccess", capture=capture, node=node)
        recorder.call(api, outcome, capture, handle=graph, detail=detail)
    return recorder.trace(CAPABILITIES)


def into(capture, graph=9):
    return "cudaStreamBeginCaptureToGraph", capture, graph, None


def kernel(capture):
    return "cudaLaunchKernel", capture, 0, None


def child(graph=9):
    return "cudaGraphAddChildGraphNode", 0, graph, None


def ended(capture, nodes, graph=9):
    return "cudaStreamEndCapture", capture, graph, nodes


def in_thread(work):
    import threading

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_events_keep_their_order_and_their_step():
    recorder = Recorder()
    recorder.phase = "1:cold"
    recorder.call("cudaMalloc", OK, nbytes=64, address=512, allocation=3)
    recorder.phase = "2:drain"
    recorder.note("pool.drain", {"freed_bytes": 64})
    trace = recorder.trace(CAPABILITIES)
    assert [(e.seq, e.api, e.phase, e.nbytes) for e in trace.events] == [
        (0, "cudaMalloc", "1:cold", 64),
        (1, "pool.drain", "2:drain", 0),
    ]


def test_a_call_of_the_capturing_thread_is_inside_and_a_siblings_is_beside():
    recorder = Recorder()
    begin(recorder)
    recorder.call("cudaMalloc", OK)
    in_thread(lambda: recorder.call("cudaMallocHost", OK))
    end(recorder)
    trace = recorder.trace(CAPABILITIES)
    (window,) = trace.windows
    assert [e.api for e in trace.events if window.inside(e)] == ["cudaMalloc"]
    assert [e.api for e in trace.events if window.beside(e)] == ["cudaMallocHost"]


def test_a_siblings_call_on_a_stream_of_the_capture_is_inside():
    recorder = Recorder()
    begin(recorder)
    in_thread(lambda: recorder.call("cudaLaunchKernel", Outcome("cudaSuccess", capture=1), 3))
    end(recorder)
    trace = recorder.trace(CAPABILITIES)
    assert [e.api for e in trace.inside(trace.windows[0])] == ["cudaLaunchKernel"]


def test_two_captures_at_once_are_two_windows():
    recorder = Recorder()
    begin(recorder, capture=1, stream=2)
    begin(recorder, capture=2, stream=3)
    end(recorder, capture=2, stream=3)
    end(recorder, capture=1, stream=2)
    windows = recorder.trace(CAPABILITIES).windows
    assert [(w.capture, w.begin, w.end) for w in windows] == [(1, 0, 3), (2, 1, 2)]


@pytest.mark.parametrize(
    ("calls", "nodes"),
    [
        ([child(), into(1), ended(1, 1)], [0]),
        ([into(1), child(), ended(1, 1)], [0]),
        ([into(1), kernel(1), child(), ended(1, 2), into(2), kernel(2), ended(2, 3)], [1, 1]),
        ([into(1), child(8), kernel(1), ended(1, 1)], [1]),
        ([into(1), kernel(1), ended(1, 1), child(), into(2), ended(2, 2)], [1, 0]),
    ],
    ids=["before", "in a window", "in a window, then another", "elsewhere", "between two"],
)
def test_a_child_graph_is_no_node_of_a_window(calls, nodes):
    assert nodes == [window.nodes for window in story(*calls).windows]


@pytest.mark.parametrize(
    ("calls", "nodes"),
    [
        ([into(1), into(2), kernel(2), kernel(1), ended(2, 2), ended(1, 2)], [1, 1]),
        ([into(1), into(2), kernel(1), kernel(1), ended(1, 2), ended(2, 2)], [2, 0]),
        ([into(1), into(2), kernel(1), ended(2, 1), kernel(1), ended(1, 2)], [2, 0]),
        ([into(1), into(2, 8), kernel(1), kernel(2), ended(2, 1, 8), ended(1, 1)], [1, 1]),
        ([into(1), into(2), kernel(2), ended(2, 1), into(3), kernel(1), ended(3, 2)], [None, 1, 0]),
    ],
    ids=["one each", "none of the other", "ended first", "other graphs", "one left open"],
)
def test_captures_into_one_graph_at_once_count_their_own_nodes(calls, nodes):
    assert nodes == [window.nodes for window in story(*calls).windows]


def test_a_refused_child_graph_takes_nothing_from_a_window():
    recorder = Recorder()
    recorder.call("cudaGraphAddChildGraphNode", Outcome("cudaErrorInvalidValue"), handle=9)
    begun = Outcome("cudaSuccess", capture=1)
    recorder.call("cudaStreamBeginCaptureToGraph", begun, 2, handle=9)
    recorder.call("cudaStreamEndCapture", begun, 2, handle=9, detail={"nodes": 1})
    assert [1] == [window.nodes for window in recorder.trace(CAPABILITIES).windows]


def test_a_refused_begin_opens_no_window():
    recorder = Recorder()
    recorder.call("cudaStreamBeginCapture", UNSUPPORTED, 2, detail={"mode": "global"})
    assert recorder.trace(CAPABILITIES).windows == []


def test_a_refusal_that_nobody_looks_at_is_evidence():
    recorder = Recorder()
    recorder.call("cudaMalloc", UNSUPPORTED)
    looked = recorder.call("cudaFree", UNSUPPORTED)
    assert not looked.ok
    assert recorder.trace(CAPABILITIES).unlooked == frozenset({0})


def test_unwrapping_a_refusal_raises_cudas_own_names():
    with pytest.raises(CudaError) as caught:
        Recorder().call("cudaMalloc", UNSUPPORTED).unwrap()
    assert (caught.value.api, caught.value.error) == (
        "cudaMalloc",
        "cudaErrorStreamCaptureUnsupported",
    )


def test_a_refusal_keeps_its_whole_stack_and_an_ordinary_call_its_caller():
    recorder = Recorder()

    def inner():
        recorder.call("cudaLaunchKernel", OK)
        recorder.call("cudaLaunchKernel", UNSUPPORTED)

    inner()
    trace = recorder.trace(CAPABILITIES)
    ordinary, refused = (trace.stack(event) for event in trace.events)
    assert len(ordinary) == 1
    assert len(refused) > 1
    assert ordinary[0].function.endswith("<locals>.inner")
    assert refused[0].line == ordinary[0].line + 1


def test_the_same_site_is_stored_once():
    table = SiteTable(frozenset())
    assert len({table.take(8) for _ in range(100)}) == 1


def test_a_site_never_has_more_than_the_frames_asked_for():
    table = SiteTable(frozenset())
    assert len(table.resolve(table.take(3))) == 3


def test_the_harness_marks_what_it_does_itself():
    recorder = Recorder()
    with recorder.as_harness():
        recorder.call("harness.write", OK)
    recorder.call("cudaMalloc", OK)
    assert [e.actor for e in recorder.trace(CAPABILITIES).events] == ["harness", "engine"]


def test_events_of_some_kinds_come_in_the_order_of_the_trace():
    recorder = Recorder()
    for api in ("cudaFree", "cudaMalloc", "cudaFree", "cudaMemset", "cudaMalloc"):
        recorder.call(api, OK)
    trace = recorder.trace(CAPABILITIES)
    kinds = ["cudaMalloc", "cudaFree", "cudaMemcpy"]
    assert [(e.seq, e.api) for e in trace.of(kinds)] == [
        (0, "cudaFree"),
        (1, "cudaMalloc"),
        (2, "cudaFree"),
        (4, "cudaMalloc"),
    ]


def test_events_that_were_read_before_do_not_change_what_comes_later():
    recorder = Recorder()
    recorder.call("cudaMalloc", OK)
    assert [e.api for e in recorder.since(0)] == ["cudaMalloc"]
    recorder.call("cudaFree", OK)
    assert [e.api for e in recorder.since(1)] == ["cudaFree"]
    assert [e.api for e in recorder.since(0)] == ["cudaMalloc", "cudaFree"]
    assert [e.api for e in recorder.trace(CAPABILITIES).events] == ["cudaMalloc", "cudaFree"]
