"""Schemas, partition specs, sort orders and rows for generated cases, with frequent problem values."""

from __future__ import annotations

import uuid
from typing import Any

from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
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
from tests.generated.drawing import Draw

OF_SPARK = (BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATE, TIMESTAMP, TIMESTAMPTZ, STRING, BINARY)
OF_NO_ENGINE = (TIME, UUID, TIMESTAMP_NS, TIMESTAMPTZ_NS)
TRANSFORMS = (
    IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, bucket(16), bucket(3), truncate(1), truncate(4), truncate(10), truncate(1000)
)  # fmt: skip
TRANSFORM_NAMES = tuple(dict.fromkeys(t.name for t in TRANSFORMS))
NAMES = ("id", "Name", "a b", "ünï", "x.y", "select", "n-1", "q`q", "V", "w", "z9", "ключ")
_TEXT = ("", "a", "A", "aa", "ab", "Zoë", "ü", "\U0001f600", "a" * 40, "b" * 20 + "x", "\x00", " ", "null", "ﬀ", "\U0010ffff" * 20)
_DAY_MICROS = 86_400_000_000


def primitive(draw: Draw, *, spark: bool = False, of: str = "") -> IcebergType:
    """``of``: the name of a transform that takes the type."""
    while not _transforms(found := _primitive(draw, spark), of):
        pass
    return found


def _primitive(draw: Draw, spark: bool) -> IcebergType:
    kinds: list[IcebergType] = [*OF_SPARK, *(() if spark else OF_NO_ENGINE)]
    found = draw.choice([*kinds, "decimal", "decimal", "fixed"])
    if isinstance(found, str):
        precision = draw.choice([1, 5, 9, 10, 18, 19, 38])
        is_decimal = found == "decimal"
        return (
            DecimalType(precision=precision, scale=draw.randint(0, precision))
            if is_decimal
            else FixedType(length=draw.choice([1, 5, 16]))
        )
    return found


def type_of(draw: Draw, *, spark: bool = False, depth: int = 2) -> IcebergType:
    """Any type; nested ones have ids of 0."""
    if depth == 0 or draw.often(0.75):
        return primitive(draw, spark=spark)

    def inner() -> IcebergType:
        found = type_of(draw, spark=spark, depth=depth - 1)
        return STRING if spark and isinstance(found, FixedType) else found  # a fixed inside a nested column is not Spark's

    kind = draw.choice(["struct", "list", "map"])
    if kind == "list":
        return list_of(0, inner(), element_required=draw.often(0.3))
    if kind == "map":
        return map_of(0, draw.choice([STRING, INT]), 0, inner(), value_required=draw.often(0.3))
    names = draw.sample(NAMES, draw.randint(1, 3))
    return StructType(tuple(NestedField(0, name, inner(), draw.often(0.2)) for name in names))


def schema(draw: Draw, *, spark: bool = False, of: tuple[str, str] = ("", "")) -> Schema:
    """At least two primitive columns, which the transforms named ``of`` take, required ones among them; ids do not follow the
    columns' places."""
    types = [primitive(draw, spark=spark, of=name) for name in of]
    types += [type_of(draw, spark=spark) for _ in range(draw.randint(0, 4))]
    names = draw.sample(NAMES, len(types))
    struct = StructType(tuple(NestedField(0, n, t, draw.often(0.2)) for n, t in zip(names, types, strict=True)))
    start = draw.randint(1, 50)
    counter = iter(range(start, start + 1000))
    fresh = with_fresh_ids(struct, lambda: next(counter))
    assert isinstance(fresh, StructType)
    for f in fresh.fields:
        draw.note(f"column {getattr(f.type, 'name', type(f.type).__name__)}")
    return Schema(fresh, 0)


def _sources(found: Schema) -> list[NestedField]:
    """Primitive columns, those in structs included."""
    sources: list[NestedField] = []

    def look(fields: tuple[NestedField, ...]) -> None:
        for f in fields:
            if isinstance(f.type, StructType):
                look(f.type.fields)
            elif f.type.is_primitive:
                sources.append(f)

    look(found.fields)
    return sources


def _transforms(type_: IcebergType, of: str = "") -> list[Transform]:
    return [t for t in TRANSFORMS if t.can_transform(type_) and of in ("", t.name)]


def _transform(draw: Draw, type_: IcebergType, what: str, of: str = "") -> Transform:
    found = draw.choice(_transforms(type_, of))
    draw.note(f"{what} {found.name}({getattr(type_, 'name', '')})", f"{what} {found.name}")
    return found


def _picked(draw: Draw, found: Schema, counts: list[int], of: str) -> list[tuple[NestedField, str]]:
    """Columns, and the name of a transform for each (empty: any); the first is one for ``of``."""
    columns = _sources(found)
    first = [(draw.choice([f for f in columns if _transforms(f.type, of)]), of)] if of else []
    return [*first, *((draw.choice(columns), "") for _ in range(draw.choice(counts) - len(first)))]


