"""Deletes written here remove exactly their rows (DEL-POS-01..06, DEL-EQ-01..06, DV-01, DV-04, DV-10, DV-12, SCHEMA-12)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.deletes.equality_deletes import equality_keys
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.errors import CorruptTableError, SchemaError, UnsupportedError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.serde.puffins.puffin import read_footer
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH_ID
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    DOUBLE,
    INT,
    LONG,
    STRING,
    UNKNOWN,
    UUID,
    VARIANT,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
)
from tests.data.files import batch_of, new_io, read, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "city", STRING), NestedField(3, "n", INT))
ROWS = [(i, None if i % 5 == 0 else f"c{i % 3}", None if i % 2 else i) for i in range(60)]
BY_CITY = PartitionSpec(3, (PartitionField((2,), 1000, IDENTITY, "city"),))


def applied(files: list[DataFile]) -> list[DeleteFile]:
    return [DeleteFile(f, 2) for f in files]


@pytest.mark.parametrize("batch_rows", [7, 1000])
def test_position_deletes_remove_exactly_their_rows(batch_rows: int) -> None:
    io = new_io()
    context = write_context(SCHEMA, version=2)
    (file,) = write(context, io, ROWS)
    deletes = write_position_deletes(io, context, {file: [59, 0, 7, 7]}, operation_id="d")
    found = read([file], SCHEMA, io, deletes=applied(deletes), batch_rows=batch_rows)
    assert found == [r for i, r in enumerate(ROWS) if i not in (0, 7, 59)]
    assert (deletes[0].content, deletes[0].record_count, deletes[0].sort_order_id) == (FileContent.POSITION_DELETES, 3, None)


def test_file_granularity_names_the_data_file_and_keeps_its_path_whole_in_the_bounds() -> None:
    io = new_io()
    context = write_context(SCHEMA, version=2)
    files = [write(context, io, ROWS, operation_id=f"a rather long name, longer than sixteen {i}")[0] for i in range(2)]
    deletes = write_position_deletes(io, context, {f: [1] for f in files}, "file", operation_id="d")
    assert [d.referenced_data_file for d in deletes] == [f.file_path for f in files]
    for file, delete in zip(files, deletes, strict=True):
        bounds = (delete.lower_bounds or {})[DELETE_FILE_PATH_ID], (delete.upper_bounds or {})[DELETE_FILE_PATH_ID]
        assert bounds == (file.file_path.encode(), file.file_path.encode())


@pytest.mark.parametrize("granularity", ["file", "partition"])
@pytest.mark.parametrize("positions", [1, 60])
def test_paths_of_position_deletes_can_be_read_as_a_dictionary(positions: int, granularity: str) -> None:
    """PyIceberg asks Arrow for that, and Arrow refuses it for text in another encoding."""
    io = new_io()
    context = write_context(SCHEMA, version=2)
    files = [write(context, io, ROWS, operation_id=f"{i}")[0] for i in range(3)]
    for delete in write_position_deletes(io, context, {f: range(positions) for f in files}, granularity, operation_id="d"):
        rows = pq.read_table(pa.BufferReader(io.read(delete.file_path)), read_dictionary=["file_path"])
        assert pa.types.is_dictionary(rows.schema.field("file_path").type)


def test_partition_granularity_writes_one_sorted_file_per_partition_in_the_files_own_spec() -> None:
    io = new_io()
    context = replace(write_context(SCHEMA, version=2), specs={3: BY_CITY, 0: PartitionSpec()})
    files = [f for i in range(2) for f in write(write_context(SCHEMA, spec=BY_CITY, version=2), io, ROWS, operation_id=f"{1 - i}")]
    deletes = write_position_deletes(io, context, {f: [3, 1] for f in files}, "partition", operation_id="d")
    assert len(deletes) == 4
    assert {(d.spec_id, d.partition, d.referenced_data_file) for d in deletes} == {(3, f.partition, None) for f in files}
    for delete in deletes:
        rows = pq.read_table(pa.BufferReader(io.read(delete.file_path))).to_pylist()
        assert rows == sorted(rows, key=lambda r: (r["file_path"], r["pos"]))
        assert "/city=" in delete.file_path


def test_a_v3_table_takes_deletion_vectors_and_older_ones_take_none() -> None:
    io = new_io()
    (file,) = write(write_context(SCHEMA), io, ROWS)
    with pytest.raises(UnsupportedError, match="v3 takes deletion vectors"):
        write_position_deletes(io, write_context(SCHEMA, version=3), {file: [1]}, operation_id="d")
    with pytest.raises(UnsupportedError, match="came with v3"):
        write_deletion_vectors(io, write_context(SCHEMA, version=2), {file: [1]}, operation_id="d")


def vectors(io: MemoryFileIO) -> tuple[list[DataFile], list[DataFile]]:
    context = write_context(SCHEMA)
    files = [write(context, io, ROWS, operation_id=f"{i}")[0] for i in range(2)]
    return files, write_deletion_vectors(io, context, {files[0]: [2, 1], files[1]: [59]}, operation_id="d")


def test_deletion_vectors_of_several_files_share_a_puffin_file() -> None:
    io = new_io()
    files, found = vectors(io)
    assert len({f.file_path for f in found}) == 1
    footer = read_footer(io.open_input(found[0].file_path), "puffin")
    for delete, blob in zip(found, footer.blobs, strict=True):
        assert (delete.content_offset, delete.content_size_in_bytes) == (blob.offset, blob.length)
        assert blob.properties == {"referenced-data-file": delete.referenced_data_file, "cardinality": str(delete.record_count)}
        assert (blob.snapshot_id, blob.sequence_number, blob.compression_codec, blob.fields) == (-1, -1, None, (2147483645,))
    assert read([files[0]], SCHEMA, io, deletes=applied(found[:1])) == [r for i, r in enumerate(ROWS) if i not in (1, 2)]
    assert read([files[1]], SCHEMA, io, deletes=applied(found[1:])) == ROWS[:-1]


def test_a_deletion_vector_replaces_position_deletes() -> None:
    io = new_io()
    files, found = vectors(io)
    older = write_position_deletes(io, write_context(SCHEMA, version=2), {files[0]: [30]}, operation_id="p")
    rows = read([files[0]], SCHEMA, io, deletes=applied([*older, found[0]]))
    assert rows == [r for i, r in enumerate(ROWS) if i not in (1, 2)]


@pytest.mark.parametrize(
    "change",
    [
        {"record_count": 5},
        {"content_offset": 3},
        {"content_offset": -1},
        {"content_size_in_bytes": 9_999},
        {"content_offset": None},
    ],
)
def test_a_deletion_vector_that_is_not_what_its_entry_says_is_corrupt(change: dict[str, Any]) -> None:
    io = new_io()
    files, found = vectors(io)
    with pytest.raises(CorruptTableError):
        read([files[0]], SCHEMA, io, deletes=applied([replace(found[0], **change)]))


def delete_rows(
    schema: Schema, io: MemoryFileIO, ids: tuple[int, ...], rows: list[tuple[Any, ...]], name: str = "e"
) -> list[DeleteFile]:
    batch = batch_of(schema, rows)
    return applied(write_equality_deletes(io, write_context(schema, version=2), ids, [batch], operation_id=name))


def test_an_equality_delete_compares_all_its_columns_and_null_equals_null() -> None:
    io = new_io()
    (file,) = write(write_context(SCHEMA), io, ROWS)
    deletes = delete_rows(SCHEMA, io, (2, 3), [(0, None, None), (0, "c1", 4), (0, "c2", None)])
    keys = {(None, None), ("c1", 4), ("c2", None)}
    assert read([file], SCHEMA, io, deletes=deletes) == [r for r in ROWS if r[1:] not in keys]
    assert deletes[0].data_file.equality_ids == (2, 3)


def test_delete_files_of_different_columns_act_apart() -> None:
    io = new_io()
    (file,) = write(write_context(SCHEMA), io, ROWS)
    deletes = delete_rows(SCHEMA, io, (1,), [(3, "x", 0)], "a") + delete_rows(SCHEMA, io, (2,), [(0, "c1", 0)], "b")
    assert read([file], SCHEMA, io, deletes=deletes) == [r for r in ROWS if r[0] != 3 and r[1] != "c1"]
    assert read([file], SCHEMA, io, deletes=deletes, columns=["n"]) == [r[2:] for r in ROWS if r[0] != 3 and r[1] != "c1"]


@pytest.mark.parametrize("partitioned_names", [["a"], ["id"]])
def test_delete_columns_that_are_not_projected_are_read_and_dropped(partitioned_names: list[str]) -> None:
    io = new_io()
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "a", STRING))
    (file,) = write(write_context(schema), io, [(1, "x"), (2, "y")])
    deletes = delete_rows(schema, io, (1,), [(1, None)])
    place = [f.name for f in schema.fields].index(partitioned_names[0])
    assert read([file], schema, io, deletes=deletes, columns=partitioned_names) == [((2, "y")[place],)]


def evolved(before: NestedField, after: NestedField | None) -> tuple[Schema, Schema]:
    old = Schema.of(NestedField(1, "id", LONG, True), before, schema_id=0)
    new = Schema.of(NestedField(1, "id", LONG, True), *([after] if after else []), schema_id=1)
    return old, new


CHANGES: list[tuple[str, NestedField, NestedField | None]] = [
    ("widened", NestedField(2, "k", INT), NestedField(2, "k", LONG)),
    ("renamed", NestedField(2, "k", INT), NestedField(2, "key", INT)),
    ("dropped", NestedField(2, "k", INT), None),
]


@pytest.mark.parametrize(("before", "after"), [pytest.param(b, a, id=n) for n, b, a in CHANGES])
@pytest.mark.parametrize("reading", ["the old schema", "the new schema"])
def test_deletes_hold_across_evolution(before: NestedField, after: NestedField | None, reading: str) -> None:
    """Iceberg Java resurrects rows here or cannot read the table (its behaviour 4); the schema history decides."""
    old, new = evolved(before, after)
    io = new_io()
    (file,) = write(write_context(old), io, [(1, 10), (2, 20), (3, None)])
    writer = new if after else old
    deletes = delete_rows(writer, io, (2,), [(0, 20), (0, None)])
    schema = old if reading == "the old schema" else new
    found = read([file], schema, io, schemas=(old, new), deletes=deletes)
    assert [row[0] for row in found] == [1]


def test_a_delete_column_younger_than_the_data_file_reads_as_its_default() -> None:
    old = Schema.of(NestedField(1, "id", LONG, True), schema_id=0)
    new = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "k", INT, initial_default=7), schema_id=1)
    io = new_io()
    (file,) = write(write_context(old), io, [(1,), (2,)])
    (younger,) = write(write_context(new), io, [(3, 8), (4, 7), (5, None)], operation_id="y")
    deletes = delete_rows(new, io, (2,), [(0, 7)])
    assert read([file, younger], new, io, schemas=(old, new), deletes=deletes) == [(3, 8), (5, None)]


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan")])
def test_old_float_deletes_compare_as_java_does(value: float) -> None:
    """NaN equals NaN, 0.0 does not equal -0.0; such files exist although writing them is refused today."""
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "d", DOUBLE))
    io = new_io()
    rows = [(1, 0.0), (2, -0.0), (3, float("nan")), (4, None)]
    (file,) = write(write_context(schema), io, rows)
    (keys,) = write(write_context(schema), io, [(0, value)], operation_id="k")
    delete = DeleteFile(replace(keys, content=FileContent.EQUALITY_DELETES, equality_ids=(2,)), 2)
    gone = {"0.0": 1, "-0.0": 2, "nan": 3}[str(value)]
    assert [r[0] for r in read([file], schema, io, deletes=[delete])] == [i for i in (1, 2, 3, 4) if i != gone]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("narrow", [True, False])
def test_an_equality_delete_of_nan_matches_every_nan_whatever_its_bits(narrow: bool, columns: int) -> None:
    """0.0 / 0.0 has its sign bit set on x86, Java's Double.NaN has not."""
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7FC00001, 0, 0x80000000], np.uint32).view(np.float32)
    wide = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, 0, 1 << 63], np.uint64).view(np.float64)
    values = pa.array(bits if narrow else wide)
    ids = pa.array([1] * len(values))
    for encoded in (values, values.dictionary_encode()):
        for at in range(3):
            key = [ids.slice(0, 1), values.slice(at, 1)][-columns:]
            keys = equality_keys(range(columns), [key])
            assert keys is not None
            found = keys.matches(lambda i, encoded=encoded: [ids, encoded][-columns:][i])
            assert found.tolist() == [True, True, True, False, False]
    repeated = equality_keys([0], [[values]])
    assert repeated is not None
    assert len(repeated.steps[0].values) == 3  # one NaN, both zeros


