"""A table's rows as a plain model: stored values by field id, what a scan shows of them under a later schema, and conditions.

A stored value keeps the type it was written with, and the model promotes it; a field that a row was written without shows its
initial default. Nothing here uses the package's readers, evaluators or Arrow.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from iceberg_ops.data.arrow.variant_values import Variant
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MISSING,
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
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
    list_of,
    map_of,
)
from iceberg_ops.spec.values import decimal_of, float32
from tests.generated.drawing import Draw

Row = tuple[Any, ...]
Values = dict[int, Any]
"""A stored row, or struct: by field id, a ``Stored``, a list, pairs of a map, another ``Values``, or None."""
_DAY = dt.date(1970, 1, 1)
_START = dt.datetime(1970, 1, 1)
_MICROS_A_DAY = 86_400_000_000
OF_SPARK = (INT, LONG, FLOAT, DOUBLE, DATE, STRING, BINARY, TIMESTAMP, TIMESTAMPTZ, BOOLEAN, DecimalType(precision=7, scale=2),
            DecimalType(precision=20, scale=3))  # fmt: skip
OF_NO_ENGINE = (UUID, TIME, FixedType(length=3))
OF_V3 = (TIMESTAMP_NS, TIMESTAMPTZ_NS, UNKNOWN, VARIANT)
NOT_IN_SOURCES = (UNKNOWN, VARIANT)
"""Columns of these types have no form in sources of Parquet, and no comparison."""
_NANOS = [0, -1, 1, 1_700_000_000_123_456_789]
_POOLS: Mapping[IcebergType, list[Any]] = {
    BOOLEAN: [True, False],
    INT: [0, 1, -1, 2, 3, 2**31 - 1, -(2**31)],
    LONG: [0, 1, -1, 2, 2**40, 2**63 - 1, -(2**63)],
    FLOAT: [0.0, -0.0, 1.5, float32(0.1), math.nan, math.inf, -math.inf],
    DOUBLE: [0.0, -0.0, 1.5, 0.1, math.nan, math.inf, -math.inf, 1e300],
    DATE: [0, -1, 1, 3, 18000, -70000],
    TIME: [0, 1, _MICROS_A_DAY - 1],
    TIMESTAMP: [0, -1, 1, 1_700_000_000_123_456, -9_000_000_000_000_000],
    TIMESTAMPTZ: [0, -1, 1, 1_700_000_000_123_456, -9_000_000_000_000_000],
    TIMESTAMP_NS: _NANOS,
    TIMESTAMPTZ_NS: _NANOS,
    STRING: ["", "a", "ab", "b", "é", "\U0010ffff", "a" * 20, "\U0010ffff" * 20, "a\x00", "it's \\"],
    BINARY: [b"", b"a", b"ab", b"\x00", b"\xff" * 20],
    UUID: [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID(int=7)],
}
"""Few values each, so that rows, keys and literals meet; the ends of types among them."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A value that is neither null nor nested, with the type it was written with."""

    type: IcebergType
    value: Any


def type_of(draw: Draw, plain: tuple[IcebergType, ...], depth: int = 2) -> IcebergType:
    """Any type of ``plain`` values; nested ones have ids of 0."""
    kind = draw.choice(["struct", "map", "list", *["plain"] * 6]) if depth else "plain"
    if kind == "struct":
        return StructType(tuple(NestedField(0, f"f{i}", type_of(draw, plain, depth - 1)) for i in range(draw.randint(1, 3))))
    if kind == "map":
        return map_of(0, draw.choice([STRING, INT]), 0, type_of(draw, plain, depth - 1))
    return list_of(0, type_of(draw, plain, depth - 1)) if kind == "list" else draw.choice([*plain, INT, DATE, FLOAT, STRING])


def is_in_no_source(type_: IcebergType) -> bool:
    return type_ in NOT_IN_SOURCES or any(is_in_no_source(f.type) for f in child_fields(type_))


def plain_value(draw: Draw, type_: IcebergType) -> Any:
    """A canonical value of a type that is not nested."""
    if isinstance(type_, DecimalType):
        return decimal_of(draw.choice([0, 1, -1, 150, 10**type_.precision - 1, 1 - 10**type_.precision]), type_.scale)
    if isinstance(type_, FixedType):
        return draw.choice([b"\x00", b"x", b"\xff"]) * type_.length
    if type_ == VARIANT:
        return Variant(b"\x01\x00\x00", draw.choice([b"\x00", b"\x04", b"\x05a"]))
    return draw.choice(_POOLS[type_])


