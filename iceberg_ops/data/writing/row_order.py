"""Verifies, while rows are written, that they are in the order that their file records.

Readers rely on the sort order id of a file. Code that sorts rows can be wrong (an engine with another order, a faulty merge), so
the order is verified on the rows themselves, with the same keys that sort them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.sort_keys import KeyMaker, Keys, ranked


class RowOrder:
    """Checks one file's batches one after the other."""

    def __init__(self, make: KeyMaker) -> None:
        self._make = make
        self._last: tuple[Any, ...] | None = None

    def holds(self, batch: pa.RecordBatch) -> bool:
        """Whether all rows of the batch are in order, also the first one relative to the last row of the batch before."""
        if not batch.num_rows:
            return True
        keys = self._make(batch)
        before, self._last = self._last, _row(keys, batch.num_rows - 1)
        return (before is None or _is_before(before, _row(keys, 0), keys)) and in_order(keys)


def in_order(keys: Keys) -> bool:
    """Whether rows with those keys are in order."""
    rows = len(keys[0][0]) if keys else 0
    if rows < 2:
        return True
    holds: npt.NDArray[np.bool_] = np.ones(rows - 1, np.bool_)
    for array, direction in reversed(keys):
        column = ranked(array)
        first, second = column.slice(0, rows - 1), column.slice(1)
        if direction == "descending":
            first, second = second, first
        less, equal = (np.asarray(test(first, second)) for test in (pc.less, pc.equal))
        holds = less | (equal & holds)
    return bool(holds.all())


def _row(keys: Keys, row: int) -> tuple[Any, ...]:
    return tuple(array[row].as_py() for array, _ in keys)


def _is_before(first: tuple[Any, ...], second: tuple[Any, ...], keys: Keys) -> bool:
    """Compares keys as Python values: integers, decimals, text and bytes have the order of the columns."""
    for a, b, (_, direction) in zip(first, second, keys, strict=True):
        if a != b:
            return bool(a < b) if direction == "ascending" else bool(a > b)
    return True
