"""Hypothesis strategies for the format's types, values, schemas and partition specs."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Transform, bucket, truncate
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
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.spec.values import decimal_of

PLAIN_TYPES = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, STRING, UUID, BINARY)
V3_TYPES = (TIMESTAMP_NS, TIMESTAMPTZ_NS)

ints = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-(2**31), -(2**31) + 1, 2**31 - 1])
longs = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1])
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=24)
ODD_NAMES = (
    "1",
    "_1",
    "é",
    "_xE9",
    "a b",
    "a_x20b",
    "A",
    "a",
    "_row_id",
    "_last_updated_sequence_number",
    "_pos",
    "element",
    "key",
)
"""Alike in another case or once Avro has sanitized them, or names that files or readers keep for themselves."""
ALIKE = (("1", "_1"), ("é", "_xE9"), ("a b", "a_x20b"), ("A", "a"))
names = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="."), min_size=1, max_size=12) | st.sampled_from(
    ODD_NAMES
)


@st.composite
def decimal_types(draw: st.DrawFn) -> DecimalType:
    precision = draw(st.integers(1, 38))
    return DecimalType(precision=precision, scale=draw(st.integers(0, precision)))


def primitive_types(*, v3: bool = True) -> st.SearchStrategy[IcebergType]:
    """Types that have a binary and a JSON single value."""
    fixed = st.integers(1, 20).map(lambda n: FixedType(length=n))
    return st.one_of(st.sampled_from(PLAIN_TYPES + (V3_TYPES if v3 else ())), decimal_types(), fixed)


def _decimals(type_: DecimalType) -> st.SearchStrategy[Decimal]:
    limit = 10**type_.precision - 1
    return st.integers(-limit, limit).map(lambda n: decimal_of(n, type_.scale))


def values(type_: IcebergType, *, allow_nan: bool = True) -> st.SearchStrategy[Any]:
    """Canonical values of a type, never null at the top."""
    if isinstance(type_, DecimalType):
        return _decimals(type_)
    if isinstance(type_, FixedType):
        return st.binary(min_size=type_.length, max_size=type_.length)
    if isinstance(type_, StructType):
        return st.tuples(*(_optional(f) for f in type_.fields))
    if isinstance(type_, ListType):
        return st.lists(_optional(type_.element), max_size=4)
    if isinstance(type_, MapType):
        return st.lists(st.tuples(values(type_.key.type), _optional(type_.value)), max_size=4)
    return {
        "boolean": st.booleans(),
        "int": ints,
        "long": longs,
        "float": st.floats(width=32, allow_nan=allow_nan),
        "double": st.floats(allow_nan=allow_nan),
        "date": st.integers(-1_000_000, 3_000_000),
        "time": st.integers(0, 86_399_999_999),
        "timestamp": st.integers(-(2**55), 2**56) | longs,
        "timestamptz": st.integers(-(2**55), 2**56) | longs,
        "timestamp_ns": longs,
        "timestamptz_ns": longs,
        "string": texts,
        "uuid": st.integers(0, 2**128 - 1).map(lambda n: uuid.UUID(int=n)),
        "binary": st.binary(max_size=24),
        "unknown": st.none(),
    }[str(type_)]


def _optional(f: NestedField) -> st.SearchStrategy[Any]:
    return values(f.type) if f.required else st.none() | values(f.type)


@st.composite
def struct_types(draw: st.DrawFn, inner: st.SearchStrategy[IcebergType]) -> StructType:
    found = draw(st.lists(st.tuples(names, inner, st.booleans()), min_size=1, max_size=4, unique_by=lambda t: t[0]))
    return StructType(tuple(NestedField(0, name, type_, required and type_ != UNKNOWN) for name, type_, required in found))


def types(*, v3: bool = True, unknown: bool = False) -> st.SearchStrategy[IcebergType]:
    """Any type, nested ones with ids of 0: give them ids with ``with_fresh_ids``. ``unknown``: also what is stored nowhere, and
    structs without fields."""

    def nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
        lists = st.builds(lambda t, r: list_of(0, t, element_required=r and t != UNKNOWN), inner, st.booleans())
        maps = st.builds(
            lambda k, t, r: map_of(0, k, 0, t, value_required=r and t != UNKNOWN), primitive_types(v3=v3), inner, st.booleans()
        )
        return st.one_of(lists, maps, struct_types(inner))

    leaves = primitive_types(v3=v3)
    return st.recursive(leaves | st.sampled_from([UNKNOWN, StructType(())]) if unknown else leaves, nested, max_leaves=6)


@st.composite
def schemas(draw: st.DrawFn, *, v3: bool = True, unknown: bool = False, max_columns: int = 5) -> Schema:
    """Schemas with fresh ids from 1; names distinct at each level."""
    columns = draw(
        st.lists(
            st.tuples(names, types(v3=v3, unknown=unknown), st.booleans()),
            min_size=1,
            max_size=max_columns,
            unique_by=lambda t: t[0],
        )
    )
    if len(columns) > 1 and not draw(st.integers(0, 2)):
        pair = draw(st.sampled_from(ALIKE))
        columns = [(pair[i] if i < 2 else f"{name}~{i}", type_, required) for i, (name, type_, required) in enumerate(columns)]
    struct = StructType(
        tuple(
            NestedField(0, name, type_, required and type_ != UNKNOWN, draw(st.none() | texts)) for name, type_, required in columns
        )
    )
    counter = iter(range(1, 10_000))
    fresh = with_fresh_ids(struct, lambda: next(counter))
    assert isinstance(fresh, StructType)
    return Schema(fresh, draw(st.integers(0, 5)))


def transforms_for(type_: IcebergType) -> st.SearchStrategy[Transform]:
    """Transforms that take values of a type. Of the widths of truncate two take Java's 32-bit arithmetic beyond its range."""
    widths = (1, 10, 1000, (1 << 30) + 1, (1 << 31) - 1)
    candidates = [IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, bucket(16), bucket(7), *map(truncate, widths)]
    return st.sampled_from([t for t in candidates if t.can_transform(type_)])


@st.composite
def partition_specs(draw: st.DrawFn, schema: Schema) -> PartitionSpec:
    """Specs over the top-level primitive columns of a schema, ids from 1000."""
    columns = [f for f in schema.fields if f.type.is_primitive]
    picked = draw(st.lists(st.sampled_from(columns), max_size=3)) if columns else []
    fields = [PartitionField((f.field_id,), 1000 + i, draw(transforms_for(f.type)), f"p{i}_{f.name}") for i, f in enumerate(picked)]
    return PartitionSpec(0, tuple(fields))


@st.composite
def sort_orders(draw: st.DrawFn, schema: Schema) -> SortOrder:
    """Orders over the top-level primitive columns of a schema."""
    columns = [f for f in schema.fields if f.type.is_primitive]
    picked = draw(st.lists(st.sampled_from(columns), max_size=3)) if columns else []
    fields = tuple(
        SortField(
            (f.field_id,), draw(transforms_for(f.type)), draw(st.sampled_from(SortDirection)), draw(st.sampled_from(NullOrder))
        )
        for f in picked
    )
    return SortOrder(1 if fields else 0, fields)
