"""Values that a file or a batch lacks are filled by the same rules at every depth.

(SCHEMA-12, DEFAULT-01, DEFAULT-02, DEFAULT-08, DEFAULT-09)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    DATE,
    INT,
    LONG,
    MISSING,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.table.table import Table
from tests.builders import make_catalog
from tests.data.files import batch_of, new_io, read, rows_of, write, write_context

ID = NestedField(1, "id", LONG)
R, X = NestedField(3, "r", STRING), NestedField(4, "x", LONG)
BY_R = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "r"),))


def table_of(s: NestedField, files: dict[str | None, pa.Table], form: str = "parquet") -> Table:
    """A table with the column ``s``, partitioned by the ``r`` inside it, with a file without field ids for each partition."""
    catalog = make_catalog()
    catalog.create_table(("ns", "t"), Schema.of(ID, s), spec=BY_R, properties={"format-version": "3"})
    table = catalog.load_table(("ns", "t"))
    added = []
    for r, rows in files.items():
        sink = pa.BufferOutputStream()
        (pq if form == "parquet" else orc).write_table(rows, sink)
        path = f"{table.location}/data/{r}.{form}"
        table.io.write(path, sink.getvalue().to_pybytes())
        size = len(sink.getvalue())
        own = DataFile(
            file_path=path, file_format=FileFormat(form), record_count=rows.num_rows, file_size_in_bytes=size, partition=(r,)
        )
        added.append(own)
    return commit(catalog, table, AppendFiles(added=tuple(added))).table


def rows(table: Table, where: str | None = None) -> list[dict[str, Any]]:
    return sorted(scan_table(table, Scan(where=parse_where(where)) if where else None).to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize("default", [MISSING, "nowhere"])
def test_a_partition_column_inside_a_struct_has_the_partitions_value_where_the_file_lacks_it(form: str, default: Any) -> None:
    s = NestedField(2, "s", StructType((replace(R, initial_default=default), X)))
    present = pa.table({"id": [1, 2], "s": [{"x": 5}, None]})
    table = table_of(s, {"a": present, None: pa.table({"id": [3], "s": [{"x": 7}]})}, form)
    one, none = {"id": 1, "s": {"r": "a", "x": 5}}, {"id": 3, "s": {"r": None, "x": 7}}
    assert rows(table) == [one, {"id": 2, "s": None}, none], "a struct that is stored as null stays null"
    assert rows(table, "s.r = 'a' AND id < 2") == [one]
    assert rows(table, "s.r = 'a' AND s.x = 5 OR s.x = 6") == [one]
    assert rows(table, "s.r IS NULL") == [none]


def test_a_struct_that_the_file_lacks_is_there_where_the_partition_has_a_value_for_a_field_of_it() -> None:
    """Planning and residuals say that every row of the file has that value."""
    inner = StructType((R, NestedField(5, "n", INT, initial_default=9)))
    s = NestedField(2, "s", StructType((NestedField(6, "deep", inner), X)))
    table = table_of(s, {"a": pa.table({"id": [1]}), None: pa.table({"id": [2]})})
    one = {"id": 1, "s": {"deep": {"r": "a", "n": 9}, "x": None}}
    assert rows(table) == [one, {"id": 2, "s": None}]
    assert rows(table, "s.deep.r = 'a'") == [one]
    assert rows(table, "s.deep.r IS NULL") == [{"id": 2, "s": None}]


def test_such_a_struct_is_there_whichever_of_its_fields_are_asked_for() -> None:
    """A filter reads no more than the path to its own column, on which nothing is the partition's."""
    s = NestedField(2, "s", StructType((R, NestedField(5, "n", INT, initial_default=9), X)))
    table = table_of(s, {"a": pa.table({"id": [1]}), None: pa.table({"id": [2]})})
    one = {"id": 1, "s": {"r": "a", "n": 9, "x": None}}
    assert rows(table, "s.n = 9") == [one]
    assert rows(table, "s.r = 'a' AND s.n = 9") == [one]
    assert rows(table, "s.n IS NULL") == [{"id": 2, "s": None}]


def test_a_rewrite_leaves_such_rows_in_their_partition() -> None:
    table = table_of(NestedField(2, "s", StructType((R, X))), {"a": pa.table({"id": [1, 2], "s": [{"x": 5}, {"x": 6}]})})
    tasks = plan(table, Scan()).tasks
    context = ReadContext.for_table(table.metadata)
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id="op")
    for batch in read_task(tasks[0], context, table.io):
        writer.write(batch)
    (file,) = writer.close()
    assert file.partition == ("a",)
    assert read([file], table.schema, table.io) == [(1, ("a", 5)), (2, ("a", 6))]  # type: ignore[arg-type]


