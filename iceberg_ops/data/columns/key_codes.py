"""Numbers for keys: rows with equal keys have the same number, and other rows can be looked up by key.

Values of one exact type are compared (no floats), column by column: this serves joins and groupings by several columns. The caller
decides whether a null is a key: for SQL's GROUP BY it is, for its ``=`` it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.partition_values import distinct

Codes = npt.NDArray[np.int64]


class KeyCodes:
    """``of_rows``: the number of each row's key, from 0; -1 if a part of it is null, unless ``nulls_are_keys``."""

    def __init__(self, columns: Sequence[pa.Array], *, nulls_are_keys: bool = False) -> None:
        self._steps: list[tuple[pa.Array, Codes]] = []
        codes = np.zeros(len(columns[0]), np.int64)
        null = np.zeros(len(codes), np.bool_)
        for column in columns:
            values = distinct(column).dictionary
            places = _places(column, values)
            null |= places < 0
            kinds, codes = np.unique(codes * (len(values) + 1) + places + 1, return_inverse=True)
            codes = codes.astype(np.int64)
            self._steps.append((values, kinds))
        self.of_rows = codes if nulls_are_keys else np.where(null, -1, codes)

    def find(self, columns: Sequence[pa.Array]) -> Codes:
        """The key number of each given row; -1 if its key is not known or a part of it is null."""
        codes = np.zeros(len(columns[0]), np.int64)
        absent = np.zeros(len(codes), np.bool_)
        for column, (values, kinds) in zip(columns, self._steps, strict=True):
            places = _places(column, values)
            combined = codes * (len(values) + 1) + places + 1
            codes = np.minimum(np.searchsorted(kinds, combined), max(0, len(kinds) - 1))
            absent |= (places < 0) | ((kinds[codes] != combined) if len(kinds) else True)
        return np.where(absent, -1, codes)


def _places(column: pa.Array, values: pa.Array) -> Codes:
    """The index of each value among ``values``; -1 for null and for a value that is not among them."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    indices = pc.index_in(column.cast(values.type), value_set=values).fill_null(-1)
    return np.asarray(indices, np.int64)


def ranks(column: pa.Array) -> Codes:
    """The rank of each row's value in ascending order, equal values the same, null -1. Not for floats."""
    encoded = distinct(column)
    order = np.asarray(pc.array_sort_indices(encoded.dictionary), np.int64)
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    return place[np.asarray(encoded.indices.fill_null(len(order)), np.int64)]
