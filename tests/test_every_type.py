"""Every type and transform of ``spec`` is known in every layer: a new one fails here, by its name, until each layer supports it.

Types are found, not listed: every constant and every class of ``spec.types``.
"""

from __future__ import annotations

import io
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from iceberg_ops.cli.column_definitions import parse_columns, parse_terms
from iceberg_ops.data.arrow.arrow_schema import arrow_type, schema_of_arrow, stored_schema
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.partition_values import sortable, transformed
from iceberg_ops.data.reading.json_rows import converter
from iceberg_ops.data.writing.avro_writer import avro_schema, encoder
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.serde.json.schema_json import type_from_json, type_to_json
from iceberg_ops.serde.json.single_value_json import from_json_value, to_json_value
from iceberg_ops.spec import transforms, types
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply, human_value, in_order
from iceberg_ops.spec.transforms import Transform, transform_from_text
from iceberg_ops.spec.types import (
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.spec.values import from_bytes, human, to_bytes

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
BY_CLASS: dict[type[IcebergType], IcebergType] = {
    FixedType: FixedType(length=2),
    DecimalType: DecimalType(precision=9, scale=2),
    GeometryType: GeometryType(),
    GeographyType: GeographyType(),
    StructType: StructType((NestedField(2, "a", types.INT, required=False),)),
    ListType: list_of(2, types.INT),
    MapType: map_of(2, types.STRING, 3, types.LONG),
}
"""An example of each class with parameters."""
VALUES: dict[str, Any] = {
    "boolean": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 1.5,
    "double": -0.1,
    "decimal": Decimal("-1.50"),
    "date": 20_000,
    "time": 86_399_999_999,
    "timestamp": -1,
    "timestamptz": 1,
    "timestamp_ns": -1,
    "timestamptz_ns": 1,
    "string": "größer",
    "uuid": uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    "fixed": b"\x00\xff",
    "binary": b"\x00\xff\x01",
    "geometry": POINT,
    "geography": POINT,
    "unknown": None,
    "StructType": (7,),
    "ListType": [1, 2],
    "MapType": [("k", 1)],
}
"""A canonical value of each type, by name, or by class where it is nested. (Values of variants have tests of their own.)"""


def _classes() -> list[type[IcebergType]]:
    found = [c for c in vars(types).values() if isinstance(c, type) and issubclass(c, IcebergType)]
    return [c for c in found if c not in (IcebergType, PrimitiveType)]


EVERY_TYPE: dict[str, IcebergType] = {
    **{str(t): t for t in vars(types).values() if isinstance(t, IcebergType)},
    **{c.__name__: BY_CLASS.get(c, IcebergType()) for c in _classes()},
}
each_type = pytest.mark.parametrize("type_", EVERY_TYPE.values(), ids=EVERY_TYPE)


def value_of(type_: IcebergType) -> Any:
    name = type_.name if isinstance(type_, PrimitiveType) else type(type_).__name__
    assert name in VALUES, f"no value of type {type_} is in VALUES"
    return VALUES[name]


def name_of(type_: IcebergType) -> str:
    return type_.name if isinstance(type_, PrimitiveType) else type(type_).__name__


@each_type
def test_every_class_has_an_example(type_: IcebergType) -> None:
    assert type(type_) is not IcebergType, "no example of this class is in BY_CLASS"


@each_type
def test_schemas_are_written_and_read(type_: IcebergType) -> None:
    assert type_from_json(type_to_json(type_)) == type_


@each_type
def test_single_values_are_written_and_read(type_: IcebergType) -> None:
    if type_ == types.VARIANT:
        with pytest.raises(UnsupportedError):
            to_json_value(type_, b"")
        return
    value = value_of(type_)
    if name_of(type_) in ("geometry", "geography"):
        with pytest.raises(UnsupportedError, match="only null"):
            from_json_value(type_, to_json_value(type_, value))
    else:
        assert from_json_value(type_, to_json_value(type_, value)) == value
    assert human(type_, value)
    if not type_.is_nested and value is not None:
        assert from_bytes(type_, to_bytes(type_, value)) == value


@each_type
def test_arrow_holds_its_values(type_: IcebergType) -> None:
    schema = Schema.of(NestedField(1, "c", type_, required=False))
    assert len(stored_schema(schema)) == (type_ != types.UNKNOWN)
    if type_ == types.VARIANT:
        return
    values = [value_of(type_), None]
    array = array_of(type_, values)
    assert array.type == arrow_type(type_)
    assert values_of(type_, array) == values
    assert all(converter(type_)(v) is not None for v in values if v is not None)


@each_type
def test_arrow_schemas_are_read_as_types(type_: IcebergType) -> None:
    if type_ in (types.UNKNOWN, types.VARIANT) or name_of(type_) in ("geometry", "geography"):
        return  # Arrow's forms of these are those of other types
    schema = Schema.of(NestedField(1, "c", type_, required=False))
    assert str(schema_of_arrow(stored_schema(schema)).struct.fields[0].type) == str(type_)


@each_type
def test_avro_files_hold_its_values(type_: IcebergType) -> None:
    schema = Schema.of(NestedField(1, "c", type_, required=False), NestedField(9, "d", types.INT, required=False))
    written = fastavro.parse_schema(avro_schema(schema))
    if type_ in (types.VARIANT, types.UNKNOWN):
        return
    record = {f["name"]: encoder(type_)(value_of(type_)) if f["name"] == "c" else 1 for f in written["fields"]}
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, written, record)
    assert sink.tell()