def test_a_required_field_of_a_struct_that_is_nowhere_makes_the_file_unreadable() -> None:
    s = NestedField(2, "s", StructType((R, replace(X, required=True))))
    with pytest.raises(CorruptTableError, match="required column x"):
        rows(table_of(s, {"a": pa.table({"id": [1]})}))


A = NestedField(3, "a", INT, initial_default=5, write_default=7)
B = NestedField(4, "b", INT, True, initial_default=1, write_default=2)
EMPTY = (None, None)
"""A struct's default of ``{}``."""


def s_of(*parts: NestedField, required: bool = False, default: Any = MISSING) -> Schema:
    return Schema.of(ID, NestedField(2, "s", StructType(parts), required, None, default, default))


@pytest.mark.parametrize("required", [False, True])
def test_a_struct_whose_write_default_is_empty_gets_the_write_defaults_of_its_fields(required: bool) -> None:
    given = batch_of(Schema.of(ID), [(1,)])
    assert conform(given, s_of(A, B, required=required, default=EMPTY)).to_pylist() == [{"id": 1, "s": {"a": 7, "b": 2}}]


def test_a_struct_that_a_writer_is_not_given_is_null_without_a_write_default_whatever_its_fields_have() -> None:
    given = batch_of(Schema.of(ID), [(1,)])
    for default in (MISSING, None):
        assert conform(given, s_of(A, B, default=default)).to_pylist() == [{"id": 1, "s": None}]
        with pytest.raises(DataError, match="column s is required and has no write-default"):
            conform(given, s_of(A, B, required=True, default=default))


def test_a_field_of_a_struct_that_a_writer_is_not_given_is_its_write_default() -> None:
    schema = s_of(A, B)
    given = pa.record_batch({"id": [1, 2], "s": [{"a": 9}, None]})
    assert conform(given, schema).to_pylist() == [{"id": 1, "s": {"a": 9, "b": 2}}, {"id": 2, "s": None}]
    given = pa.record_batch({"id": [1], "s": [{"b": 9}]})
    assert conform(given, schema).to_pylist() == [{"id": 1, "s": {"a": 7, "b": 9}}]
    initial_only = s_of(A, NestedField(4, "b", INT, initial_default=1))
    assert conform(pa.record_batch({"id": [1], "s": [{"a": 9}]}), initial_only).to_pylist() == [{"id": 1, "s": {"a": 9, "b": None}}]


def test_so_is_a_field_of_a_struct_in_a_list_or_map() -> None:
    part = StructType((A, B))
    schema = Schema.of(NestedField(10, "l", list_of(11, part)))
    assert conform(pa.record_batch({"l": [[{"a": 1}], None]}), schema).to_pylist() == [{"l": [{"a": 1, "b": 2}]}, {"l": None}]
    schema = Schema.of(NestedField(10, "m", map_of(11, STRING, 12, part)))
    given = pa.record_batch({"m": pa.array([[("k", {"a": 1})]], pa.map_(pa.string(), pa.struct([("a", pa.int64())])))})
    assert conform(given, schema).to_pylist() == [{"m": [("k", {"a": 1, "b": 2})]}]


def test_a_required_field_of_a_struct_without_write_default_is_named() -> None:
    schema = s_of(A, NestedField(4, "b", INT, True, initial_default=1))
    with pytest.raises(DataError, match=r"column s\.b is required and has no write-default"):
        conform(pa.record_batch({"id": [1], "s": [{"a": 9}]}), schema)
    nobody = pa.record_batch({"id": [1], "s": pa.array([None], pa.struct([("a", pa.int32())]))})
    assert conform(nobody, schema).to_pylist() == [{"id": 1, "s": None}], "a null struct has no fields"


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_what_was_filled_is_stored(form: str) -> None:
    schema, io = s_of(A, B, default=EMPTY), new_io()
    files = write(write_context(schema, properties={"write.format.default": form}), io, [(1, (7, 2))])
    assert read(files, schema, io) == [(1, (7, 2))]


DAY = 86_400_000_000
DATED: dict[IcebergType, int] = {DATE: 3, TIMESTAMP: 3 * DAY, TIMESTAMP_NS: 3000 * DAY}


def dated(type_: IcebergType, inside: bool, **more: Any) -> Schema:
    f = NestedField(2, "d", type_, **more)
    return Schema.of(ID, NestedField(3, "s", StructType((f, X))) if inside else f)


