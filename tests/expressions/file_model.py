"""Data files and manifests built from rows, with metrics that are correct but as unhelpful as the format allows.

Counts and bounds may be missing, bounds may be wider than the values, truncated, of a narrower type, NaN (old writers), or in the
signed order that some writers use for uuids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from iceberg_ops.spec.bounds import truncate_lower, truncate_upper
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import FieldSummary, ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, FLOAT, INT, LONG, UUID, IcebergType, NestedField, StructType
from iceberg_ops.spec.values import to_bytes
from tests.expressions.oracle import is_nan

Row = dict[str, Any]


def uuid_signed(value: Any) -> tuple[int, int]:
    """The order of java.util.UUID."""
    return int.from_bytes(value.bytes[:8], "big", signed=True), int.from_bytes(value.bytes[8:], "big", signed=True)


def _bound(draw: st.DrawFn, type_: IcebergType, value: Any, others: Sequence[Any], *, upper: bool) -> bytes | None:
    kind = draw(st.sampled_from(["exact", "exact", "wide", "truncated", "narrow", "absent", "nan"]))
    if kind == "absent":
        return None
    if kind == "nan" and type_ in (FLOAT, DOUBLE):
        return to_bytes(type_, math.nan)
    if kind == "wide" and type_ != UUID:
        value = max([value, *others]) if upper else min([value, *others])
    if kind == "truncated" and str(type_) in ("string", "binary"):
        width = draw(st.integers(1, 3))
        value = truncate_upper(type_, value, width) if upper else truncate_lower(type_, value, width)
        if value is None:
            return None
    if kind == "narrow" and type_ == LONG and -(2**31) <= value < 2**31:
        return to_bytes(INT, value)
    return to_bytes(type_, value)


@st.composite
def data_files(
    draw: st.DrawFn, schema: Schema, rows: list[Row], partition: tuple[Any, ...], pools: dict[str, list[Any]]
) -> DataFile:
    """A data file of ``rows`` with metrics for some of the columns."""
    maps: dict[str, dict[int, Any]] = {k: {} for k in ("value", "null", "nan", "lower", "upper")}
    for name, field in ((schema.name_of(i), f) for i, f in schema.fields_by_id.items() if f.type.is_primitive):
        _column_metrics(
            draw, field, [r[name] for r in rows], [v for v in pools[str(field.type)] if not is_nan(v)], maps, nested="." in name
        )
    absent = draw(st.frozensets(st.sampled_from(sorted(maps)), max_size=2))
    value, null, nan, lower, upper = (None if k in absent else maps[k] for k in ("value", "null", "nan", "lower", "upper"))
    return DataFile(
        file_path="file:/t/data/f.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition,
        record_count=len(rows),
        file_size_in_bytes=1000,
        value_counts=value,
        null_value_counts=null,
        nan_value_counts=nan,
        lower_bounds=lower,
        upper_bounds=upper,
    )


def _column_metrics(
    draw: st.DrawFn, field: NestedField, values: list[Any], pool: list[Any], maps: dict[str, dict[int, Any]], *, nested: bool
) -> None:
    key, type_ = field.field_id, field.type
    present = [v for v in values if v is not None]
    counted = present if nested and draw(st.booleans()) else values
    if draw(st.integers(0, 9)):
        maps["value"][key] = len(counted)
    if draw(st.integers(0, 9)):
        maps["null"][key] = len(counted) - len(present)
    finite = [v for v in present if not is_nan(v)]
    if type_ in (FLOAT, DOUBLE) and draw(st.integers(0, 3)):
        maps["nan"][key] = len(present) - len(finite)
    if not finite:
        return
    order = uuid_signed if type_ == UUID and draw(st.booleans()) else None
    low, high = min(finite, key=order), max(finite, key=order)
    for name, value, upper in (("lower", low, False), ("upper", high, True)):
        data = _bound(draw, type_, value, pool, upper=upper)
        if data is not None:
            maps[name][key] = data


@st.composite
def manifests(draw: st.DrawFn, partition_type: StructType, partitions: list[tuple[Any, ...]]) -> ManifestFile:
    """A manifest whose summaries cover ``partitions``; bounds and NaN flags may be left out, and so may all summaries."""
    summaries = tuple(_summary(draw, f.type, [p[i] for p in partitions]) for i, f in enumerate(partition_type.fields))
    kept = summaries if draw(st.integers(0, 9)) else None
    return ManifestFile(manifest_path="file:/t/metadata/m.avro", manifest_length=1, partitions=kept)


def _summary(draw: st.DrawFn, type_: IcebergType, values: list[Any]) -> FieldSummary:
    present = [v for v in values if v is not None]
    finite = [v for v in present if not is_nan(v)]
    flag = draw(st.sampled_from([None, len(finite) < len(present)]))
    order = uuid_signed if type_ == UUID and draw(st.booleans()) else None
    bounds = [to_bytes(type_, end(finite, key=order)) if finite and draw(st.integers(0, 5)) else None for end in (min, max)]
    return FieldSummary(None in values, flag, *bounds)
