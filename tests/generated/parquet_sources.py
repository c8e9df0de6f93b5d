"""Folders of Parquet files as many writers leave them, as the source of an append, with the result that the documented rules define
(docs/operations.md, "Without Spark": each column has the table's type or a narrower one).

Whatever form a file stores a column in, the value that it stands for is known: a lane stores exactly that value, or refuses the
source. The rules are implemented here a second time; no code of the source readers is used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    DecimalType,
    NestedField,
    StructType,
    list_of,
)
from tests.actions.test_import_odd_files import doctored
from tests.generated.drawing import Draw

SPARK_SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "n", INT),
    NestedField(3, "x", DOUBLE),
    NestedField(4, "d", DecimalType(precision=12, scale=2)),
    NestedField(5, "ts", TIMESTAMP),
    NestedField(6, "tz", TIMESTAMPTZ),
    NestedField(7, "name", STRING),
    NestedField(8, "s", StructType((NestedField(9, "lon", LONG), NestedField(10, "lat", INT)))),
    NestedField(11, "l", list_of(12, LONG)),
)
SCHEMA = Schema.of(*SPARK_SCHEMA.fields, NestedField(13, "ns", TIMESTAMP_NS))
WRITERS = ("parquet-mr version 1.8.2", "parquet-cpp version 1.5.1", "ClickHouse v23.8", "parquet-mr version 1.12.3")

Row = dict[str, Any]


def _struct(*names: str) -> pa.DataType:
    return pa.struct([(name, pa.int64() if name.lower() == "lon" else pa.int32()) for name in names])


FORMS: dict[str, tuple[list[pa.DataType], list[pa.DataType]]] = {
    "id": ([pa.int64(), pa.int32(), pa.int16(), pa.int8()], [pa.uint8(), pa.uint32()]),
    "n": ([pa.int32(), pa.int16(), pa.int8(), pa.null()], [pa.int64(), pa.uint16()]),
    "x": ([pa.float64(), pa.float32()], [pa.float16()]),
    "d": ([pa.decimal128(12, 2), pa.decimal128(9, 2)], [pa.decimal128(13, 2), pa.decimal128(12, 3), pa.float64()]),
    "ts": ([pa.timestamp("us")], [pa.timestamp("ms"), pa.timestamp("ns"), pa.date32()]),
    "tz": ([pa.timestamp("us", "UTC")], [pa.timestamp("ms", "UTC"), pa.timestamp("us")]),
    "name": ([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], [pa.binary()]),
    "s": ([_struct("lon", "lat")], [_struct("lat", "lon"), _struct("LON", "lat"), _struct("lon"), pa.int64()]),
    "l": ([pa.list_(pa.int64()), pa.list_(pa.int32()), pa.large_list(pa.int64())], [pa.list_(pa.uint32()), pa.int64()]),
    "ns": ([pa.timestamp("ns")], [pa.timestamp("us")]),
}
"""For each column the forms that fit the table, and those that lane local leaves to Spark."""
OTHER_VALUES = (pa.float64(), pa.timestamp("us"), pa.binary(), pa.int64(), _struct("lon"))
"""Forms of the second kind that do not hold the column's own values."""


Odd = tuple[str, str, pa.DataType | None]
"""What is odd in a file, the column and its form if it is that."""
PLAIN: Odd = ("plain", "", None)
FORM = "form"
OTHERS = ("INT96", "no id", "extra column", "a name twice", "null id")
ODD: tuple[Odd, ...] = (
    *((FORM, name, form) for name, forms in FORMS.items() for form in forms[1]),
    *((what, "", None) for what in OTHERS),
)


