"""Text in a table's file that is not UTF-8 fails every job that would write it again, with one error that names file and column.

Spark stores ``CAST(binary AS STRING)`` unchanged.
"""

from __future__ import annotations

import io as bytes_io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.reading.reader import scan_batches, scan_table
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType, list_of, map_of
from tests.actions.lake import Lake
from tests.builders import IDENTIFIER, data_file, make_catalog

SCHEMA = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "s", STRING),
    NestedField(3, "n", StructType((NestedField(6, "t", STRING),))),
    NestedField(4, "l", list_of(7, STRING)),
    NestedField(5, "m", map_of(8, STRING, 9, STRING)),
)
BAD = [b"\xff\xfe", b"ok", b"a\xc3"]
GOOD = [b"x", b"ok", b"y"]
COLUMNS = {"s": "s", "n": "n.t", "l": "l.element", "k": "m.key", "v": "m.value"}


def field(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


def text(place: str, bad: str) -> pa.Array:
    return pa.array(BAD if place == bad else GOOD).view(pa.string())


def lake_with(bad: str, *, dictionary: bool = False) -> tuple[Lake, str]:
    """A table of one file with rows 1, 2, 3; text is wrong at the place ``bad`` in 1 and 3. Also the file's path."""
    lake = Lake(make_catalog())
    lake.catalog.create_table(IDENTIFIER, SCHEMA, properties={"format-version": "2"})
    of_list, value = field("element", pa.string(), 7), field("value", pa.string(), 9)
    key = field("key", pa.string(), 8).with_nullable(False)
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    arrays = [
        pa.array([1, 2, 3]),
        text("s", bad),
        pa.StructArray.from_arrays([text("n", bad)], fields=[field("t", pa.string(), 6)]),
        pa.ListArray.from_arrays(offsets, text("l", bad), type=pa.list_(of_list)),
        pa.MapArray.from_arrays(offsets, text("k", bad), text("v", bad), type=pa.map_(key, value)),
    ]
    names = [f.name for f in SCHEMA.fields]
    fields = [field(name, a.type, f.field_id) for name, a, f in zip(names, arrays, SCHEMA.fields, strict=True)]
    sink = bytes_io.BytesIO()
    rows = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    many = pa.concat_tables([rows] * 100) if dictionary else rows
    pq.write_table(many, sink, use_dictionary=dictionary)
    path = f"{lake.table.location}/data/of-spark.parquet"
    lake.table.io.write(path, sink.getvalue())
    commit(lake.catalog, lake.table, AppendFiles(added=(data_file(path, rows=many.num_rows),)))
    return lake, path


def message(path: str, bad: str) -> str:
    return f"file {path}: column {COLUMNS[bad]} holds text that is not UTF-8"


ORDERS = ["", "id", "s", "zorder(id, s)", "truncate(2, s), bucket(4, s)"]


@pytest.mark.parametrize("bad", COLUMNS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_rewrite_names_file_and_column(bad: str, order: str, dictionary: bool) -> None:
    lake, path = lake_with(bad, dictionary=dictionary)
    before = lake.paths()
    options = {"sort_order": order} if order else {}
    with pytest.raises(CorruptTableError, match="not UTF-8") as e:
        lake.run("rewrite_data_files", rewrite_all="true", **options)
    assert message(path, bad) in str(e.value)
    assert lake.paths() == before


@pytest.mark.parametrize("bad", COLUMNS)
def test_a_copy_on_write_delete_of_other_rows_names_them(bad: str) -> None:
    lake, path = lake_with(bad)
    job = structs.replace(lake.job("delete", where="id = 2"), change=RowChange(mode="copy-on-write"))
    with pytest.raises(CorruptTableError, match="not UTF-8") as e:
        run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1))
    assert message(path, bad) in str(e.value)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_get_another_text_or_are_deleted_are_no_obstacle(mode: str) -> None:
    lake, _ = lake_with("s", dictionary=True)
    job = structs.replace(lake.job("update", where="id = 1"), change=RowChange(mode="merge-on-read", set={"s": "'new'"}))
    assert run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1)).status == "committed"
    job = structs.replace(lake.job("delete", where="id = 3"), change=RowChange(mode=mode))
    assert run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1)).status == "committed"
    assert lake.run("rewrite_data_files", rewrite_all="true").status == "committed"
    assert sorted({(row[0], row[1]) for row in lake.rows()}) == [(1, "new"), (2, "ok")]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_an_update_that_keeps_the_text_names_file_row_and_column(mode: str) -> None:
    lake, path = lake_with("n")
    job = structs.replace(lake.job("update", where="id >= 2"), change=RowChange(mode=mode, set={"id": "5"}))
    with pytest.raises(DataError, match=f"column 'n.t': .*{path}.* would have text that is not UTF-8"):
        run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1))


def test_a_scan_gives_them_and_their_file_is_named_where_they_cannot_be_shown() -> None:
    lake, path = lake_with("n")
    assert scan_table(lake.table, Scan(where=parse_where("n.t = 'ok'")))["id"].to_pylist() == [2]
    assert scan_table(lake.table)["id"].to_pylist() == [1, 2, 3]
    with pytest.raises(CorruptTableError, match="not UTF-8") as e:
        list(scan_batches(lake.table, check_texts=True))
    assert message(path, "n") in str(e.value)
    assert sum(b.num_rows for b in scan_batches(lake.table, columns=["id"], check_texts=True)) == 3
