"""Converts Iceberg types to Arrow types, and back.

Canonical Arrow form: every reader here returns it and every writer takes it. Field ids are stored as ``PARQUET:field_id`` metadata
on every nested level, where Arrow's Parquet writer reads them (spec: "Parquet", "Field ids").

* uuid is fixed_size_binary(16), geometry and geography are binary (WKB), unknown is null, timestamptz is UTC;
* variant is struct<metadata: binary, value: binary>, unshredded (see iceberg_ops.data.arrow.variant);
* string and binary may be dictionary-encoded if a caller asked for that: same values, other container.

``stored_schema`` is the form in which a Parquet file is written: uuids as Arrow's uuid and geometry as GeoArrow's WKB so that the
logical type is set, unknown left out. Arrow can mark only planar and spherical edges: other geographies are stored as plain binary.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow.plain_types import is_list, plain_type
from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)

FIELD_ID = b"PARQUET:field_id"
VARIANT_STORAGE = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)])
UUID_STORAGE = pa.binary(16)

_CRS84 = "OGC:CRS84"


class _GeoArrowWkb(pa.ExtensionType):  # type: ignore[misc]
    """WKB with the name by which Arrow's Parquet writer recognises geometry and geography; CRS84 is Parquet's default and not
    named."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    @classmethod
    def of(cls, crs: str, edges: str) -> _GeoArrowWkb:
        return cls(json.dumps({"edges": edges} if crs == _CRS84 else {"crs": crs, "edges": edges}).encode())

    def __arrow_ext_serialize__(self) -> bytes:
        return self._metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _GeoArrowWkb:
        return cls(serialized)


