"""The engine that makes known mistakes: at which step each begins to show."""

import pytest

from capturegate.backend import Backend
from capturegate_backends.fake.device import FakeDevice
from capturegate_reference.mistakes import MistakesAdapter

STEPS = [(1, 8), (1, 8), (2, 8), (2, 8), (1, 8), (2, 8), (2, 8), (1, 5), (1, 5), (1, 8)]


class Side:
    def __init__(self, mistake, oracle):
        self.backend = Backend(FakeDevice())
        self.adapter = MistakesAdapter(self.backend, {"mistake": mistake}, oracle=oracle)
        assert self.adapter.outputs() == ()

    def step(self, constant, rows):
        state = self.adapter.step(constant=constant, rows=rows)["state"]
        (output,) = self.adapter.outputs()
        return state, self.backend.harness_read(output.pointer, output.row_bytes)


@pytest.mark.parametrize(
    ("mistake", "wrong"),
    [
        ("none", []),
        # The other constant is on the device by then.
        ("skipped_upload", [5, 8, 9, 10]),
        # The first launch finds zeros, later ones the last sum.
        ("zeroed_once", [5, 6, 7, 8, 9, 10]),
        ("baked_position", [5, 6, 7, 8, 9, 10]),
        # The second graph's capture gives the first one its block back, and loses its own.
        ("recycled_source", [6, 7, 8, 9, 10]),
        # Right whenever the other constant came before, and the host wrote anew.
        ("overwritten_source", [7, 9, 10]),
        ("stale_lanes", [8, 9, 10]),
        ("warmed_up", [2, 3, 4, 5, 6, 7, 8, 9, 10]),
    ],
)
def test_a_mistake_captures_like_a_right_engine_and_is_wrong_later(mistake, wrong):
    subject, oracle = Side(mistake, oracle=False), Side(mistake, oracle=True)
    states, differing = [], []
    for number, (constant, rows) in enumerate(STEPS, 1):
        state, mine = subject.step(constant, rows)
        plain, theirs = oracle.step(constant, rows)
        states.append(state)
        assert plain == "cold"
        if mine != theirs:
            differing.append(number)
    assert states == ["cold", "capture"] * 2 + ["replay"] * 6
    assert wrong == differing
    for side in (subject, oracle):
        side.adapter.close()
        events = side.backend.trace().events
        assert not any(event.refused for event in events)
        made = [event.allocation for event in events if event.allocates]
        freed = [e.allocation for e in events if e.api in ("cudaFree", "cudaFreeHost")]
        assert sorted(made) == sorted(freed)
