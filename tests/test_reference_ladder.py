"""The size classes of the device pool."""

import pytest

from capturegate_reference.errors import PoolError
from capturegate_reference.ladder import size_class


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (0, 1),
        (1, 1),
        (31, 31),
        (32, 32),
        (33, 34),
        (34, 34),
        (1000, 1024),
        (1024, 1024),
        (1025, 1088),
        (32400, 32768),
        (32768, 32768),
        (2**63, 2**63),
    ],
)
def test_a_size_is_rounded_up_to_its_class(nbytes, expected):
    assert expected == size_class(nbytes)


def test_a_class_is_its_own_class_and_wastes_at_most_a_sixteenth():
    for nbytes in range(1, 70_000):
        rounded = size_class(nbytes)
        assert rounded == size_class(rounded)
        assert 0 <= rounded - nbytes <= nbytes * 0.0625


def test_an_octave_has_sixteen_classes():
    assert len({size_class(nbytes) for nbytes in range(4097, 8193)}) == 16


def test_sizes_without_a_class_are_refused():
    with pytest.raises(PoolError, match=r"no class below 2\*\*64"):
        size_class(2**64 - 1)
    with pytest.raises(PoolError, match="negative"):
        size_class(-1)