@each_type
def test_the_command_line_has_a_name_for_it(type_: IcebergType) -> None:
    spelled = {
        "StructType": "struct<a int>",
        "ListType": "list<int>",
        "MapType": "map<string, long>",
        "fixed": "fixed(2)",
        "timestamp": "timestamp_ntz",
    }
    (found,) = parse_columns(f"c {spelled.get(name_of(type_), str(type_))}")
    assert name_of(found.type) == name_of(type_)


# Transforms

EVERY_TRANSFORM: list[Transform] = [
    *(t for t in vars(transforms).values() if isinstance(t, Transform)),
    *(transform_from_text(name) for name in sorted(transforms._PLAIN_NAMES)),
    transforms.bucket(16),
    transforms.truncate(3),
]
PAIRS = {
    f"{transform} of {name}": (transform, type_)
    for transform in dict.fromkeys(EVERY_TRANSFORM)
    for name, type_ in EVERY_TYPE.items()
    if type(type_) is not IcebergType
    and not type_.is_nested
    and transform.can_transform(type_)
    and type_ not in (types.VARIANT, types.UNKNOWN)
}


@pytest.mark.parametrize(("transform", "type_"), PAIRS.values(), ids=PAIRS)
def test_a_transform_of_a_column_is_that_of_its_values(transform: Transform, type_: IcebergType) -> None:
    values = [value_of(type_), None]
    result = transform.result_type(type_)
    expected = [apply(transform, type_, value) for value in values]
    assert values_of(result, transformed(transform, type_, array_of(type_, values))) == expected
    assert len(sortable(transform, type_, array_of(type_, values))) == len(values)
    assert [in_order(transform, type_, v) is None for v in values] == [v is None for v in expected]
    assert human_value(transform, type_, expected[0])


@pytest.mark.parametrize("transform", dict.fromkeys(EVERY_TRANSFORM), ids=str)
def test_a_transform_has_a_text_and_a_name_in_sql(transform: Transform) -> None:
    assert transform_from_text(str(transform)) == transform
    if transform.is_void:
        return  # what a dropped partition field becomes: nobody asks for one
    name, _, width = str(transform).rstrip("]").partition("[")
    (term,) = parse_terms("c" if transform.is_identity else f"{name}({width + ', ' if width else ''}c)")
    assert term.transform == transform
