"""Cases in which Iceberg Java 1.11 or PyIceberg 0.12 lose rows, resurrect them or fail, and this package does not (see the third
part of docs/conformance.md). Cases with a test elsewhere are not repeated here."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.writing.delete_files import write_position_deletes
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField, StructType, list_of, map_of
from tests.builders import SCHEMA, make_catalog, make_table
from tests.data.files import batch_of, new_io, read, rows_of, write, write_context


def orc_table(columns: dict[str, Any], ids: dict[str, int]) -> bytes:
    table = pa.table(columns)
    fields = [table.schema.field(n).with_metadata({b"iceberg.id": str(i).encode()}) for n, i in ids.items()]
    sink = pa.BufferOutputStream()
    orc.write_table(table.cast(pa.schema(fields)), sink)
    return sink.getvalue().to_pybytes()


def test_orc_files_older_than_a_column_show_its_default_and_match_by_it() -> None:
    """Java refuses to read defaults from ORC."""
    store = new_io()
    store.write("memory://o", orc_table({"id": pa.array([1, 2], pa.int64())}, {"id": 1}))
    file = DataFile(file_path="memory://o", file_format=FileFormat.ORC, record_count=2, file_size_in_bytes=1)
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", INT, initial_default=7))
    assert read([file], schema, store) == [(1, 7), (2, 7)]
    assert read([file], schema, store, where=bind(schema, eq("v", 7))) == [(1, 7), (2, 7)]


def test_rows_can_be_deleted_after_the_partition_source_was_dropped() -> None:
    """Java's merge-on-read DELETE fails with "Cannot find field 1000"."""
    catalog = make_catalog()
    table = make_table(catalog, partitioned=True)
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id="w")
    writer.write(batch_of(SCHEMA, [(1, "x", "eu"), (2, "y", "eu"), (3, "z", "us")]))
    table = commit(catalog, table, AppendFiles(added=tuple(writer.close()))).table
    table = commit(catalog, table, UpdateSpec(spec=PartitionSpec(0, ()))).table
    table = commit(catalog, table, UpdateSchema(schema=Schema.of(*SCHEMA.fields[:2]))).table
    tasks = {t.data_file.partition: t for t in plan(table, Scan()).tasks}
    gone = [(tasks["eu",], np.array([0], np.int64))]
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), gone, operation_id="d")
    table = commit(catalog, table, RowDelta(added_deletes=deletes.added, isolation=None)).table
    assert sorted(scan_table(table, Scan()).column("id").to_pylist()) == [2, 3]


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_nested_nulls_stay_null_and_names_reach_nested_columns_without_a_mapping(form: str) -> None:
    """Java's generic reader gives nulls for Avro without ids; PyIceberg turns null lists and maps into empty ones."""
    store = new_io()
    schema = Schema.of(
        NestedField(1, "id", LONG),
        NestedField(2, "s", StructType((NestedField(3, "l", list_of(4, INT)), NestedField(5, "m", map_of(6, STRING, 7, INT))))),
    )
    rows = [{"id": 1, "s": {"l": None, "m": None}}, {"id": 2, "s": None}, {"id": 3, "s": {"l": [], "m": {}}}]
    if form == "orc":
        inner = pa.struct([("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32()))])
        table = pa.table({"id": pa.array([r["id"] for r in rows]), "s": pa.array([_pairs(r["s"]) for r in rows], inner)})
        sink = pa.BufferOutputStream()
        orc.write_table(table, sink)
        data = sink.getvalue().to_pybytes()
    else:
        out = io.BytesIO()
        fastavro.writer(out, AVRO_WITHOUT_IDS, rows)
        data = out.getvalue()
    store.write("memory://f", data)
    file = DataFile(file_path="memory://f", file_format=FileFormat(form), record_count=3, file_size_in_bytes=1)
    assert read([file], schema, store) == [(1, (None, None)), (2, None), (3, ([], []))]


def _pairs(value: Any) -> Any:
    return None if value is None else {"l": value["l"], "m": None if value["m"] is None else list(value["m"].items())}


AVRO_WITHOUT_IDS = {
    "type": "record", "name": "t", "fields": [
        {"name": "id", "type": "long"},
        {"name": "s", "type": ["null", {"type": "record", "name": "s", "fields": [
            {"name": "l", "type": ["null", {"type": "array", "items": "int"}]},
            {"name": "m", "type": ["null", {"type": "map", "values": "int"}]},
        ]}]},
    ],
}  # fmt: skip


def test_position_deletes_in_orc_are_applied() -> None:
    """PyIceberg does not apply them, and says nothing."""
    store = new_io()
    schema = Schema.of(NestedField(1, "id", LONG, True))
    (file,) = write(write_context(schema, version=2), store, [(1,), (2,), (3,)])
    columns = {"file_path": pa.array([file.file_path]), "pos": pa.array([1], pa.int64())}
    store.write("memory://d.orc", orc_table(columns, {"file_path": 2147483546, "pos": 2147483545}))
    deletes = DataFile(
        content=FileContent.POSITION_DELETES, file_path="memory://d.orc", file_format=FileFormat.ORC, record_count=1,
        file_size_in_bytes=1,
    )  # fmt: skip
    assert read([file], schema, store, deletes=[DeleteFile(deletes, 2)]) == [(1,), (3,)]


def test_position_deletes_that_name_the_old_place_of_a_moved_table_are_applied() -> None:
    """PyIceberg does not apply them, and says nothing."""
    store = new_io()
    schema = Schema.of(NestedField(1, "id", LONG, True))
    (file,) = write(write_context(schema, version=2), store, [(1,), (2,), (3,)])
    recorded = replace(file, file_path=file.file_path.replace("memory://", "s3://old/"))
    deletes = write_position_deletes(store, write_context(schema, version=2), {recorded: [1]}, operation_id="d")
    moved = MappedFileIO(store, [("s3://old/", "memory://")])
    context = ReadContext(table_schema=schema, projected=schema, schemas=(schema,), specs={0: PartitionSpec()})
    task = FileScanTask(file, 1, deletes=tuple(DeleteFile(d, 2) for d in deletes))
    assert rows_of(schema, read_task(task, context, moved)) == [(1,), (3,)]


@pytest.mark.parametrize("form", [FileFormat.PARQUET, FileFormat.ORC])
def test_a_file_none_of_whose_names_fit_is_read_by_position(form: FileFormat) -> None:
    """As Java reads Parquet without ids and mapping; one name that fits, and names decide alone."""
    store = new_io()
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING))
    for names, expected in ((["_col0", "_col1"], [(1, "x")]), (["id", "_col1"], [(1, None)])):
        table = pa.table([pa.array([1]), pa.array(["x"])], names=names)
        sink = pa.BufferOutputStream()
        (pq if form is FileFormat.PARQUET else orc).write_table(table, sink)
        location = f"memory://{names[0]}"
        store.write(location, sink.getvalue().to_pybytes())
        file = DataFile(file_path=location, file_format=form, record_count=1, file_size_in_bytes=1)
        assert read([file], schema, store) == expected