def spec(draw: Draw, found: Schema, of: str = "") -> PartitionSpec:
    """``of``: the name of the first field's transform."""
    fields = [
        PartitionField((f.field_id,), 1000 + i, _transform(draw, f.type, "partition", name), f"p{i} {f.name}")
        for i, (f, name) in enumerate(_picked(draw, found, [0, 0, 1, 1, 2, 3], of))
    ]
    return PartitionSpec(0, tuple(fields))


def sort_order(draw: Draw, found: Schema, of: str = "") -> SortOrder:
    """``of``: the name of the first field's transform."""
    fields = []
    for f, name in _picked(draw, found, [0, 1, 1, 1, 2, 2, 3], of):
        direction, nulls = draw.choice(list(SortDirection)), draw.choice(list(NullOrder))
        draw.note(f"sort {direction.value} {nulls.value}")
        fields.append(SortField((f.field_id,), _transform(draw, f.type, "sort", name), direction, nulls))
    return SortOrder(1, tuple(fields)) if fields else UNSORTED


def transforms_of(found: PartitionSpec, order: SortOrder) -> list[str]:
    """A note for each transform."""
    return [
        *(f"written: partition {f.transform.name}" for f in found.fields),
        *(f"written: sort {f.transform.name}" for f in order.fields),
    ]


EVERY_TRANSFORM = {f"written: {what} {name}" for what in ("partition", "sort") for name in TRANSFORM_NAMES}


def value(draw: Draw, type_: IcebergType) -> Any:
    """A canonical value, never null at the top."""
    if isinstance(type_, StructType):
        return tuple(optional(draw, f) for f in type_.fields)
    if isinstance(type_, ListType):
        return [optional(draw, type_.element) for _ in range(draw.choice([0, 1, 1, 3]))]
    if isinstance(type_, MapType):
        keys = {value(draw, type_.key.type) for _ in range(draw.choice([0, 1, 1, 3]))}
        return [(key, optional(draw, type_.value)) for key in keys]
    if isinstance(type_, DecimalType):
        limit = 10**type_.precision - 1
        return decimal_of(
            draw.choice([0, 1, -1, limit, -limit, draw.randint(-limit, limit), draw.randint(-99, 99) % (limit + 1)]), type_.scale
        )
    if isinstance(type_, FixedType):
        return draw.choice([b"\x00" * type_.length, b"\xff" * type_.length, draw.randbytes(type_.length)])
    return _plain(draw, str(type_))


def _plain(draw: Draw, name: str) -> Any:
    if name in ("int", "long"):
        limit = 2**31 - 1 if name == "int" else 2**63 - 1
        return draw.choice([0, -1, limit, -limit - 1, draw.randint(-limit, limit), draw.randint(-30, 30)])
    if name in ("float", "double"):
        return draw.choice([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5, -2.25, draw.randint(-9, 9) / 4, 2.0**-120])
    if name in ("timestamp", "timestamptz"):
        return draw.choice([0, -1, 1, draw.randint(-(2**55), 2**56), draw.randint(-3, 3) * _DAY_MICROS - draw.randint(0, 1)])
    if name in ("timestamp_ns", "timestamptz_ns"):
        return draw.choice([0, -1, 2**63 - 1, -(2**63), draw.randint(-(2**60), 2**60)])
    return {
        "boolean": lambda: draw.often(0.5),
        "date": lambda: draw.choice([0, -1, 18262, draw.randint(-700_000, 2_900_000), draw.randint(-40, 40)]),
        "time": lambda: draw.choice([0, _DAY_MICROS - 1, draw.randint(0, _DAY_MICROS - 1)]),
        "string": lambda: draw.choice([*_TEXT, "".join(draw.choice("abAB zé") for _ in range(draw.randint(0, 6)))]),
        "uuid": lambda: uuid.UUID(int=draw.choice([0, 2**128 - 1, 1 << 127, draw.getrandbits(128)])),
        "binary": lambda: draw.choice([b"", b"\xff" * 20, b"\x00", b"\xfe\xff", draw.randbytes(draw.randint(0, 6))]),
    }[name]()


def optional(draw: Draw, f: NestedField) -> Any:
    return value(draw, f.type) if f.required or draw.often(0.8) else None


def rows(draw: Draw, found: Schema, most: int = 60) -> list[tuple[Any, ...]]:
    """Rows whose columns repeat values and have runs of nulls."""
    pools = {f.field_id: [optional(draw, f) for _ in range(draw.choice([1, 3, 12]))] for f in found.fields}
    return [tuple(draw.choice(pools[f.field_id]) for f in found.fields) for _ in range(draw.randint(1, most))]
