"""Decides from column bounds whether an equality delete file can match any row of a data file.

An equality delete removes rows whose values equal one of its rows in all ``equality_ids`` columns, null equal to null and NaN to
NaN (spec: "Equality Delete Files"). So two files that share no value of one of these columns cannot match. Anything unknown
(missing counts or bounds, a column of an unknown type) counts as a possible match. Rows that are missing in a value count may be
null: some writers do not count the rows of a nested column whose parent is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.types import NestedField, PrimitiveType
from iceberg_ops.spec.values import from_bytes

_ORDERED = frozenset(
    {
        "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
        "string", "binary", "fixed", "boolean",
    }
)  # fmt: skip
"""Types whose recorded bounds every writer orders in the same way; uuid is not one of them (TYPE-35)."""


def may_hold_deleted_rows(data: DataFile, delete: DataFile, fields_by_id: Mapping[int, NestedField]) -> bool:
    """False only if the metrics of both files prove that no row of ``data`` equals a row of ``delete``."""
    return all(
        _may_share_value(data, delete, field_id, fields_by_id[field_id])
        for field_id in delete.equality_ids or ()
        if field_id in fields_by_id
    )


def _may_share_value(data: DataFile, delete: DataFile, field_id: int, field: NestedField) -> bool:
    type_ = field.type
    if not isinstance(type_, PrimitiveType) or type_.name not in _ORDERED:
        return True
    if _may_be_null(data, field_id) and _may_be_null(delete, field_id):
        return True
    if _all_null(data, field_id) or _all_null(delete, field_id):
        return False
    if type_.name in ("float", "double") and _count(data.nan_value_counts, field_id) != 0 != _count(
        delete.nan_value_counts, field_id
    ):
        return True
    return _ranges_meet(data, delete, field_id, type_)


def _ranges_meet(data: DataFile, delete: DataFile, field_id: int, type_: PrimitiveType) -> bool:
    a_low, a_high = _range(data, field_id, type_)
    b_low, b_high = _range(delete, field_id, type_)
    if a_low is not None and b_high is not None and a_low > b_high:
        return False
    return not (b_low is not None and a_high is not None and b_low > a_high)


def _range(file: DataFile, field_id: int, type_: PrimitiveType) -> tuple[Any, Any]:
    return _bound(file.lower_bounds, field_id, type_), _bound(file.upper_bounds, field_id, type_)


def _bound(bounds: Mapping[int, bytes] | None, field_id: int, type_: PrimitiveType) -> Any:
    bound = None if bounds is None else bounds.get(field_id)
    if bound is None:
        return None
    try:
        value = from_bytes(type_, bound)
    except CorruptTableError:
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def _count(counts: Mapping[int, int] | None, field_id: int) -> int | None:
    return None if counts is None else counts.get(field_id)


def _may_be_null(file: DataFile, field_id: int) -> bool:
    return _count(file.null_value_counts, field_id) != 0 or not _counts_every_row(file, field_id)


def _all_null(file: DataFile, field_id: int) -> bool:
    nulls, values = _count(file.null_value_counts, field_id), _count(file.value_counts, field_id)
    return nulls is not None and nulls == values and _counts_every_row(file, field_id)


def _counts_every_row(file: DataFile, field_id: int) -> bool:
    values = _count(file.value_counts, field_id)
    return values is not None and values >= file.record_count
