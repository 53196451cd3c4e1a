"""A mutant takes the oracle of the baseline where nothing that it touches was entered by one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from capturegate.adapter import Output
from capturegate.backend import Pointer, Space
from capturegate.errors import Location
from capturegate.run.drive import Snapshot
from capturegate.run.oracle import OracleRun
from capturegate_mutations.child import EVERYTHING
from capturegate_mutations.oracles import KeptOracle
from capturegate_mutations.plan import ScenarioFlip
from capturegate_mutations.reach import oracles_known
from capturegate_mutations.session import Request, Session
from mutation_toys import ADAPTER, PLAIN, expecting, replacing, write_toy

CASE = "toy[plain/default]"
POINTER = Pointer(address=64, nbytes=8, allocation=3, space=Space.DEVICE)
OUTPUT = Output(name="out", pointer=POINTER, row_bytes=8, rows=1, rows_padded=1, dtype="uint8")
RUN = OracleRun(
    snapshots=(Snapshot(phase="1:step", output=OUTPUT, data=bytes(8), poisoned=False),),
    error="it replayed in step 1:step",
)


def test_an_oracle_that_was_kept_is_known_as_it_was(tmp_path):
    entered = {"m:f"}
    kept = KeptOracle(tmp_path, CASE, is_known=False, entered=entered)
    assert (None, None) == (kept.known(), kept.hits)
    kept.keep(RUN)
    entered.add("m:g")

    assert ["m:f"] == kept.hits
    assert RUN == KeptOracle(tmp_path, CASE, is_known=True, entered=set()).known()


def known(touched, *, entered, later=(), module="toy_core", flips=()):
    """The cases whose oracle is known under a mutant of one module that touches these keys."""
    plan = SimpleNamespace(flips=flips, modules=frozenset({module}))
    hits = {CASE: frozenset({*entered, *later})}
    return oracles_known(
        plan, SimpleNamespace(touched=frozenset(touched)), hits, {CASE: frozenset(entered)}
    )


def test_an_oracle_is_known_where_it_entered_nothing_that_is_touched():
    assert {CASE} == known({"m:g"}, entered={"m:f"}, later={"m:g"})
    assert {CASE} == known({"m:g"}, entered=set(), later={"m:g"})
    assert set() == known({"m:f"}, entered={"m:f"})
    assert set() == known({"m:", "m:g"}, entered={"m:"})


def test_an_oracle_is_not_known_where_anything_may_have_been_entered():
    assert set() == known({"m:g"}, entered={"m:f"}, later={EVERYTHING})
    assert set() == known({"m:g"}, entered={"m:f"}, module="capturegate.run.drive")
    flip = ScenarioFlip(scenario="toy", action="remove_step", where=Location("toy"))
    assert set() == known({"m:g"}, entered={"m:f"}, flips=(flip,))


@pytest.fixture
def oracles(tmp_path, monkeypatch):
    """How often an oracle is built in a whole run of one plan, with and without what is known."""
    monkeypatch.syspath_prepend(str(tmp_path))
    log = tmp_path / "oracles.txt"
    adapter = ADAPTER.replace(
        "        import toy_core\n        self._core",
        "        import toy_core\n"
        "        self._oracle = oracle\n"
        "        if oracle:\n"
        f"            open({str(log)!r}, 'a').write('built ')\n"
        "        self._core",
    ).replace("self._core.capture()", "self._oracle or self._core.capture()")
    assert adapter.count("self._oracle") == 2

    def count(plan):
        write_toy(tmp_path, {"one": plan}, toy_adapter=adapter)
        counts = []
        for all_cases in (False, True):
            log.write_text("")
            request = Request(
                plans=(tmp_path / "plans",),
                scenarios=(tmp_path / "toy.scenario.yaml",),
                all_cases=all_cases,
            )
            [row] = Session(request=request).run().rows
            assert "proved" == row.proof.value, row.reason
            counts.append(log.read_text().count("built"))
        return counts

    return count


def test_a_flip_that_no_oracle_enters_runs_none(oracles):
    end = (
        "graph = self.backend.stream_end_capture(self.stream)\n"
        "        self.backend.graph_destroy(graph)"
    )
    plan = replacing(end, "pass", expecting(PLAIN, capture_completes="broken"))
    with_known, without = oracles(plan.replace("Core.total", "Core.capture"))

    assert 1 == without - with_known


def test_a_flip_that_an_oracle_enters_runs_it(oracles):
    failed = expecting(PLAIN, work__total="failed")
    with_known, without = oracles(replacing("self.base + amount", "self.base - amount", failed))

    assert 0 == without - with_known
