"""One table with a column of every type that conditions may use, with edge values; and the same rows for Spark.

A column's pool holds values that are difficult to compare: ends of ranges, both zeros, NaN, infinities, neighbours that differ in
the last digit, text with every character that SQL, LIKE or a file's statistics treat specially. Spark has no uuid and no
nanoseconds: there a uuid is its text, and a nanosecond timestamp a whole number.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID as Uuid

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_values import array_of
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
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
)
from iceberg_ops.spec.values import decimal_of, float32

DAY = 86_400_000_000
INTS = [-(2**31), -(2**31) + 1, -11, -1, 0, 1, 2, 10, 127, 128, 32767, 2**24 + 1, 2**31 - 1]
LONGS = [-(2**63), -(2**63) + 1, -(2**31) - 1, -1, 0, 1, 10, 2**31, 2**53, 2**53 + 1, 10**18, 2**63 - 2, 2**63 - 1]
DOUBLES = [
    -math.inf, -1e300, -1.5, -5e-324, -0.0, 0.0, 5e-324, 0.1, float32(0.1), 0.5, 1.0, 1.5, 2.0**24, 2.0**53, 1e10, 1e38, 1e300,
    math.inf, math.nan,
]  # fmt: skip
FLOATS = [
    -math.inf, float32(-3.4028235e38), -1.5, -(2.0**-149), -0.0, 0.0, 2.0**-149, float32(0.1), 0.5, 1.0, 1.5, 2.0**24,
    float32(1e10), float32(3.4028235e38), math.inf, math.nan,
]  # fmt: skip
TEXTS = [
    "", " ", "a", "ab", "abc", "a\\b", "a\\", "\\", "\\\\", "a\\\\b", "\\%", "%", "_", "a%b", "a_b", "axb", "a%", "100%", "'", '"',
    "it's", 'say "no"', "`", "é", "e\u0301", "😀", "a😀b", "a\nb", "\n", "\t", "a\rb", "\x00", "a\x00b", "\ud7ff", "\ue000",
    "\uffff", "a\uffff", "\U0010ffff", "\U0010ffff" * 20, "x" * 16, "x" * 17, "x" * 40, "x" * 39 + "y", "x" * 15 + "\ud7ff" + "x",
    "x" * 15 + "\U0010ffff" + "x", "w" * 5000, "w" * 4999 + "\\", " a ", "A", "B", "Z", "NULL", "null", "true", "1", "1.0", "NaN",
    "2020-01-01", ".*", "a.c", "[ab]", "(", "$", "^a", "a|b", "a+", "\\Q", "\\d", "--", "/*", ";", "ß", "ss", "İ", "ﬀ",
]  # fmt: skip
READ_TEXTS = [
    "1", "+1", "-7", " 7 ", "\t12\n", "007", "1\x7f", ".5", "5.", "-0", "1e3", "1E-2", "2.5e0", "1d", "2F", "1L", "0x1p3", "NaN",
    "nan", "+NaN", "inf", "-Infinity", "INFINITY", "1.005", "0.05", "-0.049", "9" * 38, "9" * 39, "1e38", "1e-400", "0e99",
    "2147483648", "2020", "2020-1", "2020-1-2", "2020-01-01", "2020-01-01T", "2020-01-01 x", "2020-02-30",
    "-0044-03-15", "+12020-01-01", "5881581", "epoch", "today", "true", "T",
    "yes", "no", "0", "f", "\u0663", "\xa01", "1_0", "1,5", "2020/01/01",
]  # fmt: skip
"""Texts that a cast reads as numbers, dates or truth values, and texts beside them."""
DATES = [-719162, -719528, -366, -1, 0, 1, 30, 18262, 19782, 2932896, 2932897, 50_000_000]
TIMES = [0, 1, 999, 1_000_000, 43_200_000_000, 43_200_000_001, 45_296_789_000, DAY - 1_000_000, DAY - 1]
INSTANTS = [
    -62_135_596_800_000_000, -DAY - 1, -DAY, -1, 0, 1, 999_999, 1_000_000, 18262 * DAY, 18262 * DAY - 1, 18262 * DAY + 1,
    18262 * DAY + DAY // 2, 19782 * DAY + 45_296_789_000, 253_402_300_799_999_999, 253_402_300_800_000_000, 2**62,
]  # fmt: skip
NANOS = [-(2**63), -DAY * 1000 - 1, -1000, -999, -1, 0, 1, 999, 1000, 1001, 1_510_871_468_000_001_001, 1_510_871_468_000_001_000,
         1_510_871_468_000_000_999, 18262 * DAY * 1000, 18262 * DAY * 1000 + 1, 2**63 - 1]  # fmt: skip
UUIDS = [Uuid(int=n) for n in (0, 1, 2**63 - 1, 2**63, 2**64, 2**127 - 1, 2**127, 2**128 - 1, 0xF79C3E09677C4BBDA479512F87F1ACE1)]
BYTES = [b"", b"\x00", b"\x00\x00", b"a", b"ab", b"abc", b"a\xff", b"b", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\xff" * 20,
         b"x" * 16, b"x" * 17, b"'\\%_\""]  # fmt: skip
FIXED = [b"\x00\x00\x00", b"abc", b"ab\x00", b"ab\xff", b"\x80\x00\x00", b"\xff\xff\xff"]


def decimals(precision: int, scale: int) -> list[Decimal]:
    """Both ends, their neighbours, zero, the last digit, and numbers with and without zeros at the end."""
    top = 10**precision - 1
    half, tenth = 10 ** (precision // 2), 10 ** max(scale - 1, 0)
    whole = {0, 1, -1, top, -top, top - 1, 1 - top, half, 5 * tenth, -15 * tenth}
    whole |= {10**scale, 11 * tenth, 123456789012345678901234567890 % (top + 1)}
    return [decimal_of(n, scale) for n in sorted(w for w in whole if abs(w) <= top)]


COLUMNS: Mapping[str, tuple[IcebergType, list[Any]]] = {
    "flag": (BOOLEAN, [True, False]),
    "i": (INT, INTS),
    "l": (LONG, LONGS),
    "f": (FLOAT, FLOATS),
    "d": (DOUBLE, DOUBLES),
    "dec": (DecimalType(9, 2), decimals(9, 2)),
    "whole": (DecimalType(38, 0), decimals(38, 0)),
    "mid": (DecimalType(38, 10), decimals(38, 10)),
    "deep": (DecimalType(38, 38), decimals(38, 38)),
    "tiny": (DecimalType(1, 1), decimals(1, 1)),
    "day": (DATE, DATES),
    "t": (TIME, TIMES),
    "ntz": (TIMESTAMP, INSTANTS),
    "ts": (TIMESTAMPTZ, INSTANTS),
    "ns": (TIMESTAMP_NS, NANOS),
    "tzns": (TIMESTAMPTZ_NS, NANOS),
    "s": (STRING, TEXTS),
    "u": (UUID, UUIDS),
    "bin": (BINARY, BYTES),
    "fix": (FixedType(3), FIXED),
}
NESTED: Mapping[str, tuple[IcebergType, list[Any]]] = {
    "x": (INT, INTS),
    "y z": (STRING, [*TEXTS[:30], *READ_TEXTS]),
    "d": (DOUBLE, DOUBLES),
}
INNER = StructType(tuple(NestedField(50 + n, name, type_) for n, (name, (type_, _)) in enumerate(NESTED.items())))
SCHEMA = Schema.of(
    NestedField(100, "id", LONG, True),
    *(NestedField(n, name, type_) for n, (name, (type_, _)) in enumerate(COLUMNS.items(), 1)),
    NestedField(49, "inner", INNER),
)
TYPES: Mapping[str, IcebergType] = {n: t for n, (t, _) in COLUMNS.items()} | {f"inner.{n}": t for n, (t, _) in NESTED.items()}
POOLS: Mapping[str, list[Any]] = {n: p for n, (_, p) in COLUMNS.items()} | {f"inner.{n}": p for n, (_, p) in NESTED.items()}

Row = tuple[Any, ...]
"""A canonical row of SCHEMA."""


def rows(rng: random.Random, count: int = 96) -> list[Row]:
    """Every value of every pool is in one of the rows, NULL in several; a struct is NULL, or its fields are."""
    columns = [_filled(rng, pool, count) for _, pool in COLUMNS.values()]
    inner = list(zip(*(_filled(rng, pool, count) for _, pool in NESTED.values()), strict=True))
    parents = [None if rng.random() < 0.1 else values for values in inner]
    return [(i, *values) for i, values in enumerate(zip(*columns, parents, strict=True))]


def _filled(rng: random.Random, pool: list[Any], count: int) -> list[Any]:
    values = [*pool, *(rng.choice([None, *pool]) for _ in range(count - len(pool) - 3)), None, None, None]
    rng.shuffle(values)
    return values[:count]


def batch_of(found: list[Row]) -> pa.RecordBatch:
    """The rows in our canonical Arrow types."""
    arrays = [array_of(f.type, [row[n] for row in found]) for n, f in enumerate(SCHEMA.fields)]
    return pa.RecordBatch.from_arrays(arrays, names=[f.name for f in SCHEMA.fields])


def for_spark(found: list[Row]) -> pa.Table:
    """The rows in types that Spark takes; see the module's docstring. ``t`` is text that Spark is to cast to TIME."""
    arrays = []
    for n, f in enumerate(SCHEMA.fields):
        values = [row[n] for row in found]
        if f.type == UUID:
            arrays.append(pa.array([None if v is None else str(v) for v in values], pa.string()))
        elif f.type in (TIMESTAMP_NS, TIMESTAMPTZ_NS):
            arrays.append(pa.array(values, pa.int64()))
        elif f.type == TIME:
            arrays.append(pa.array([None if v is None else _clock(v) for v in values], pa.string()))
        else:
            array = array_of(f.type, values)
            arrays.append(array.cast(pa.binary()) if isinstance(f.type, FixedType) else array)
    return pa.table(arrays, names=[f.name for f in SCHEMA.fields])


def _clock(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"
