"""Canonical Python values as Arrow arrays, and back (the forms are in iceberg_ops.spec.types)."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.plain_types import as_lists
from iceberg_ops.data.arrow.variant_values import Variant
from iceberg_ops.spec.types import UUID, VARIANT, IcebergType, ListType, MapType, StructType


def array_of(type_: IcebergType, values: list[Any]) -> pa.Array:
    """Canonical values as an array of the canonical Arrow type."""
    return pa.array([_for_arrow(type_, v) for v in values], arrow_type(type_))


def repeated(type_: IcebergType, value: Any, rows: int) -> pa.Array:
    """``rows`` times the same canonical value."""
    arrow = arrow_type(type_)
    if value is None and (isinstance(type_, StructType) or type_ == VARIANT):
        # Unlike ``pa.nulls`` of a struct: Parquet's writer refuses a null in a required field of a null struct.
        return pa.array([None] * rows, arrow)
    if value is None:
        return pa.nulls(rows, arrow)
    if type_.is_nested:
        one = array_of(type_, [value])
        return one.take(pa.array([0] * rows, pa.int32()))
    return pa.repeat(pa.scalar(_for_arrow(type_, value), arrow), rows)


def values_of(type_: IcebergType, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """An array of the canonical Arrow type as canonical values."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if isinstance(type_, StructType):
        columns = [values_of(f.type, part) for f, part in zip(type_.fields, array.flatten(), strict=True)]
        return _where_present(array, list(zip(*columns, strict=True)) if columns else [()] * len(array))
    if isinstance(type_, ListType):
        return _cut(values_of(type_.element.type, array.flatten()), array)
    if isinstance(type_, MapType):
        lists = as_lists(array)
        keys, values = lists.flatten().flatten()
        return _cut(list(zip(values_of(type_.key.type, keys), values_of(type_.value.type, values), strict=True)), lists)
    if type_ == VARIANT:
        metadata, value = (part.to_pylist() for part in array.flatten())
        return _where_present(array, list(map(Variant, metadata, value)))
    plain_values = _plain(array).to_pylist()
    return [None if v is None else uuid.UUID(bytes=v) for v in plain_values] if type_ == UUID else plain_values


def _where_present(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [v if there else None for v, there in zip(values, array.is_valid().to_pylist(), strict=True)]


def _cut(elements: list[Any], lists: pa.Array) -> list[Any]:
    """The elements of lists, separately for each list."""
    cut_lists: list[Any] = []
    at = 0
    for length in lists.value_lengths().to_pylist():
        cut_lists.append(None if length is None else elements[at : at + length])
        at += length or 0
    return cut_lists


def _plain(array: pa.Array) -> pa.Array:
    """Dates and times as their integer values."""
    if pa.types.is_date32(array.type):
        return array.view(pa.int32())
    if pa.types.is_timestamp(array.type) or pa.types.is_time64(array.type):
        return array.view(pa.int64())
    return array


def _for_arrow(type_: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {f.name: _for_arrow(f.type, v) for f, v in zip(type_.fields, value, strict=True)}
    if isinstance(type_, ListType):
        return [_for_arrow(type_.element.type, v) for v in value]
    if isinstance(type_, MapType):
        return [(_for_arrow(type_.key.type, k), _for_arrow(type_.value.type, v)) for k, v in value]
    if isinstance(value, Variant):
        return {"metadata": value.metadata, "value": value.value}
    return value.bytes if isinstance(value, uuid.UUID) else value


def bare_batch(rows: int) -> pa.RecordBatch:
    """A batch of that many rows and no columns."""
    nothing = pa.StructArray.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(nothing)
