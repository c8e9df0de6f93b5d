"""Generated data files of other writers in a table: a filter, equality deletes and a scan give the rows of the model.

Generated are cases that other writers may produce but this package never does: NaNs of any bits, values and counts under a column
of type unknown, ORC timestamps of any year, damaged blocks of Avro. Files that cannot be read are refused by name.
"""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import metrics_all_match
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, LONG, TIMESTAMP, UNKNOWN, NestedField
from iceberg_ops.table.table import Table
from tests.builders import make_catalog
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "foreign files"
SCHEMA = Schema.of(
    NestedField(1, "id", LONG), NestedField(2, "x", DOUBLE), NestedField(3, "u", UNKNOWN), NestedField(4, "at", TIMESTAMP)
)
NANS = (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF)
FORMATS = (FileFormat.PARQUET, FileFormat.ORC)
_NANOS = 2**63 // 1000
WANTED = {
    "nan key",
    "nan row",
    "unknown is stored",
    "unknown is counted",
    "far orc timestamp",
    "parquet",
    "orc",
    "keys id x",
    "keys x",
}


def double(draw: Draw) -> float:
    if draw.often(0.4):
        return float(struct.unpack("<d", struct.pack("<Q", draw.choice(NANS)))[0])
    return draw.choice([0.0, -0.0, 1.5, -2.0])


def micros(draw: Draw, *, far: bool) -> int:
    """Microseconds; ``far``: also where 64-bit nanoseconds do not reach."""
    near = draw.choice([0, -1, _NANOS - 1, 1 - _NANOS, draw.randint(-(2**50), 2**50)])
    return draw.choice([near, -14_831_769_600_000_000, 253_402_300_799_999_999, _NANOS + 1, -_NANOS - 1]) if far else near


def column(name: str, values: list[Any], type_: pa.DataType, field_id: int) -> tuple[pa.Field, pa.Array]:
    ids = {"PARQUET:field_id": str(field_id), "iceberg.id": str(field_id)}
    return pa.field(name, type_, True, ids), pa.array(values, type_)


def put(table: Table, form: FileFormat, columns: list[tuple[pa.Field, pa.Array]], number: int, **more: Any) -> DataFile:
    made = pa.Table.from_arrays([c for _, c in columns], schema=pa.schema([f for f, _ in columns]))
    sink = io.BytesIO()
    (pq.write_table if form is FileFormat.PARQUET else orc.write_table)(made, sink)
    path = f"{table.location}/data/f{number}.{form.value}"
    table.io.write(path, sink.getvalue())
    size = len(sink.getvalue())
    return DataFile(file_path=path, file_format=form, record_count=made.num_rows, file_size_in_bytes=size, **more)


def key(value: float) -> Any:
    """Doubles as equality deletes compare them: one NaN, two zeros."""
    return "nan" if math.isnan(value) else (value, math.copysign(1, value))


def has_far(form: FileFormat, rows: list[dict[str, Any]]) -> bool:
    return form is FileFormat.ORC and any(not 1 - _NANOS <= row["at"] < _NANOS for row in rows)


def drawn_file(draw: Draw, table: Table, number: int, rows: list[dict[str, Any]], form: FileFormat) -> DataFile:
    columns = [
        column("id", [r["id"] for r in rows], pa.int64(), 1),
        column("x", [r["x"] for r in rows], pa.float64(), 2),
        column("at", [r["at"] for r in rows], pa.timestamp("us"), 4),
    ]
    counts: dict[str, Any] = {}
    if draw.often(0.5):
        columns.append(column("u", [draw.choice([None, 7]) for _ in rows], pa.int32(), 3))
        draw.note("unknown is stored")
        if draw.often(0.7):
            nulls = columns[-1][1].null_count
            counts = {"value_counts": {1: len(rows), 3: len(rows)}, "null_value_counts": {1: 0, 3: nulls}}
            draw.note("unknown is counted")
    draw.shuffle(columns)
    draw.note(form.value, *(["nan row"] if any(math.isnan(r["x"]) for r in rows) else []))
    return put(table, form, columns, number, **counts)


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "u IS NULL": lambda r: True,
    "u IS NOT NULL": lambda r: False,
    "u <=> NULL OR id < 0": lambda r: True,
    "x = double('NaN')": lambda r: math.isnan(r["x"]),
    "x IN (double('NaN'), 1.5D)": lambda r: math.isnan(r["x"]) or r["x"] == 1.5,
    "x > 1D": lambda r: math.isnan(r["x"]) or r["x"] > 1,
    "x = 0D": lambda r: r["x"] == 0,
    "id >= 4": lambda r: r["id"] >= 4,
}