def value(draw: Draw, f: NestedField) -> Any:
    """A stored value of the field, sometimes null."""
    if f.type == UNKNOWN or (not f.required and draw.often(0.2)):
        return None
    if isinstance(f.type, StructType):
        return {c.field_id: value(draw, c) for c in f.type.fields}
    if isinstance(f.type, ListType):
        return [value(draw, f.type.element) for _ in range(draw.randint(0, 3))]
    if isinstance(f.type, MapType):
        keys = dict.fromkeys(plain_value(draw, f.type.key.type) for _ in range(draw.randint(0, 3)))
        return [(Stored(f.type.key.type, k), value(draw, f.type.value)) for k in keys]
    return Stored(f.type, plain_value(draw, f.type))


def shown(f: NestedField, stored: Any, *, is_missing: bool = False) -> Any:
    """The canonical value that a scan shows of a stored one; ``is_missing``: the row was written without the field."""
    if is_missing:
        return None if f.initial_default is MISSING else f.initial_default
    if stored is None or f.type == UNKNOWN:
        return None
    if isinstance(f.type, StructType):
        return tuple(shown(c, stored.get(c.field_id), is_missing=c.field_id not in stored) for c in f.type.fields)
    if isinstance(f.type, ListType):
        return [shown(f.type.element, v) for v in stored]
    if isinstance(f.type, MapType):
        return [(shown(f.type.key, k), shown(f.type.value, v)) for k, v in stored]
    if stored.type == DATE and f.type in (TIMESTAMP, TIMESTAMP_NS):
        return stored.value * _MICROS_A_DAY * (1 if f.type == TIMESTAMP else 1000)
    return stored.value


def stored_as_shown(type_: IcebergType, canonical: Any) -> Any:
    """What a statement stores that copies a shown value into a column of that type."""
    if canonical is None:
        return None
    if isinstance(type_, StructType):
        return {c.field_id: stored_as_shown(c.type, v) for c, v in zip(type_.fields, canonical, strict=True)}
    if isinstance(type_, ListType):
        return [stored_as_shown(type_.element.type, v) for v in canonical]
    if isinstance(type_, MapType):
        return [(Stored(type_.key.type, k), stored_as_shown(type_.value.type, v)) for k, v in canonical]
    return Stored(type_, canonical)


def row_of(schema: Schema, values: Values) -> Row:
    return tuple(shown(f, values.get(f.field_id), is_missing=f.field_id not in values) for f in schema.fields)


def comparable(canonical: Any) -> Any:
    """Equal for values that are the same in a table: one NaN, two zeros."""
    if isinstance(canonical, float):
        return "NaN" if math.isnan(canonical) else struct.pack(">d", canonical)
    if isinstance(canonical, tuple):
        return tuple(map(comparable, canonical))
    return ["list", *map(comparable, canonical)] if isinstance(canonical, list) else canonical


def texts(rows: Iterable[Row]) -> list[str]:
    return sorted(repr(comparable(tuple(row))) for row in rows)


@dataclass(frozen=True, slots=True)
class Single:
    """A column, or a field inside structs, with one plain value a row: its name in SQL, and the way to it from a row."""

    field: NestedField
    name: str
    path: tuple[int, ...]

    def of(self, row: Row) -> Any:
        found: Any = row
        for place in self.path:
            if found is None:
                return None
            found = found[place]
        return found


