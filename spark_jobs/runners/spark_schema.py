"""Converts Iceberg schemas to Spark schemas, and the few values that have another form in Spark.

Rows pass between Spark and Arrow in Spark's own Arrow forms: uuid is text, fixed is binary, a timestamp without zone is
TIMESTAMP_NTZ. Types without an exact form in Spark 4.1 are refused by name rather than read through a lossy one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.name_matching import case_twins
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
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)

_PLAIN: dict[str, spark.DataType] = {
    "boolean": spark.BooleanType(),
    "int": spark.IntegerType(),
    "long": spark.LongType(),
    "float": spark.FloatType(),
    "double": spark.DoubleType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampNTZType(),
    "timestamptz": spark.TimestampType(),
    "string": spark.StringType(),
    "uuid": spark.StringType(),
    "fixed": spark.BinaryType(),
    "binary": spark.BinaryType(),
}


def spark_schema(schema: Schema) -> spark.StructType:
    """The Spark schema of an Iceberg schema, with every column nullable (Spark checks nothing; the job checks before writing).

    Raises UnsupportedError for a type without an exact form in Spark, and for columns that Spark cannot distinguish.
    """
    for a, b in sorted(case_twins(schema.struct)):
        raise UnsupportedError(
            f"not supported: a Spark job on a table whose columns {a!r} and {b!r} differ only in case, because Spark SQL takes the "
            "one for the other: rename one of them, or run the job with --lane local"
        )
    return _struct(schema.struct)


def _struct(struct: StructType) -> spark.StructType:
    return spark.StructType([spark.StructField(f.name, _type(f.type, f), True) for f in struct.fields])


def _type(type_: IcebergType, field: NestedField) -> spark.DataType:
    if isinstance(type_, StructType):
        return _struct(type_)
    if isinstance(type_, ListType):
        return spark.ArrayType(_type(type_.element.type, field), True)
    if isinstance(type_, MapType):
        return spark.MapType(_type(type_.key.type, field), _type(type_.value.type, field), True)
    if isinstance(type_, DecimalType):
        return spark.DecimalType(type_.precision, type_.scale)
    plain = _PLAIN.get(getattr(type_, "name", ""))
    if plain is None:
        raise UnsupportedError(
            f"not supported: column {field.name!r} of type {type_} in a Spark job, because Spark SQL has no exact form for it"
        )
    return plain


def to_spark(batch: pa.RecordBatch, schema: Schema) -> dict[int, pa.Array]:
    """The columns of our reader's batch for ``schema``, by field id, in the Arrow forms for Spark. (A table's column
    may have the name of a metadata column.)"""
    return {f.field_id: _array_to_spark(column, f.type) for f, column in zip(schema.fields, batch.columns, strict=True)}


def _array_to_spark(array: pa.Array, type_: IcebergType) -> pa.Array:
    stored_type = arrow_type(type_)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if getattr(type_, "name", "") == "uuid":
        return _uuid_text(array)
    return array if array.type == stored_type else array.cast(stored_type)


def _uuid_text(array: pa.Array) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    hexed = [None if v is None else v.hex() for v in storage.cast(pa.binary(16)).to_pylist()]
    return pa.array([None if h is None else f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}" for h in hexed], pa.string())


_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "uuid": pa.string(),
    "fixed": pa.binary(),
    "binary": pa.binary(),
}


def arrow_type(type_: IcebergType) -> pa.DataType:
    """The Arrow type in which values of an Iceberg type pass between Spark and Arrow. Raises KeyError for a type that
    ``spark_schema`` refuses."""
    if isinstance(type_, StructType):
        return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(pa.field("element", arrow_type(type_.element.type)))
    if isinstance(type_, MapType):
        return pa.map_(arrow_type(type_.key.type), arrow_type(type_.value.type))
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.name]  # type: ignore[attr-defined]


def refuse_nested_uuid(schema: Schema) -> None:
    """Raise UnsupportedError for a uuid or fixed inside a struct, list or map: Spark would return it as text or binary."""
    for field_id, f in schema.fields_by_id.items():
        nested = schema.parents[field_id] is not None
        if nested and (isinstance(f.type, FixedType) or getattr(f.type, "name", "") == "uuid"):
            raise UnsupportedError(
                f"not supported: {schema.names_by_id[field_id]!r} of type {f.type} inside a nested column in a Spark job"
            )


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """A batch from Spark, with Spark's own forms converted (uuid as text, fixed as binary); the writer conforms the
    rest.

    Columns that the table does not have (places, changes) are left out. Raises DataError for text that is not a uuid, and for a
    fixed of another length.
    """
    arrays, names = [], []
    for f in schema.fields:
        if f.name not in batch.schema.names:
            continue
        column = batch.column(f.name)
        if getattr(f.type, "name", "") == "uuid":
            column = _uuid_bytes(f.name, column)
        elif isinstance(f.type, FixedType):
            column = _fixed_bytes(f.name, column, f.type)
        arrays.append(column)
        names.append(f.name)
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _uuid_bytes(column: str, array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else _uuid(column, v) for v in array.to_pylist()], pa.binary(16))


def _uuid(column: str, text: str) -> bytes:
    try:
        data = bytes.fromhex(text.replace("-", ""))
    except ValueError:
        data = b""
    if len(data) != 16:
        raise DataError(f"column {column!r}: {text!r} does not fit uuid")
    return data


def _fixed_bytes(column: str, array: pa.Array, type_: FixedType) -> pa.Array:
    lengths = pc.binary_length(array)
    wrong = pc.drop_null(lengths.filter(pc.not_equal(lengths, type_.length)))
    if len(wrong):
        raise DataError(f"column {column!r}: a value of {wrong[0]} bytes does not fit {type_}")
    return array.cast(pa.binary(type_.length))


_OF_SPARK: dict[type[spark.DataType], IcebergType] = {
    spark.BooleanType: BOOLEAN,
    spark.ByteType: INT,
    spark.ShortType: INT,
    spark.IntegerType: INT,
    spark.LongType: LONG,
    spark.FloatType: FLOAT,
    spark.DoubleType: DOUBLE,
    spark.DateType: DATE,
    spark.TimestampNTZType: TIMESTAMP,
    spark.TimestampType: TIMESTAMPTZ,
    spark.StringType: STRING,
    spark.VarcharType: STRING,
    spark.CharType: STRING,
    spark.BinaryType: BINARY,
}


def iceberg_struct(struct: spark.StructType) -> StructType:
    """A Spark schema as an Iceberg struct, every field optional, with placeholder ids from 1.

    Raises UnsupportedError for a Spark type that Iceberg does not have (an interval, VOID).
    """
    return _convert_struct(struct, count(1), "")


def _convert_struct(struct: spark.StructType, ids: Iterator[int], path: str) -> StructType:
    return StructType(tuple(NestedField(next(ids), f.name, _convert_type(f.dataType, ids, path + f.name)) for f in struct.fields))


def _convert_type(type_: spark.DataType, ids: Iterator[int], path: str) -> IcebergType:
    if isinstance(type_, spark.StructType):
        return _convert_struct(type_, ids, f"{path}.")
    if isinstance(type_, spark.ArrayType):
        return ListType(NestedField(next(ids), "element", _convert_type(type_.elementType, ids, f"{path}.element")))
    if isinstance(type_, spark.MapType):
        key = NestedField(next(ids), "key", _convert_type(type_.keyType, ids, f"{path}.key"), required=True)
        return MapType(key, NestedField(next(ids), "value", _convert_type(type_.valueType, ids, f"{path}.value")))
    if isinstance(type_, spark.DecimalType):
        return DecimalType(type_.precision, type_.scale)
    spark_type = _OF_SPARK.get(type(type_))
    if spark_type is None:
        raise UnsupportedError(
            f"not supported: source column {path!r} of type {type_.simpleString()}, because Iceberg has no such type"
        )
    return spark_type
