"""The Hilbert curve visits every cell once, and goes from each to a neighbour."""

from __future__ import annotations

import numpy as np
import pytest

from iceberg_ops.data.sorting.hilbert import transposed
from iceberg_ops.data.sorting.zorder import interleave


@pytest.mark.parametrize(("columns", "bits"), [(1, 6), (2, 1), (2, 2), (2, 6), (3, 4), (4, 3), (5, 2)])
def test_every_step_is_to_a_neighbour(columns: int, bits: int) -> None:
    grid = np.meshgrid(*[np.arange(1 << bits, dtype=np.uint64)] * columns, indexing="ij")
    points = [axis.ravel() for axis in grid]
    places = interleave(transposed(points, bits), bits)
    assert np.array_equal(np.sort(places), np.arange(1 << (bits * columns), dtype=np.uint64))
    order = np.argsort(places)
    steps = sum(np.abs(np.diff(p[order].astype(np.int64))) for p in points)
    assert set(np.asarray(steps).tolist()) == {1}


def test_sixteen_bits_are_used_to_the_last() -> None:
    rng = np.random.default_rng(5)
    points = [rng.integers(0, 1 << 16, 5_000).astype(np.uint64) for _ in range(2)]
    fine = interleave(transposed(points, 16), 16)
    coarse = interleave(transposed([p >> np.uint64(10) for p in points], 6), 6)
    assert np.array_equal(fine >> np.uint64(20), coarse)
