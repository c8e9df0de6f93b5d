"""Canonical Python values as Arrow arrays, and back (the forms are in iceberg_ops.spec.types)."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow_schema import arrow_type
from iceberg_ops.data.variant_values import Variant
from iceberg_ops.spec.types import UUID, VARIANT, IcebergType, ListType, MapType, StructType


def array_of(type_: IcebergType, values: list[Any]) -> pa.Array:
    """Canonical values as an array of the canonical Arrow type."""
    return pa.array([_for_arrow(type_, v) for v in values], arrow_type(type_))


def repeated(type_: IcebergType, value: Any, rows: int) -> pa.Array:
    """``rows`` times the same canonical value."""
    arrow = arrow_type(type_)
    if value is None and (isinstance(type_, StructType) or type_ == VARIANT):
        # Unlike ``pa.nulls`` with values that nobody sees: Parquet's writer refuses a null in a required field of a null struct.
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
    return [_canonical(type_, v) for v in _plain(array).to_pylist()]


def _plain(array: pa.Array) -> pa.Array:
    """Dates and times as the integers they are; what is nested is left to ``to_pylist`` on integer views of its children."""
    type_ = array.type
    if pa.types.is_date32(type_):
        return array.view(pa.int32())
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return array.view(pa.int64())
    if pa.types.is_nested(type_):
        return array.cast(_integers(type_))
    return array


def _integers(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.int64()
    if pa.types.is_map(type_):
        pair = pa.struct(
            [
                type_.key_field.with_type(_integers(type_.key_type)),
                type_.item_field.with_type(_integers(type_.item_type)).with_nullable(True),
            ]
        )
        return pa.map_(pair.field(0), pair.field(1))
    if pa.types.is_struct(type_):
        # Nullable: a required field under a struct that is null has no value either, and Arrow checks the one without the other.
        fields = (type_.field(i) for i in range(type_.num_fields))
        return pa.struct([f.with_type(_integers(f.type)).with_nullable(True) for f in fields])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_integers(type_.value_type)).with_nullable(True))
    return type_


def _canonical(type_: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, StructType):
        return tuple(_canonical(f.type, v) for f, v in zip(type_.fields, value.values(), strict=True))
    if isinstance(type_, ListType):
        return [_canonical(type_.element.type, v) for v in value]
    if isinstance(type_, MapType):
        return [(_canonical(type_.key.type, k), _canonical(type_.value.type, v)) for k, v in value]
    if type_ == VARIANT:
        return Variant(value["metadata"], value["value"])
    return uuid.UUID(bytes=value) if type_ == UUID else value


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
