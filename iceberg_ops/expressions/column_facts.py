"""Known facts about one column's values: for a file from its metrics, for a manifest from a partition summary.

The rule (requirements MANIFEST-53, MANIFEST-55, SCAN-06, SCAN-07): a count or bound that is absent, unreadable or inconsistent with
another is unknown, and an unknown value can be anything. Bounds do not include NaN, so a float column may contain values above its
upper bound unless its NaN count excludes it. Bounds need not be values of the column; they only enclose them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.ordering import NAN_KEY, is_floating
from iceberg_ops.expressions.predicates import BoundReference
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import FieldSummary
from iceberg_ops.spec.types import UNKNOWN, IcebergType, PrimitiveType
from iceberg_ops.spec.values import from_bytes


@dataclass(slots=True)
class ColumnFacts:
    """``lower`` and ``upper``: order keys (see ordering) that enclose every non-null value, NaN included; None if
    unknown. ``all_null`` and not ``may_be_null`` are certain, their opposites are not."""

    may_be_null: bool
    all_null: bool
    may_be_nan: bool
    lower: Any
    upper: Any


def file_facts(column: BoundReference) -> Callable[[DataFile], ColumnFacts]:
    """A reader of one column's facts from data files. A column of type unknown is null, whatever a file counts (TYPE-37)."""
    if column.type == UNKNOWN:
        return lambda file: ColumnFacts(may_be_null=True, all_null=True, may_be_nan=False, lower=None, upper=None)
    field_id, type_, nested = column.field_id, column.type, len(column.path) > 1
    floating, unsigned = is_floating(type_), not _is_uuid(type_)

    def read(file: DataFile) -> ColumnFacts:
        values, nulls = _entry(file.value_counts, field_id), _entry(file.null_value_counts, field_id)
        lower = _decoded(type_, _entry(file.lower_bounds, field_id))
        upper = _decoded(type_, _entry(file.upper_bounds, field_id))
        # Some writers omit rows with a null parent from a nested column's counts.
        complete = values is not None and values >= file.record_count
        may_be_null = nulls is None or nulls > 0 or not (complete or (values is None and not nested))
        all_null = complete and nulls == values and lower is None and upper is None
        nans = _entry(file.nan_value_counts, field_id) if floating else 0
        all_nan = floating and complete and nans is not None and nans > 0 and nans + (nulls or 0) == values
        return _facts(may_be_null, all_null, nans is None or nans > 0, all_nan, lower, upper, ordered=unsigned)

    return read


def summary_facts(type_: IcebergType) -> Callable[[FieldSummary], ColumnFacts]:
    """A reader of one partition field's facts from manifest-list summaries. Absent bounds are unknown, not proof of nulls."""
    floating, unsigned = is_floating(type_), not _is_uuid(type_)

    def read(summary: FieldSummary) -> ColumnFacts:
        lower, upper = _decoded(type_, summary.lower_bound), _decoded(type_, summary.upper_bound)
        may_be_nan = floating and summary.contains_nan is not False
        return _facts(summary.contains_null, False, may_be_nan, False, lower, upper, ordered=unsigned)

    return read


def _facts(
    may_be_null: bool, all_null: bool, may_be_nan: bool, all_nan: bool, lower: Any, upper: Any, *, ordered: bool
) -> ColumnFacts:
    if ordered and lower is not None and upper is not None and lower > upper:
        lower = upper = None
    if may_be_nan:
        upper = NAN_KEY
    if all_nan and not all_null:
        lower = NAN_KEY
    return ColumnFacts(may_be_null, all_null, may_be_nan, lower, upper)


def _entry(values: Any, field_id: int) -> Any:
    return None if values is None else values.get(field_id)


def _decoded(type_: IcebergType, data: bytes | None) -> Any:
    """A bound's value; None if absent, unreadable or NaN (old writers)."""
    if data is None:
        return None
    try:
        value = from_bytes(type_, data)
    except (CorruptTableError, UnsupportedError):
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def _is_uuid(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name == "uuid"