def test_a_delete_column_in_a_null_struct_is_null() -> None:
    inner = StructType((NestedField(3, "k", INT), NestedField(4, "other", INT)))
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "s", inner))
    io = new_io()
    (file,) = write(write_context(schema), io, [(1, None), (2, (None, 1)), (3, (5, 1)), (4, (6, 1))])
    deletes = delete_rows(schema, io, (3,), [(0, (5, None)), (0, None)])
    assert [r[0] for r in read([file], schema, io, deletes=deletes)] == [4]


@pytest.mark.parametrize(
    "type_", [DOUBLE, UNKNOWN, VARIANT, GeometryType(), GeographyType(), StructType((NestedField(9, "x", INT),))]
)
def test_columns_without_one_stored_exact_value_are_refused_as_delete_columns(type_: IcebergType) -> None:
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "v", type_))
    with pytest.raises(SchemaError, match="cannot be a delete column"):
        write_equality_deletes(new_io(), write_context(schema, version=2), (2,), [], operation_id="e")


@pytest.mark.parametrize("now", [UNKNOWN, INT])
@pytest.mark.parametrize("inside", [False, True])
def test_a_delete_column_that_was_unknown_is_in_no_file_and_its_keys_are_null(now: IcebergType, inside: bool) -> None:
    """Other engines delete by it; what they wrote as type unknown is null, also after the column got a type."""

    def schema(type_: IcebergType) -> Schema:
        u = NestedField(2, "u", type_)
        return Schema.of(NestedField(1, "id", LONG, True), NestedField(3, "s", StructType((u,))) if inside else u)

    io = new_io()
    files = write(write_context(Schema.of(NestedField(1, "id", LONG, True))), io, [(1,), (2,)])
    if now == INT:
        files += write(write_context(schema(INT)), io, [(1, (5,) if inside else 5), (3, (None,) if inside else None)])
    only_id = Schema.of(NestedField(1, "id", LONG, True))
    deletes = [
        replace(d, data_file=replace(d.data_file, equality_ids=(1, 2))) for d in delete_rows(only_id, io, (1,), [(1,), (3,)])
    ]
    found = read(files, schema(now), io, schemas=(schema(UNKNOWN), schema(now)), deletes=deletes)
    left = [(2, None)] + ([(1, (5,) if inside else 5)] if now == INT else [])
    assert found == left