@pytest.mark.parametrize("now", [TIMESTAMP, TIMESTAMP_NS], ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_a_promoted_default_is_one_value_in_every_schema_of_the_table(now: IcebergType, inside: bool) -> None:
    """An equality delete by a date that became a timestamp since: also an older snapshot is read without the deleted rows."""
    schemas = [dated(type_, inside, initial_default=DATED[type_]) for type_ in (DATE, now)]
    only_id, io = Schema.of(ID), new_io()
    older = only_id if not inside else Schema.of(ID, NestedField(3, "s", StructType((X,))))
    files = write(write_context(older), io, [(1, (7,)) if inside else (1,)])
    context = write_context(schemas[0])
    key = batch_of(schemas[0], [(0, (3, None)) if inside else (0, 3)])
    deletes = [DeleteFile(f, 2) for f in write_equality_deletes(io, context, (2,), [key], operation_id="e")]
    for schema, value in zip(schemas, (3, DATED[now]), strict=True):
        assert read(files, schema, io, schemas=schemas) == [(1, (value, 7) if inside else value)]
        assert read(files, schema, io, schemas=schemas, deletes=deletes) == []


@pytest.mark.parametrize("now", [TIMESTAMP, TIMESTAMP_NS], ids=str)
@pytest.mark.parametrize("inside", [False, True])
def test_a_promoted_partition_value_is_one_value_in_every_schema_of_the_table(now: IcebergType, inside: bool) -> None:
    """Manifests give it in the newest type, whatever snapshot is read. Other writers promote such a column."""
    schemas = [dated(type_, inside) for type_ in (DATE, now)]
    spec = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "d"),))
    io = new_io()
    (plain,) = write(write_context(Schema.of(ID)), io, [(1,)])
    file = replace(plain, partition=(DATED[now],))
    for schema, value in zip(schemas, (3, DATED[now]), strict=True):
        found = (1, (value, None) if inside else value)
        assert read([file], schema, io, spec=spec, schemas=schemas) == [found]
        context = ReadContext(table_schema=schema, projected=schema, schemas=tuple(schemas), specs={0: spec}).select(["_partition"])
        (batch,) = read_task(FileScanTask(file, 1), context, io)
        assert rows_of(context.projected, [batch]) == [((DATED[now],),)]


STRUCTS = {
    "the inner struct": pa.StructArray.from_arrays([pa.array([1, 2], pa.int32())], ["a"]),
    "no inner struct": None,
}


@pytest.mark.parametrize("held", STRUCTS)
def test_a_required_field_needs_no_value_where_no_row_shows_its_struct(held: str) -> None:
    """Arrow holds any value below a null struct: an inner struct without its required field is present there. And an inner struct
    that the rows lack is filled with its default only where the outer one is present. Both were refused."""
    inner = StructType((NestedField(4, "a", INT), NestedField(5, "r", INT, True)))
    fields = StructType((NestedField(3, "inner", inner, False, None, MISSING, (None, None)), NestedField(6, "b", INT)))
    schema = Schema.of(ID, NestedField(2, "s", fields))
    parts = {"inner": STRUCTS[held], "b": pa.array([1, 2], pa.int32())}
    arrays = {name: part for name, part in parts.items() if part is not None}
    for gone in ([True, True], [True, False]):
        outer = pa.StructArray.from_arrays(list(arrays.values()), list(arrays), mask=pa.array(gone))
        batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), outer], ["id", "s"])
        if all(gone):
            rows = rows_of(schema, [conform(batch, schema)])
            assert rows == [(1, None), (2, None)]
            io = new_io()
            assert read(write(write_context(schema), io, rows), schema, io) == rows
        else:
            with pytest.raises(DataError, match=r"s\.inner\.r is required and has no write-default"):
                conform(batch, schema)


def test_an_inner_struct_that_is_null_wherever_it_is_shown_needs_no_values() -> None:
    fields = StructType((NestedField(3, "inner", StructType((NestedField(4, "a", INT), NestedField(5, "r", INT, True)))),))
    schema = Schema.of(ID, NestedField(2, "s", fields))
    inner = pa.StructArray.from_arrays([pa.array([1, 2], pa.int32())], ["a"], mask=pa.array([False, True]))
    outer = pa.StructArray.from_arrays([inner], ["inner"], mask=pa.array([True, False]))
    rows = rows_of(schema, [conform(pa.RecordBatch.from_arrays([pa.array([1, 2]), outer], ["id", "s"]), schema)])
    assert rows == [(1, None), (2, (None,))]
    io = new_io()
    assert read(write(write_context(schema), io, rows), schema, io) == rows
