"""The real backend: what it says without a driver, its books, and on a GPU its truth."""

from __future__ import annotations

import sys

import pytest

from capturegate.backend import CaptureMode, Space, StreamKind
from capturegate.errors import InputError
from capturegate.programs.kernels import ADD, MOVE
from capturegate_backends.cupy.binding import load
from capturegate_backends.cupy.device import CupyDevice
from capturegate_backends.cupy.kernels import KernelError, Packed
from capturegate_backends.cupy.ledger import Memory, place


def _has_gpu() -> bool:
    try:
        load()
    except InputError:
        return False
    return True


needs_gpu = pytest.mark.skipif(not _has_gpu(), reason="no CUDA driver, device or cuda-python")


def test_without_cuda_python_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name == "cuda" or name.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(InputError) as caught:
        CupyDevice()
    assert caught.value.problem.startswith(
        "the cupy backend needs cuda-python, which is not installed"
    )
    assert "pip install 'capturegate[cuda13]'" in str(caught.value)


def test_an_address_that_comes_again_is_another_allocation() -> None:
    memory = Memory()
    first = memory.add(4096, 256, Space.DEVICE)
    baked = (place(first.at(64, 32), 32),)
    memory.drop(4096)
    assert memory.resolve(baked) == ((0, 64, 32),)
    again = memory.add(4096, 256, Space.DEVICE)
    assert again.allocation != first.allocation
    assert memory.resolve(baked) == ((again.allocation, 64, 32),)
    assert memory.span(first, 8) == (again.allocation, 0, 8)


def test_arguments_that_do_not_fit_the_parameters_are_refused() -> None:
    memory = Memory()
    block = memory.add(4096, 64, Space.DEVICE).array((16,), "int32")
    with pytest.raises(KernelError, match="program_add takes 2 arguments, not 1"):
        Packed(2).fill(ADD, [block])


@pytest.mark.gpu
@needs_gpu
def test_a_node_tells_what_it_baked_and_a_launch_what_it_touches_now() -> None:
    device = CupyDevice()
    x, y = device.malloc(256).value, device.malloc(256).value
    stream = device.stream_create(StreamKind.NON_BLOCKING).value
    assert x is not None
    assert y is not None
    assert stream is not None
    device.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    args = [y.at(64).array((16,), "int32"), x.array((16,), "int32"), 7]
    recorded = device.launch_kernel(MOVE, (1, 1, 1), (16, 1, 1), args, stream)
    graph = device.stream_end_capture(stream).value
    assert graph is not None
    (node,) = device.graph_get_nodes(graph).value or ()
    assert recorded.node == node.id
    assert (node.kind, node.name) == ("kernel", "program_move")
    assert node.reads == ((x.allocation, 0, 64),)
    assert node.writes == ((y.allocation, 64, 64),)
    executable = device.graph_instantiate(graph).value
    assert executable is not None
    launched = device.graph_launch(executable, stream)
    assert launched.writes == ((y.allocation, 64, 64),)
    device.close()


@pytest.mark.gpu
@needs_gpu
def test_a_child_graph_is_walked_on_the_device_and_touches_what_it_baked() -> None:
    device = CupyDevice()
    x = device.malloc(256).value
    stream = device.stream_create(StreamKind.NON_BLOCKING).value
    assert x is not None
    assert stream is not None
    device.stream_begin_capture(stream, CaptureMode.THREAD_LOCAL)
    device.launch_kernel(ADD, (1, 1, 1), (16, 1, 1), [x.array((16,), "int32"), 7], stream)
    child, parent = device.stream_end_capture(stream).value, device.graph_create().value
    assert child is not None
    assert parent is not None
    added = device.graph_add_child_graph_node(parent, [], child)
    device.graph_destroy(child)
    (node,) = device.graph_get_nodes(parent).value or ()
    assert (node.id, node.kind, node.writes) == (added.value, "graph", ((x.allocation, 0, 64),))
    assert [(inner.kind, inner.name) for inner in node.inner] == [("kernel", "program_add")]
    executable = device.graph_instantiate(parent).value
    assert executable is not None
    assert device.graph_launch(executable, stream).writes == ((x.allocation, 0, 64),)
    device.close()


@pytest.mark.gpu
@needs_gpu
def test_a_host_function_runs_again_at_each_replay() -> None:
    device = CupyDevice()
    stream = device.stream_create(StreamKind.BLOCKING).value
    assert stream is not None
    ran: list[int] = []
    device.stream_begin_capture(stream, CaptureMode.RELAXED)
    device.launch_host_func(lambda: ran.append(1), stream)
    graph = device.stream_end_capture(stream).value
    assert graph is not None
    executable = device.graph_instantiate(graph).value
    assert executable is not None
    for _ in range(3):
        device.graph_launch(executable, stream)
    device.stream_synchronize(stream)
    assert ran == [1, 1, 1]
    device.close()


@pytest.mark.gpu
@needs_gpu
def test_the_device_answers_as_recorded() -> None:
    from capturegate_backends.conform.compare import compare_with
    from capturegate_backends.truth.recordings import read_recording, shipped

    cases = [case for path in shipped() for case in read_recording(path).cases]
    result = compare_with("cupy", cases[::50])
    assert result.cases > 300
    assert not result.kinds
