"""Delete files as the spec describes them, of this package and of others: GEN-10, DEL-POS-01..06, DEL-EQ-01..06, DV-03, DV-05,
MANIFEST-56, SEQ-07, RESID-08."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.deletes.deletion_vectors import read_deletion_vector
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.errors import SchemaError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID, DELETE_FILE_ROW_ID
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType
from iceberg_ops.spec.values import from_bytes
from tests.data.files import batch_of, new_io, read, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "city", STRING))
ROWS = [(i, f"c{i}") for i in range(10)]


def with_id(f: pa.Field, field_id: int) -> pa.Field:
    return f.with_metadata({b"PARQUET:field_id": str(field_id).encode()})


def parquet_deletes(store: MemoryFileIO, paths: list[str], positions: list[int], **more: Any) -> DeleteFile:
    """A position delete file of another writer, with its own column names and perhaps the deleted rows."""
    fields = [
        with_id(pa.field("path", pa.string(), False), DELETE_FILE_PATH_ID),
        with_id(pa.field("position", pa.int64(), False), DELETE_FILE_POS_ID),
    ]
    columns: list[Any] = [pa.array(paths), pa.array(positions, pa.int64())]
    if "row" in more:
        struct = pa.struct([with_id(pa.field("city", pa.string()), 2)])
        fields.append(with_id(pa.field("row", struct, False), DELETE_FILE_ROW_ID))
        columns.append(pa.array(more["row"], struct))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=pa.schema(fields)), sink)
    store.write(f"memory://p{len(paths)}", sink.getvalue().to_pybytes())
    file = DataFile(
        content=FileContent.POSITION_DELETES, file_path=f"memory://p{len(paths)}", file_format=FileFormat.PARQUET,
        record_count=len(paths), file_size_in_bytes=1,
    )  # fmt: skip
    return DeleteFile(file, 2)


def written() -> tuple[MemoryFileIO, DataFile]:
    store = new_io()
    (file,) = write(write_context(SCHEMA, version=2), store, ROWS)
    return store, file


def left(*gone: int) -> list[tuple[int, str]]:
    return [r for r in ROWS if r[0] not in gone]


def test_position_deletes_have_the_reserved_ids_in_both_formats() -> None:
    """DEL-POS-01"""
    store, file = written()
    (parquet,) = write_position_deletes(store, write_context(SCHEMA, version=2), {file: [1]}, operation_id="d")
    schema = pq.read_schema(pa.BufferReader(store.read(parquet.file_path)))
    assert [(f.name, f.nullable, int(f.metadata[b"PARQUET:field_id"])) for f in schema] == [
        ("file_path", False, 2147483546), ("pos", False, 2147483545),
    ]  # fmt: skip
    context = write_context(SCHEMA, version=2, properties={"write.delete.format.default": "avro"})
    (avro,) = write_position_deletes(store, context, {file: [1]}, operation_id="e")
    fields: Any = fastavro.reader(store.open_input(avro.file_path)).writer_schema
    assert [(f["name"], f["field-id"]) for f in fields["fields"]] == [("file_path", 2147483546), ("pos", 2147483545)]


def test_delete_columns_are_found_by_id_whatever_they_are_called() -> None:
    """GEN-10"""
    store, file = written()
    assert read([file], SCHEMA, store, deletes=[parquet_deletes(store, [file.file_path], [4])]) == left(4)


def test_unsorted_and_repeated_positions_delete_each_row_once() -> None:
    """DEL-POS-02, DEL-POS-05"""
    store, file = written()
    paths = [file.file_path, "memory://other", file.file_path, file.file_path, "memory://another"]
    deletes = parquet_deletes(store, paths, [7, 0, 2, 7, 1])
    assert read([file], SCHEMA, store, deletes=[deletes]) == left(2, 7)
    assert read([file], SCHEMA, store, deletes=[deletes, deletes]) == left(2, 7)


def test_deleted_rows_kept_in_the_delete_file_are_no_matter() -> None:
    """DEL-POS-04, RESID-08"""
    store, file = written()
    deletes = parquet_deletes(store, [file.file_path] * 2, [0, 9], row=[{"city": "c0"}, {"city": "not even right"}])
    assert read([file], SCHEMA, store, deletes=[deletes]) == left(0, 9)


def test_paths_in_delete_files_are_those_of_the_manifest_character_by_character() -> None:
    """DEL-POS-03, DEL-POS-06"""
    store, file = written()
    context = write_context(SCHEMA, version=2)
    (delete,) = write_position_deletes(store, context, {file: [1]}, "partition", operation_id="d")
    assert pq.read_table(pa.BufferReader(store.read(delete.file_path))).column("file_path").to_pylist() == [file.file_path]
    assert (delete.referenced_data_file, delete.sort_order_id) == (file.file_path, None)
    (other,) = write(context, store, ROWS, operation_id="other")
    (both,) = write_position_deletes(store, context, {file: [1], other: [2]}, "partition", operation_id="e")
    assert both.referenced_data_file is None


def test_equality_ids_are_never_empty_and_always_in_the_file() -> None:
    """DEL-EQ-01"""
    store, _ = written()
    context = write_context(SCHEMA, version=2)
    with pytest.raises(SchemaError, match="equality_ids is empty"):
        write_equality_deletes(store, context, (), [batch_of(SCHEMA, ROWS)], operation_id="d")
    (delete,) = write_equality_deletes(store, context, (2,), [batch_of(SCHEMA, ROWS)], operation_id="d")
    schema = pq.read_schema(pa.BufferReader(store.read(delete.file_path)))
    assert [int(f.metadata[b"PARQUET:field_id"]) for f in schema] == list(delete.equality_ids or ()) == [2]


def test_metrics_of_delete_files_cover_every_deleted_row() -> None:
    """MANIFEST-56"""
    store, file = written()
    context = write_context(SCHEMA, version=2, properties={"write.metadata.metrics.default": "none"})
    (equality,) = write_equality_deletes(store, context, (1, 2), [batch_of(SCHEMA, ROWS[2:6])], operation_id="e")
    assert (equality.record_count, equality.value_counts) == (4, {1: 4, 2: 4})
    lower, upper = equality.lower_bounds or {}, equality.upper_bounds or {}
    assert [from_bytes(LONG, b[1]) for b in (lower, upper)] == [2, 5]
    assert [from_bytes(STRING, b[2]) for b in (lower, upper)] == ["c2", "c5"]
    (position,) = write_position_deletes(store, context, {file: [3, 8]}, operation_id="p")
    lower, upper = position.lower_bounds or {}, position.upper_bounds or {}
    assert [from_bytes(LONG, b[DELETE_FILE_POS_ID]) for b in (lower, upper)] == [3, 8]


def test_a_new_vector_takes_in_the_old_one_and_file_scoped_deletes_and_replaces_them() -> None:
    """DV-03"""
    store, file = written()
    old = write_context(SCHEMA, version=2)
    (scoped,) = write_position_deletes(store, old, {file: [1]}, "file", operation_id="scoped")
    (other,) = write(old, store, ROWS, operation_id="other")
    (shared,) = write_position_deletes(store, old, {file: [2], other: [3]}, "partition", operation_id="shared")
    context = write_context(SCHEMA, version=3)
    task = FileScanTask(file, 1, deletes=(DeleteFile(scoped, 2), DeleteFile(shared, 2)))
    first = write_row_deletes(store, context, [(task, np.array([4], np.int64))], operation_id="one")
    assert first.replaced == (scoped,), "the shared file still deletes rows of the other data file"
    (vector,) = first.added
    assert list(read_deletion_vector(store, vector)) == [1, 2, 4]
    again = FileScanTask(file, 1, deletes=(DeleteFile(vector, 3), DeleteFile(shared, 2)))
    second = write_row_deletes(store, context, [(again, np.array([9], np.int64))], operation_id="two")
    assert second.replaced == (vector,)
    assert list(read_deletion_vector(store, second.added[0])) == [1, 2, 4, 9]
    assert read([file], SCHEMA, store, deletes=[DeleteFile(second.added[0], 4), DeleteFile(shared, 2)]) == left(1, 2, 4, 9)


def test_a_vector_is_read_from_its_range_without_the_footer() -> None:
    """DV-05"""
    store, file = written()
    (vector,) = write_deletion_vectors(store, write_context(SCHEMA), {file: [5]}, operation_id="d")
    whole = store.read(vector.file_path)
    end = (vector.content_offset or 0) + (vector.content_size_in_bytes or 0)
    store.write("memory://cut.puffin", whole[:end])
    assert list(read_deletion_vector(store, replace(vector, file_path="memory://cut.puffin"))) == [5]


def test_an_entry_of_a_vector_says_what_the_spec_asks_for() -> None:
    """DV-01"""
    store, file = written()
    file = replace(file, spec_id=3, partition=("p",))
    (vector,) = write_deletion_vectors(store, write_context(SCHEMA), {file: [5, 6]}, operation_id="d")
    assert (vector.content, vector.file_format, vector.record_count) == (FileContent.POSITION_DELETES, FileFormat.PUFFIN, 2)
    assert (vector.spec_id, vector.partition, vector.referenced_data_file) == (3, ("p",), file.file_path)
    assert vector.file_size_in_bytes == store.length(vector.file_path)
    assert (vector.lower_bounds, vector.sort_order_id, vector.equality_ids) == (None, None, None)


def test_null_in_a_deleted_struct_column_is_the_null_of_its_parent() -> None:
    """DEL-EQ-03"""
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "s", StructType((NestedField(3, "k", LONG, True),))))
    store = new_io()
    context = write_context(schema, version=2)
    (file,) = write(context, store, [(1, None), (2, (5,)), (3, (6,))])
    deletes = write_equality_deletes(store, context, (3,), [batch_of(schema, [(0, None), (0, (5,))])], operation_id="e")
    assert read([file], schema, store, deletes=[DeleteFile(d, 2) for d in deletes]) == [(3, (6,))]