_PRIMITIVES: dict[IcebergType, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DATE: pa.date32(),
    TIME: pa.time64("us"),
    TIMESTAMP: pa.timestamp("us"),
    TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NS: pa.timestamp("ns"),
    TIMESTAMPTZ_NS: pa.timestamp("ns", tz="UTC"),
    STRING: pa.string(),
    UUID: UUID_STORAGE,
    BINARY: pa.binary(),
    UNKNOWN: pa.null(),
    VARIANT: VARIANT_STORAGE,
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The canonical Arrow schema, field ids on every level."""
    return pa.schema([arrow_field(f) for f in schema.fields])


def arrow_field(f: NestedField) -> pa.Field:
    """One field with its id; required fields are not nullable."""
    return pa.field(f.name, arrow_type(f.type), nullable=not f.required, metadata={FIELD_ID: str(f.field_id).encode()})


def arrow_type(type_: IcebergType) -> pa.DataType:
    """The canonical Arrow type of an Iceberg type."""
    if plain := _PRIMITIVES.get(type_):
        return plain
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, GeometryType | GeographyType):
        return pa.binary()
    if isinstance(type_, StructType):
        return pa.struct([arrow_field(f) for f in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(arrow_field(type_.element))
    if isinstance(type_, MapType):
        return pa.map_(arrow_field(type_.key), arrow_field(type_.value))
    raise UnsupportedError(f"not supported: type {type_} in data files, because no Arrow form is known for it")


def stored_field(f: NestedField) -> pa.Field | None:
    """The field as a Parquet file stores it; None if nothing is stored (unknown, or a struct of only unknown fields)."""
    type_ = _stored_type(f.type)
    if type_ is None:
        return None
    return pa.field(f.name, type_, nullable=not f.required, metadata={FIELD_ID: str(f.field_id).encode()})


def stored_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a Parquet file of this table schema."""
    return pa.schema([s for f in schema.fields if (s := stored_field(f)) is not None])


def _stored_type(type_: IcebergType) -> pa.DataType | None:
    if type_ == UNKNOWN:
        return None
    if type_ == UUID:
        return pa.uuid()
    if isinstance(type_, GeometryType):
        return _GeoArrowWkb.of(type_.crs, "planar")
    if isinstance(type_, GeographyType) and type_.algorithm == "spherical":
        return _GeoArrowWkb.of(type_.crs, "spherical")
    if isinstance(type_, StructType):
        fields = [s for f in type_.fields if (s := stored_field(f)) is not None]
        return pa.struct(fields) if fields else None
    if isinstance(type_, ListType):
        element = stored_field(type_.element)
        return None if element is None else pa.list_(element)
    if isinstance(type_, MapType):
        key, value = stored_field(type_.key), stored_field(type_.value)
        return None if key is None or value is None else pa.map_(key, value)
    return arrow_type(type_)


def schema_of_arrow(source: pa.Schema) -> Schema:
    """A table schema for rows of that Arrow schema, ids assigned from 1 as Java does (a level's fields before their children).

    Ids in ``PARQUET:field_id`` are ignored: they belong to another table. Raises SchemaError for a type that Iceberg does not have.
    """
    ids = itertools.count(1)
    return Schema(StructType(_convert_fields(list(source), ids, "")))


def _convert_fields(fields: list[pa.Field], ids: Iterator[int], path: str) -> tuple[NestedField, ...]:
    field_ids = [next(ids) for _ in fields]
    return tuple(
        NestedField(i, f.name, type_of_arrow(f.type, ids, path + f.name), not f.nullable)
        for i, f in zip(field_ids, fields, strict=True)
    )


def type_of_arrow(type_: pa.DataType, ids: Iterator[int], path: str = "") -> IcebergType:
    """The Iceberg type that holds every value of an Arrow type; ``path`` names the column in errors. Raises SchemaError."""
    type_ = plain_type(type_)
    if isinstance(type_, pa.DictionaryType):
        return type_of_arrow(type_.value_type, ids, path)
    if pa.types.is_struct(type_):
        return StructType(_convert_fields([type_.field(i) for i in range(type_.num_fields)], ids, path + "."))
    if pa.types.is_map(type_):
        key_id, value_id = next(ids), next(ids)
        key = NestedField(key_id, "key", type_of_arrow(type_.key_type, ids, path + ".key"), True)
        value = type_of_arrow(type_.item_type, ids, path + ".value")
        return MapType(key, NestedField(value_id, "value", value, not type_.item_field.nullable))
    if is_list(type_):
        element_id = next(ids)
        element = type_of_arrow(type_.value_type, ids, path + ".element")
        return ListType(NestedField(element_id, "element", element, not type_.value_field.nullable))
    return _primitive_of_arrow(type_, path)


_ARROW_PRIMITIVES: dict[Any, IcebergType] = {
    pa.bool_(): BOOLEAN,
    pa.int8(): INT,
    pa.int16(): INT,
    pa.int32(): INT,
    pa.uint8(): INT,
    pa.uint16(): INT,
    pa.int64(): LONG,
    pa.uint32(): LONG,
    pa.float16(): FLOAT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.date32(): DATE,
    pa.date64(): DATE,
    pa.time32("s"): TIME,
    pa.time32("ms"): TIME,
    pa.time64("us"): TIME,
    pa.string(): STRING,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.binary(): BINARY,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.null(): UNKNOWN,
    pa.uuid(): UUID,
}


def _primitive_of_arrow(type_: pa.DataType, path: str) -> IcebergType:
    if (plain := _ARROW_PRIMITIVES.get(type_)) is not None:
        return plain
    if pa.types.is_decimal(type_):
        if type_.precision <= 38 and type_.scale >= 0:
            return DecimalType(precision=type_.precision, scale=type_.scale)
        raise SchemaError(f"column {path}: {type_} is outside decimal(38, S) with S >= 0")
    if pa.types.is_timestamp(type_):
        nanos, zoned = type_.unit == "ns", type_.tz is not None
        return (TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS) if nanos else (TIMESTAMPTZ if zoned else TIMESTAMP)
    if pa.types.is_fixed_size_binary(type_):
        return FixedType(length=type_.byte_width)
    raise SchemaError(f"column {path}: Arrow type {type_} has no Iceberg type that holds all its values")