@dataclass
class Drawn:
    """A source: its folder and rows. ``refused``: why lane local refuses it, by kind of error; no rows are committed then."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    has_other_values: bool = False


def source(draw: Draw, folder: Path, schema: Schema, first_id: int, odd: Odd, most: int = 3) -> Drawn:
    """One file or more; the last one is ``odd``."""
    drawn = Drawn(folder)
    folder.mkdir(parents=True)
    count = min(most, draw.choice([1, 1, 2, 3]))
    for number in range(count):
        own = odd if number == count - 1 else PLAIN
        _file(draw, drawn, schema, folder / f"{number}.parquet", first_id + 9 * number, own)
    draw.note("refused" if drawn.refused else "taken")
    return drawn


def _file(draw: Draw, drawn: Drawn, schema: Schema, path: Path, first_id: int, odd: Odd) -> None:
    columns = [f.name for f in schema.fields]
    what, odd_column, odd_form = odd
    forms = {name: odd_form if name == odd_column else draw.choice(FORMS[name][0]) for name in columns}
    left_out = {name for name in draw.sample(columns[1:], draw.choice([0, 0, 1, 3])) if name != odd_column}
    if what == "INT96" and "ns" in columns:
        left_out = {"ts", "tz"}  # Arrow reads INT96 as the type of the column that is left.
    rows = [_row(draw, schema, first_id + n, forms) for n in range(draw.choice([0, 1, 3, 8]))]
    names = {name: draw.choice([name, name, name.upper()]) for name in columns}
    fields = [pa.field(names[name], forms[name], name != "id" or draw.often(0.5)) for name in columns if name not in left_out]
    if what == "no id":
        fields = fields[1:]
    if what == "null id" and rows:
        fields[0] = fields[0].with_nullable(True)
    draw.shuffle(fields)
    stored = [[_stored(row[f.name.lower()], f) for row in rows] for f in fields]
    if what == "null id" and rows:
        stored[[f.name.lower() for f in fields].index("id")][-1] = None
    if what in ("extra column", "a name twice"):
        name = "extra" if what == "extra column" else next(f.name.swapcase() for f in fields)
        fields, stored = [*fields, pa.field(name, pa.int32())], [*stored, [1] * len(rows)]
    ids = draw.often(0.3)  # Of another table: columns are found by name.
    marked = [f.with_metadata({"PARQUET:field_id": str(n + 5)}) if ids else f for n, f in enumerate(fields)]
    table = pa.Table.from_arrays([pa.array(v, f.type) for v, f in zip(stored, fields, strict=True)], schema=pa.schema(marked))
    options = {
        "write_statistics": draw.often(0.7), "store_schema": draw.often(0.5), "use_dictionary": draw.often(0.5),
        "row_group_size": draw.choice([2, 100]), "data_page_version": draw.choice(["1.0", "2.0"]),
        "use_compliant_nested_type": draw.often(0.5), "compression": draw.choice(["none", "snappy", "zstd"]),
    }  # fmt: skip
    pq.write_table(table, path, use_deprecated_int96_timestamps=what == "INT96", **options)
    if options["data_page_version"] == "1.0" and draw.often(0.6):
        doctored(path, created_by=draw.choice(WRITERS))
        draw.note("of an old writer")
    draw.note(*(f"column {f.name.lower()} as {f.type}" for f in fields), *(["field ids"] if ids else []), what)
    draw.note(*(name for name, given in options.items() if given is False), *(["no rows"] if not rows else []))
    drawn.rows += [{name: row[name] if name not in left_out else None for name in columns} for row in rows]
    drawn.has_other_values |= odd_form in OTHER_VALUES
    drawn.refused |= _refusals(path, what, forms, left_out, rows)


def _refusals(path: Path, what: str, forms: dict[str, pa.DataType], left_out: set[str], rows: list[Row]) -> set[str]:
    """The kinds of errors of a file."""
    if what in ("no id", "extra column", "a name twice"):
        return {"BAD_SCHEMA"}
    footer = pq.read_metadata(path)
    unknown_nulls = what == "null id" and bool(rows)
    for n in range(footer.num_columns):
        leaf = footer.schema.column(n)
        if leaf.path.lower() == "id" and leaf.max_definition_level:
            groups = [group for g in range(footer.num_row_groups) if (group := footer.row_group(g)).num_rows]
            unknown_nulls |= any((s := g.column(n).statistics) is None or not s.has_null_count for g in groups)
    int96 = what == "INT96" and any(pa.types.is_timestamp(t) for name, t in forms.items() if name not in left_out)
    return {"UNSUPPORTED"} if what == FORM or unknown_nulls or int96 else set()


def _row(draw: Draw, schema: Schema, key: int, forms: dict[str, pa.DataType]) -> Row:
    """The values that a row stands for; all forms of a column hold them exactly."""
    day = date(2024, 2, 29) + timedelta(days=draw.choice([0, 1, -1, -20_000, draw.randint(-9000, 300)]))
    moment = datetime(day.year, day.month, day.day)
    micros = moment if forms["ts"] == pa.date32() else moment + timedelta(milliseconds=draw.choice([0, 1, 86_399_999]))
    values: Row = {
        "n": draw.choice([0, 127, draw.randint(0, 99), *([-1] if pa.types.is_signed_integer(forms["n"]) else [])]),
        "x": draw.choice([0.0, -0.0, 1.5, -2.25, math.nan, math.inf]),
        "d": Decimal(draw.choice([0, 1, -1, 9_999_999, draw.randint(-9999, 9999)])).scaleb(-2),
        "ts": micros,
        "tz": (moment + timedelta(milliseconds=draw.choice([0, 999]))).replace(tzinfo=UTC),
        "name": draw.choice(["", "a", "A", "ä", "z" * 70, "\U0001f600", "O'Brien"]),
        "s": {"lon": draw.choice([None, 0, key]), "lat": draw.choice([None, -key])},
        "l": [draw.choice([None, 0, key]) for _ in range(draw.choice([0, 1, 3]))],
        "ns": draw.choice([0, 1000, -1000, 1_700_000_000_123_456_000]),
    }
    if not pa.types.is_null(forms["n"]):
        values = {name: None if draw.often(0.15) else value for name, value in values.items()}
    else:
        values["n"] = None
    return {"id": key, **{f.name: values[f.name] for f in schema.fields if f.name != "id"}}


def _stored(value: Any, f: pa.Field) -> Any:
    """A value in the form of a file's column: of the same number, moment or text, or another value if the form cannot hold it."""
    if value is None:
        return None
    if pa.types.is_struct(f.type):
        return {part.name: value[part.name.lower()] for part in f.type}
    if isinstance(value, dict | list) and pa.types.is_int64(f.type):
        return 1
    if pa.types.is_float64(f.type) and isinstance(value, Decimal):
        return float(value)
    if f.type == pa.timestamp("us") and isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if pa.types.is_timestamp(f.type) and isinstance(value, int):
        return value if f.type.unit == "ns" else value // 1000
    return value.encode() if f.type == pa.binary() else value


def plain(row: Row) -> str:
    """A row in a form that compares: one NaN, and moments as text."""

    def one(value: Any) -> Any:
        if isinstance(value, float) and math.isnan(value):
            return "NaN"
        return value.isoformat() if isinstance(value, datetime) else value

    return repr({name: one(value) for name, value in row.items()})
