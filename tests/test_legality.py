"""The fake answers every recorded legality row as the real device did."""

from __future__ import annotations

from collections import Counter

import pytest

from capturegate.programs.legality import CALLS
from capturegate.testing import check_legality
from capturegate_backends.fake.device import FakeDevice
from capturegate_backends.truth.legality import load_legality


def test_the_table_names_its_device() -> None:
    table = load_legality()
    assert (table.device, table.driver, table.cuda) == ("NVIDIA H200", "580", "13.0")


def test_the_fake_answers_all_recorded_rows(capsys: pytest.CaptureFixture[str]) -> None:
    calls = Counter(row.call for row in load_legality().rows)
    found = check_legality(FakeDevice)
    with capsys.disabled():
        print(f" legality: {found.compared} rows of {len(calls)} calls checked ", end="")
    assert found.mismatches == ()
    assert (found.compared, calls.total(), len(calls)) == (1512, 1512, 42)
    assert calls.keys() == CALLS.keys()
