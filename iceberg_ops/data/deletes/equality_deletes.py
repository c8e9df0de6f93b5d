"""Equality deletes: which rows equal a delete key (spec: "Equality Delete Files").

A row is deleted if it equals one delete row in every column of the delete file's ``equality_ids``: null equals null, NaN equals
NaN, 0.0 does not equal -0.0 (as in Java). Values are compared after promotion to the widest type a column has had. Dropped delete
columns are still found, by their ids in the schema history. Delete files with different ids are applied separately.

Keys are matched column by column: every value of a column is replaced by its number among the distinct delete values (or none), the
numbers of the columns so far by the number of their combination (or none), and so on, each time only for the remaining rows. No row
becomes a Python object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Columns = Callable[[int], pa.Array]
"""Gives the column of a field id in its comparison type."""
Codes = npt.NDArray[np.int64]
_WIDEST_LOOKUP = 1 << 26
"""Integer keys within this range are looked up in a table of one byte per value (64 MiB at most) instead of a hash table."""


@dataclass(frozen=True)
class _Step:
    """One key column: its distinct delete values, and their known combinations with the columns before (None for the first)."""

    values: pa.Array
    known: Codes | None
    lookup: tuple[int, npt.NDArray[np.bool_]] | None = None


@dataclass(frozen=True)
class EqualityKeys:
    """The distinct delete keys of one set of ``equality_ids``, ready to be looked up."""

    equality_ids: tuple[int, ...]
    steps: tuple[_Step, ...]

    def matches(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """True for every row that equals a delete key."""
        first = columns(self.equality_ids[0])
        codes: Codes | None = None
        if (lookup := self.steps[0].lookup) is not None:
            matched = _looked_up(first, lookup)
            if len(self.steps) == 1:
                return matched
            rows = np.flatnonzero(matched)
        else:
            codes = _numbers(first, self.steps[0].values)
            rows = np.flatnonzero(codes >= 0)
            codes = codes[rows]
        return self._among(rows, codes, first, columns)

    def _among(self, rows: npt.NDArray[np.intp], codes: Codes | None, first: pa.Array, columns: Columns) -> npt.NDArray[np.bool_]:
        """``matches`` if only ``rows`` equal a delete value in the first column; ``codes`` are their numbers there, if known."""
        matched = np.zeros(len(first), dtype=bool)
        if codes is None and len(rows):
            codes = _numbers(first.take(pa.array(rows)), self.steps[0].values)
        for field_id, step in zip(self.equality_ids[1:], self.steps[1:], strict=True):
            if not len(rows):
                return matched
            assert codes is not None
            codes = _combined(codes, _numbers(columns(field_id).take(pa.array(rows)), step.values), step)
            rows, codes = rows[codes >= 0], codes[codes >= 0]
        matched[rows] = True
        return matched


def equality_keys(equality_ids: Sequence[int], batches: Iterable[Sequence[pa.Array]]) -> EqualityKeys | None:
    """Keys from delete rows: each batch holds one array per id, in comparison types. None if there are no rows."""
    parts = [batch for batch in batches if len(batch[0])]
    if not parts:
        return None
    columns = [pa.chunked_array([plain(part[i]) for part in parts]).combine_chunks() for i in range(len(equality_ids))]
    steps: list[_Step] = []
    codes: Codes | None = None
    for column in columns:
        values = column.unique()
        numbers = _numbers(column, values)
        if codes is None:
            codes = numbers
            steps.append(_Step(values, None, _lookup(values)))
            continue
        paired = codes * len(values) + numbers
        known = np.unique(paired)
        codes = np.searchsorted(known, paired).astype(np.int64)
        steps.append(_Step(values, known))
    return EqualityKeys(tuple(equality_ids), tuple(steps))


def plain(array: pa.Array) -> pa.Array:
    """Without dictionary, and with one form of NaN: Arrow compares floats by their bits, and NaN has many."""
    array = array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array
    if not pa.types.is_floating(array.type) or not len(array):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(math.nan, array.type), array)


def _numbers(column: pa.Array, values: pa.Array) -> Codes:
    """Each value's index among ``values``, -1 if it is not there. Null matches null, NaN matches NaN, -0.0 does not match 0.0."""
    if isinstance(column, pa.DictionaryArray) and column.null_count == 0 and column.dictionary.null_count == 0:
        inner: Codes = _numbers(column.dictionary, values)[np.asarray(column.indices)]
        return inner
    numbers = pc.index_in(plain(column), value_set=values)
    return np.asarray(numbers.fill_null(-1)).astype(np.int64)


def _combined(codes: Codes, numbers: Codes, step: _Step) -> Codes:
    known = step.known
    assert known is not None
    paired = np.where((codes >= 0) & (numbers >= 0), codes * len(step.values) + numbers, -1)
    places = np.searchsorted(known, paired)
    places[places == len(known)] = 0
    return np.where((paired >= 0) & (known[places] == paired), places, -1)


def _lookup(values: pa.Array) -> tuple[int, npt.NDArray[np.bool_]] | None:
    if not (pa.types.is_int32(values.type) or pa.types.is_int64(values.type)) or values.null_count:
        return None
    keys = np.asarray(values).astype(np.int64)
    low, high = int(keys.min()), int(keys.max())
    if high - low >= _WIDEST_LOOKUP:
        return None
    table = np.zeros(high - low + 1, dtype=bool)
    table[keys - low] = True
    return low, table


def _looked_up(column: pa.Array, lookup: tuple[int, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
    low, table = lookup
    filled = column.fill_null(low) if column.null_count else column
    values = np.asarray(filled).astype(np.int64, copy=False)
    inside = (values >= low) & (values < low + len(table))
    matched = inside & table[np.where(inside, values - low, 0)]
    return matched & np.asarray(column.is_valid()) if column.null_count else matched
