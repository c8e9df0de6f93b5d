"""Decides which statistics of a Parquet footer can be trusted, by writer: for pruning row groups and for recording bounds.

A missing bound costs time, a wrong one loses rows, so min and max only count if

* the file stores the column with the requested type, unit and scale, or as a narrower integer, decimal or float with the same
  meaning: a date is not a timestamp, milliseconds are not microseconds, and an INT96 is neither;
* the writer is known to compare values of that form in the right order. parquet-mr before 1.10 compared bytes as signed numbers.
  More writers compared decimals in byte arrays wrongly (PARQUET-1655 and others), so these are trusted only from writers that are
  known to be right;
* neither is NaN: some writers took NaN for a least or greatest value. A zero stands for zeros of either sign;
* both can be decoded. Text that is not UTF-8 cannot.

Min and max may be truncated: they enclose the values, and that is sufficient. Those of uuids are not used.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.formats.metrics import canonical_value
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.types import DOUBLE, FLOAT, DecimalType, IcebergType, PrimitiveType

_BYTE_ARRAYS = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_COUNTS_ONLY = frozenset({"uuid", "geometry", "geography", "variant", "unknown"})
_WRITER = re.compile(r"(\S+) version (\d+)\.(\d+)")
_RIGHT_DECIMALS = {"parquet-mr": (1, 10), "parquet-cpp-arrow": (4, 0)}
"""Writers that compare decimals in byte arrays as numbers, from these versions on."""
_RIGHT_TEXT = {"parquet-mr": (1, 10)}
"""Writers that compared text in a wrong order before these versions."""


@dataclass(frozen=True, slots=True)
class TrustedStatistics:
    """The rules for the files of one writer (``created_by`` of the footer; None: the footer does not name it)."""

    texts: bool
    decimals: bool

    @classmethod
    def of(cls, created_by: str | None) -> TrustedStatistics:
        match = _WRITER.match(created_by or "")
        if match is None:
            return cls(texts=bool(created_by), decimals=False)
        name, version = match[1], (parse_count(match[2]) or 0, parse_count(match[3]) or 0)
        known = _RIGHT_DECIMALS.get(name)
        return cls(texts=version >= _RIGHT_TEXT.get(name, version), decimals=known is not None and version >= known)

    def bounds(self, chunk: pq.ColumnChunkMetaData, stored: pa.DataType, type_: IcebergType) -> tuple[Any, Any] | None:
        """(lower, upper) bound of a column chunk's non-NaN values, as canonical values of ``type_``; None if there are
        none or they cannot be trusted. ``stored`` is the Arrow type of the file's column."""
        statistics = chunk.statistics
        if (
            statistics is None
            or not statistics.has_min_max
            or not self._in_order(chunk, type_)
            or not means_the_same(stored, type_)
        ):
            return None
        try:
            low, high = canonical_value(type_, statistics.min_raw), canonical_value(type_, statistics.max_raw)
        except (CorruptTableError, UnicodeDecodeError, ValueError, OverflowError, TypeError):
            return None
        return _of_numbers(low, high) if type_ in (FLOAT, DOUBLE) else (low, high)

    def _in_order(self, chunk: pq.ColumnChunkMetaData, type_: IcebergType) -> bool:
        if chunk.physical_type == "INT96":
            return False
        return chunk.physical_type not in _BYTE_ARRAYS or (self.decimals if isinstance(type_, DecimalType) else self.texts)


def holds_nulls_only(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether the footer says that a chunk has no value at all."""
    statistics = chunk.statistics
    return statistics is not None and bool(statistics.has_null_count) and statistics.null_count == chunk.num_values


def _of_numbers(low: float, high: float) -> tuple[float, float] | None:
    if math.isnan(low) or math.isnan(high):
        return None
    return (-0.0 if low == 0 else low), (0.0 if high == 0 else high)


def means_the_same(stored: pa.DataType, type_: IcebergType) -> bool:
    """Whether the physical values of a file's column have the unit, scale and sign of ``type_``, or are narrower numbers."""
    if isinstance(type_, PrimitiveType) and type_.name in _COUNTS_ONLY:
        return False
    if isinstance(stored, pa.DictionaryType):
        stored = stored.value_type
    expected_type = arrow_type(type_)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(expected_type):
        return bool(stored.unit == expected_type.unit)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(expected_type):
        return bool(stored.scale == expected_type.scale)
    if pa.types.is_signed_integer(stored) and pa.types.is_signed_integer(expected_type):
        return bool(stored.bit_width <= expected_type.bit_width)
    if pa.types.is_string(expected_type):
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored) or pa.types.is_string_view(stored))
    if pa.types.is_binary(expected_type):
        return bool(pa.types.is_binary(stored) or pa.types.is_large_binary(stored) or pa.types.is_binary_view(stored))
    return bool(stored == expected_type) or (pa.types.is_float32(stored) and pa.types.is_float64(expected_type))
