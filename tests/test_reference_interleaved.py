"""The interleaved pool, its code flipped: what hands a block out twice, and what does not."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from capturegate.backend import Backend
from capturegate_backends.fake.device import FakeDevice
from capturegate_mutations.prepare import flip_source
from capturegate_mutations.reader import load_plan, shipped_plans
from capturegate_mutations.source import read_source
from capturegate_reference import churn as churn_module

POOL = "capturegate_reference.pool"


@pytest.fixture
def churned(monkeypatch):
    """Churns a pool of flipped code, in the file that the interleaver watches."""

    def run(flips):
        source = read_source(POOL)
        flipped = ModuleType("flipped_pool")
        flipped.__file__ = source.path
        monkeypatch.setitem(sys.modules, flipped.__name__, flipped)
        exec(compile(flip_source(source, flips), source.path, "exec"), flipped.__dict__)
        monkeypatch.setattr(churn_module, "DevicePool", flipped.DevicePool)
        backend = Backend(FakeDevice())
        told = churn_module.churn(backend, threads=8, rounds=8, seed=0)
        backend.close()
        return told

    return run


@pytest.fixture(scope="module")
def flips():
    """Those of the plan: no lock, and a block that is looked at and taken in two steps."""
    [path] = [path for path in map(Path, shipped_plans()) if path.name.startswith("pool-takes-")]
    return load_plan(path, ["pool-churn[pooled/threads]"]).flips


def test_a_block_that_is_taken_in_two_steps_is_handed_out_once_under_the_lock(churned, flips):
    told = churned([flip for flip in flips if flip.qualname == "DevicePool._take_free"])
    assert (64, 64, 0, 0, 0) == (
        told.gets,
        told.served,
        told.handed_out_twice,
        told.lost_bytes,
        told.failures,
    )


def test_without_the_lock_it_is_handed_out_twice(churned, flips):
    assert churned(flips).handed_out_twice > 0