def test_a_delete_file_without_one_of_its_columns_is_corrupt() -> None:
    inner = StructType((NestedField(3, "k", INT), NestedField(4, "other", INT)))
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "s", inner))
    io = new_io()
    files = write(write_context(schema), io, [(1, (5, 1))])
    of_other = delete_rows(schema, io, (4,), [(0, (None, 1))])
    for ids in ((3,), (1,), (3, 4)):
        deletes = [replace(d, data_file=replace(d.data_file, equality_ids=ids)) for d in of_other]
        with pytest.raises(CorruptTableError, match=r"lacks column (s|id) of its equality_ids"):
            read(files, schema, io, deletes=deletes)


def test_uuid_and_dense_keys_match_like_any_other() -> None:
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "u", UUID))
    io = new_io()
    rows = [(i, uuid.UUID(int=i)) for i in range(100)]
    (file,) = write(write_context(schema), io, rows)
    deletes = delete_rows(schema, io, (2,), [(0, uuid.UUID(int=5))]) + delete_rows(schema, io, (1,), rows[50:], "f")
    assert read([file], schema, io, deletes=deletes) == [r for r in rows[:50] if r[0] != 5]


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_deletes_are_written_and_read_in_both_formats(form: str) -> None:
    io = new_io()
    context = write_context(SCHEMA, version=2, properties={"write.delete.format.default": form})
    (file,) = write(context, io, ROWS)
    by_position = write_position_deletes(io, context, {file: [0, 1]}, operation_id="p")
    by_value = write_equality_deletes(io, context, (1,), [batch_of(SCHEMA, ROWS[2:5])], operation_id="e")
    assert {f.file_format.value for f in by_position + by_value} == {form}
    assert read([file], SCHEMA, io, deletes=applied(by_position + by_value)) == ROWS[5:]


def test_two_deletion_vectors_of_one_file_are_corrupt() -> None:
    io = new_io()
    files, found = vectors(io)
    with pytest.raises(CorruptTableError, match="allows one"):
        read([files[0]], SCHEMA, io, deletes=applied([found[0], found[0]]))


@pytest.mark.parametrize("is_local", [False, True], ids=["far", "local"])
def test_where_one_position_delete_file_fails_none_is_left(monkeypatch: pytest.MonkeyPatch, is_local: bool) -> None:
    class Failing(MemoryFileIO):
        def open_output(self, location: str) -> BinaryIO:
            if "-00007-" in location:
                raise OSError(f"{location}: no space left")
            return super().open_output(location)

        def local_path(self, location: str) -> str | None:
            return location if is_local else None

    io = Failing(f"failing-{is_local}")
    context = write_context(SCHEMA, version=2)
    files = [write(context, io, ROWS, operation_id=f"data{i}")[0] for i in range(12)]
    with pytest.raises(OSError, match="no space left"):
        write_position_deletes(io, context, {f: [1] for f in files}, "file", operation_id="d")
    assert sorted(f.location for f in io.list_prefix("memory://wh")) == sorted(f.file_path for f in files)
