"""Rows as JSON for people and scripts: Iceberg's JSON single-value forms, structs by field name.

Decimals and uuids are strings, timestamps ISO 8601 with microseconds (nanoseconds for the _ns types), binary and fixed hex; NaN and
infinities are the strings "NaN", "Infinity", "-Infinity"; maps are {"keys": [...], "values": [...]}. Geometry and geography are
well-known text, a variant is its JSON value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.arrow.variant_values import variant_to_json
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.single_value_json import to_json_value
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

_AS_THEY_ARE = frozenset({"boolean", "int", "long", "string", "unknown"})


def json_lines(batch: pa.RecordBatch, schema: Schema) -> bytes:
    """The rows of a batch with the columns of ``schema``, one JSON object per line."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode
    return "".join(encode(row) + "\n" for row in rows_to_json(batch, schema)).encode("utf-8", "surrogatepass")


def rows_to_json(batch: pa.RecordBatch, schema: Schema) -> Iterator[dict[str, Any]]:
    """The rows as JSON-ready mappings in column order. Raises CorruptTableError for text that is not UTF-8."""
    names = [f.name for f in schema.fields]
    if not names:
        yield from ({} for _ in range(batch.num_rows))
        return
    columns = [_column(f, batch.column(i)) for i, f in enumerate(schema.fields)]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _column(f: NestedField, array: pa.Array) -> list[Any]:
    type_ = f.type
    try:
        values = values_of(type_, array)
    except UnicodeDecodeError as e:
        raise CorruptTableError(f"column {f.name}: a stored text is not UTF-8 ({e.reason})") from None
    if isinstance(type_, PrimitiveType) and type_.name in _AS_THEY_ARE:
        return values
    convert = converter(type_)
    return [None if v is None else convert(v) for v in values]


def converter(type_: IcebergType) -> Callable[[Any], Any]:
    """The function that converts a canonical non-null value to a JSON-ready one."""
    if isinstance(type_, StructType):
        return _struct_converter(type_)
    if isinstance(type_, ListType):
        element = _optional(type_.element.type)
        return lambda value: [element(v) for v in value]
    if isinstance(type_, MapType):
        key, item = _optional(type_.key.type), _optional(type_.value.type)
        return lambda value: {"keys": [key(k) for k, _ in value], "values": [item(v) for _, v in value]}
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    if name == "variant":
        return variant_to_json
    return lambda value: to_json_value(type_, value)


def _struct_converter(type_: StructType) -> Callable[[Any], Any]:
    parts = [(f.name, _optional(f.type)) for f in type_.fields]
    return lambda value: {name: convert(v) for (name, convert), v in zip(parts, value, strict=True)}


def _optional(type_: IcebergType) -> Callable[[Any], Any]:
    convert = converter(type_)
    return lambda value: None if value is None else convert(value)