def equality_deletes(draw: Draw, table: Table, number: int, rows: list[dict[str, Any]]) -> tuple[DataFile, list[dict[str, Any]]]:
    """A delete file of some rows' keys, whose NaNs have other bits, and the rows that are left."""
    ids = draw.choice([(2,), (1, 2)])
    picked = draw.sample(rows, draw.randint(1, min(3, len(rows))))
    xs = [double(draw) if math.isnan(r["x"]) else r["x"] for r in picked]
    xs = [x if math.isnan(x) == math.isnan(r["x"]) else r["x"] for x, r in zip(xs, picked, strict=True)]
    draw.note("keys x" if ids == (2,) else "keys id x", *(["nan key"] if any(map(math.isnan, xs)) else []))
    columns = [column("id", [r["id"] for r in picked], pa.int64(), 1), column("x", xs, pa.float64(), 2)]
    more = {"content": FileContent.EQUALITY_DELETES, "equality_ids": ids}
    file = put(table, FileFormat.PARQUET, columns[2 - len(ids) :], number, **more)
    gone = {(r["id"] if 1 in ids else None, key(r["x"])) for r in picked}
    return file, [r for r in rows if (r["id"] if 1 in ids else None, key(r["x"])) not in gone]


def test_filters_and_deletes_meet_what_other_writers_stored() -> None:
    def check(draw: Draw) -> None:
        catalog = make_catalog()
        table = catalog.create_table(("ns", "t"), SCHEMA, properties={"format-version": "3"})
        rows: list[dict[str, Any]] = []
        unread = False
        for number in range(draw.randint(1, 3)):
            form, far = draw.choice(FORMATS), draw.often(0.2)
            own = [
                {"id": 4 * number + n, "x": double(draw), "u": None, "at": micros(draw, far=far or form is FileFormat.PARQUET)}
                for n in range(draw.randint(1, 4))
            ]
            added = drawn_file(draw, table, number, own, form)
            for text, test in CONDITIONS.items():
                assert all(map(test, own)) or not metrics_all_match(bind(SCHEMA, parse_where(text)), added), text
            table = commit(catalog, table, AppendFiles(added=(added,), merge=False)).table
            unread, rows = unread or has_far(form, own), rows + own
        if draw.often(0.6):
            file, rows = equality_deletes(draw, table, 9, rows)
            head = table.metadata.current_snapshot_id
            table = commit(catalog, table, RowDelta(added_deletes=(file,), starting_snapshot_id=head)).table
        for text, test in [("true", lambda r: True), *CONDITIONS.items()]:
            found = scan_table(table, Scan(where=parse_where(text)), columns=["id", "u"]).to_pylist()
            assert sorted((r["id"], r["u"]) for r in found) == [(r["id"], None) for r in rows if test(r)], text
        if unread:
            draw.note("far orc timestamp")
            _is_refused_by_name(table)
        else:
            at = scan_table(table, columns=["id", "at"])
            assert sorted(zip(at["id"].to_pylist(), at["at"].cast(pa.int64()).to_pylist(), strict=True)) == [
                (r["id"], r["at"]) for r in rows
            ]

    for_each_seed(KIND, 150, check)
    assert missing(KIND, WANTED) == set()


def _is_refused_by_name(table: Table) -> None:
    try:
        scan_table(table, columns=["id", "at"])
    except UnsupportedError as e:
        assert "column at of" in str(e)  # noqa: PT017
    else:
        raise AssertionError("a timestamp that Arrow does not hold was read")


AVRO = "damaged avro"
CODECS = ("null", "deflate", "zstandard", "snappy", "bzip2", "xz")


def test_a_damaged_avro_file_is_corrupt_or_gives_rows_and_nothing_else() -> None:
    def check(draw: Draw) -> None:
        catalog = make_catalog()
        table = catalog.create_table(("ns", "t"), Schema.of(NestedField(1, "x", LONG)), properties={"format-version": "2"})
        codec, sink = draw.choice(CODECS), io.BytesIO()
        schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long", "field-id": 1}]}
        fastavro.writer(sink, schema, [{"x": n} for n in range(200)], codec=codec)
        data = bytearray(sink.getvalue())
        for _ in range(draw.choice([1, 2, 30])):
            data[draw.randrange(len(data))] ^= draw.randint(1, 255)
        table.io.write(f"{table.location}/data/f.avro", bytes(data))
        file = DataFile(
            file_path=f"{table.location}/data/f.avro", file_format=FileFormat.AVRO, record_count=200, file_size_in_bytes=len(data)
        )
        table = commit(catalog, table, AppendFiles(added=(file,))).table
        draw.note(codec)
        try:
            scan_table(table)
        except CorruptTableError as e:
            assert "f.avro" in str(e)  # noqa: PT017
            draw.note("corrupt")
        except UnsupportedError:
            draw.note("refused")

    for_each_seed(AVRO, 150, check)
    assert missing(AVRO, {*CODECS, "corrupt"}) == set()