def singles(schema: Schema) -> list[Single]:
    found: list[Single] = []

    def look(fields: tuple[NestedField, ...], names: list[str], path: tuple[int, ...]) -> None:
        for place, f in enumerate(fields):
            if isinstance(f.type, StructType):
                look(f.type.fields, [*names, quoted(f.name)], (*path, place))
            elif f.type.is_primitive and f.type not in NOT_IN_SOURCES:
                found.append(Single(f, ".".join([*names, quoted(f.name)]), (*path, place)))

    look(schema.fields, [], ())
    return found


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL text, and its value for a row: true, false or None for unknown."""

    text: str
    of: Callable[[Row], bool | None]

    def keeps(self, row: Row) -> bool:
        return self.of(row) is True


def condition(draw: Draw, schema: Schema, depth: int = 2) -> Condition:
    if depth and draw.often(0.5):
        left, right = condition(draw, schema, depth - 1), condition(draw, schema, depth - 1)
        word, decides = draw.choice([("AND", False), ("OR", True)])

        def both(row: Row) -> bool | None:
            found = left.of(row), right.of(row)
            return decides if decides in found else None if None in found else not decides

        return Condition(f"({left.text}) {word} ({right.text})", both)
    if depth and draw.often(0.1):
        inner = condition(draw, schema, depth - 1)
        return Condition(f"NOT ({inner.text})", lambda row: None if (found := inner.of(row)) is None else not found)
    column = draw.choice([s for s in singles(schema) if s.field.field_id == 1 or draw.often(0.7)] or singles(schema))
    kind = draw.choice(["null", "in", "compare", "compare"])
    return {"null": _null_test, "in": _among, "compare": _compared}[kind](draw, column)


def _literal_value(draw: Draw, column: Single) -> Any:
    return draw.randint(1, 40) if column.field.field_id == 1 else plain_value(draw, column.field.type)


def _null_test(draw: Draw, column: Single) -> Condition:
    is_null = draw.often(0.5)
    return Condition(f"{column.name} IS {'' if is_null else 'NOT '}NULL", lambda row: (column.of(row) is None) == is_null)


def _among(draw: Draw, column: Single) -> Condition:
    found, has_null, is_in = [_literal_value(draw, column) for _ in range(draw.randint(1, 4))], draw.often(0.2), draw.often(0.7)
    listed = ", ".join([literal(column.field.type, v) for v in found] + ["NULL"] * has_null)

    def test(row: Row) -> bool | None:
        have = column.of(row)
        if have is None:
            return None
        if any(compared(have, v) == 0 for v in found):
            return is_in
        return None if has_null else not is_in

    return Condition(f"{column.name} {'' if is_in else 'NOT '}IN ({listed})", test)


_TESTS: Mapping[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0, "<>": lambda c: c != 0, "<": lambda c: c < 0, "<=": lambda c: c <= 0, ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}  # fmt: skip


def _compared(draw: Draw, column: Single) -> Condition:
    word, other = draw.choice(list(_TESTS)), _literal_value(draw, column)

    def test(row: Row) -> bool | None:
        have = column.of(row)
        return None if have is None else _TESTS[word](compared(have, other))

    return Condition(f"{column.name} {word} {literal(column.field.type, other)}", test)


def compared(a: Any, b: Any) -> int:
    """Below 0, 0 or above 0, as conditions compare: NaN is the greatest value and equals NaN, the zeros are equal."""
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    a, b = _ordered(a), _ordered(b)
    return int(a > b) - int(a < b)


def _ordered(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.bytes
    return [ord(c) for c in value] if isinstance(value, str) else value


def literal(type_: IcebergType, canonical: Any) -> str:
    """A value as Spark SQL; types that SQL lacks are written as text."""
    name = type_.name if type_.is_primitive else ""  # type: ignore[attr-defined]
    if isinstance(canonical, bool):
        return str(canonical).upper()
    if isinstance(canonical, float):
        word = "NaN" if math.isnan(canonical) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(canonical, repr(canonical))
        return f"CAST('{word}' AS {name.upper()})"
    if isinstance(canonical, decimal.Decimal):
        assert isinstance(type_, DecimalType)
        return f"CAST('{canonical}' AS DECIMAL({type_.precision},{type_.scale}))"
    if isinstance(canonical, str):
        return "'" + canonical.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(canonical, bytes):
        return f"X'{canonical.hex()}'"
    if isinstance(canonical, uuid.UUID):
        return f"CAST('{str(canonical).upper()}' AS uuid)" if canonical.int % 2 else f"'{canonical}'"
    if type_ == DATE:
        return f"DATE '{_DAY + dt.timedelta(canonical)}'"
    if type_ == TIME:
        return f"'{(_START + dt.timedelta(microseconds=canonical)).time()}'"
    return _timestamp(name, canonical) if name.startswith("timestamp") else str(canonical)


def _timestamp(name: str, canonical: int) -> str:
    is_nano, has_zone = name.endswith("_ns"), name.startswith("timestamptz")
    micros, rest = divmod(canonical, 1000) if is_nano else (canonical, 0)
    at = (_START + dt.timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    if rest:
        return f"'{at}{rest:03d}{'+00:00' if has_zone else ''}'"
    return f"TIMESTAMP '{at.replace('T', ' ')}Z'" if has_zone else f"TIMESTAMP_NTZ '{at.replace('T', ' ')}'"
