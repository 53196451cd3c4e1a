"""The public conformance suite, over devices that conform and devices that do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from capturegate import testing
from capturegate.backend import Graph, Outcome, Pointer
from capturegate.errors import InputError
from capturegate.programs.interpreter import Runner
from capturegate.testing import check_legality, check_recordings
from capturegate_backends.conform.recorded import core_cases
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.truth.legality import LegalityRow, load_legality
from capturegate_backends.truth.recordings import RecordedCase


class Lying:
    """A device that says of every allocation that it succeeded."""

    def __init__(self) -> None:
        self._fake = FakeDevice()

    def malloc(self, nbytes: int) -> Outcome[Pointer]:
        made = self._fake.malloc(nbytes)
        return made if made.value else Outcome("cudaSuccess", Pointer(1 << 40, nbytes, 99))

    def free(self, pointer: Pointer) -> Outcome[None]:
        lied = pointer.address == 1 << 40
        return Outcome("cudaSuccess") if lied else self._fake.free(pointer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)


def rows(call: str) -> Iterator[LegalityRow]:
    return (r for r in load_legality().rows if r.call == call and r.rel == "origin")


def case(*program: list[Any]) -> RecordedCase:
    seen = Runner(FakeDevice()).run(program)
    return RecordedCase(name="mine", program=list(program), observation=seen)


def test_the_fake_conforms_to_the_core_of_the_recordings() -> None:
    found = check_recordings(FakeDevice, core_cases().values())
    assert found.conforms
    assert str(found) == f"{found.compared} of {found.compared} as recorded"
    assert found.compared > 100


def test_the_installed_recordings_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {case.name for case in testing._installed("programs")} >= core_cases().keys()
    monkeypatch.setattr(testing, "TRUTH", "capturegate.no_such_group")
    with pytest.raises(InputError, match="no recorded programs are installed"):
        check_recordings(FakeDevice)
    with pytest.raises(InputError, match="no recorded legality are installed"):
        check_legality(FakeDevice)


def test_a_device_that_never_refuses_memory_does_not_conform() -> None:
    refused = case(["begin", 0, "n1", "global"], ["malloc", 0, "m1", 64])
    found = check_recordings(Lying, [refused, case(["device_sync", 0])])  # type: ignore[arg-type]
    assert (found.conforms, found.compared) == (False, 2)
    only = found.mismatches[0]
    assert only.name == "mine, call 2 ['malloc', 0, 'm1', 64], error"
    assert (only.expected, only.actual) == ("cudaErrorStreamCaptureUnsupported", "cudaSuccess")
    assert str(found).startswith("1 of 2 as recorded\n  mine, call 2")


class ByReference:
    """A device that says it embeds graphs, and does not."""

    def __init__(self) -> None:
        self._fake = FakeDevice()

    def graph_add_child_graph_node(self, graph: Graph, _: Any, child: Graph) -> Outcome[int]:
        known = all(
            self._fake.graph_get_nodes(one).error == "cudaSuccess" for one in (graph, child)
        )
        return Outcome("cudaSuccess", 1) if known else Outcome("cudaErrorInvalidValue")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fake, name)


def test_the_recordings_hold_a_device_to_what_child_graphs_do() -> None:
    about = [
        case
        for case in testing._installed("programs")
        if case.name.startswith(("child/", "child-copied/", "child-update/", "child-several/"))
    ]
    assert len(about) > 600
    assert check_recordings(FakeDevice, about[::4]).conforms
    found = check_recordings(ByReference, about[::40])  # type: ignore[arg-type]
    assert len(found.mismatches) > found.compared // 2


def test_a_row_that_comes_out_otherwise_is_told() -> None:
    found = check_legality(Lying, rows("cudaMalloc"))  # type: ignore[arg-type]
    assert found.compared == 6
    assert [m.name for m in found.mismatches] == [
        f"cudaMalloc from origin, {mode} capture of a {cap} stream"
        for cap in ("blocking", "nonblocking")
        for mode in ("global", "thread_local")
    ]


def test_nothing_compared_does_not_conform() -> None:
    assert not check_recordings(FakeDevice, []).conforms
    assert not check_legality(FakeDevice, []).conforms
