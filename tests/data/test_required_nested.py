"""A null in a required struct, list, map or variant is never stored as an empty value: such rows are refused, with their file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.groups.certificate import certified
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.staged_sort import sorted_in_stages
from iceberg_ops.data.writing.conform import check_required
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter, RollingWriter
from iceberg_ops.errors import CorruptTableError, DataError, VerificationError
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, VARIANT, IcebergType, ListType, MapType, NestedField, StructType
from tests.actions.rows_place import RowsPlace
from tests.data.files import new_io, read, write, write_context
from tests.data.test_rewrite import added, work_of
from tests.data.test_staged_sort import one_by_one

INNER = ListType(NestedField(5, "element", LONG))
LONGS = ListType(NestedField(3, "element", LONG))
PAIRS = MapType(NestedField(3, "key", STRING, required=True), NestedField(4, "value", LONG))
PART = StructType((NestedField(3, "part", StructType((NestedField(4, "r", LONG),))),))
STORED_VARIANT = pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.binary())])
CASES: dict[str, tuple[IcebergType, str, Any, pa.DataType]] = {
    "struct": (StructType((NestedField(3, "r", LONG),)), "x", {"r": 1}, pa.struct({"r": pa.int64()})),
    "list": (LONGS, "x", [1], pa.list_(pa.int64())),
    "map": (PAIRS, "x", [("a", 1)], pa.map_(pa.string(), pa.int64())),
    "variant": (VARIANT, "x", {"metadata": b"\1\0\0", "value": b"\0"}, STORED_VARIANT),
    "part of a struct": (PART, "x.part", {"part": {"r": 1}}, pa.struct({"part": pa.struct({"r": pa.int64()})})),
    "part of a list": (
        ListType(NestedField(3, "element", INNER)),
        "x.element",
        [[1]],
        pa.list_(pa.list_(pa.int64())),
    ),
    "part of a map": (
        MapType(NestedField(3, "key", STRING, required=True), NestedField(4, "value", INNER)),
        "x.value",
        [("a", [1])],
        pa.map_(pa.string(), pa.list_(pa.int64())),
    ),
}
WITHOUT = {"x.part": {"part": None}, "x.element": [None], "x.value": [("a", None)]}


def place_with_nulls(folder: Path, case: str, form: str) -> RowsPlace:
    """A table of three rows, the second without a value; then the column is made required."""
    type_, name, value, arrow = CASES[case]
    place = RowsPlace.at(folder)
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_)), format__version="3", write_format_default=form)
    table = place.table()
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id="first")
    rows = pa.array([value, WITHOUT.get(name), value], arrow)
    writer.write(pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), rows], names=["id", "x"]))
    commit(place.catalog, table, AppendFiles(added=tuple(writer.close())))
    metadata = place.table().metadata
    evolution = SchemaEvolution(metadata.schema, metadata.last_column_id, format_version=3, allow_incompatible_changes=True)
    commit(place.catalog, place.table(), UpdateSchema(schema=evolution.require_column(name).apply()))
    return place


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("case", CASES)
def test_rows_that_lack_what_the_table_requires_by_now_are_not_written_again(tmp_path: Path, case: str, form: str) -> None:
    place = place_with_nulls(tmp_path, case, form)
    before, name = place.rows(), CASES[case][1].replace(".", r"\.")
    says = rf"file .*/data/\S*: column {name} is required, but 1 of . rows have no value.*DROP NOT NULL"
    with pytest.raises(CorruptTableError, match=says):
        place.run("rewrite_data_files", options={"rewrite-all": "true"})
    with pytest.raises(CorruptTableError, match=says):
        place.update("copy-on-write", {"id": "10"}, where="id = 1")
    assert place.rows() == before
    place.update("merge-on-read", {"id": "10"}, where="id = 1")
    place.run("delete", where="id = 2")
    place.run("rewrite_data_files", options={"rewrite-all": "true"})
    assert place.rows() == [{**row, "id": {1: 10}.get(row["id"], row["id"])} for row in before[::2]]


def test_the_writer_itself_refuses_a_null_in_a_required_column() -> None:
    schema = Schema.of(NestedField(2, "x", LONGS, required=True))
    writer = RollingWriter(write_context(schema), new_io())
    with pytest.raises(DataError, match="column x is required, but 1 of 2 rows have no value"):
        writer.write_canonical(pa.RecordBatch.from_arrays([pa.array([[1], None], pa.list_(pa.int64()))], names=["x"]))


def test_a_null_inside_a_dictionary_is_a_null() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
    with pytest.raises(DataError, match="column s is required, but 1 of 2 rows have no value"):
        check_required(pa.RecordBatch.from_arrays([encoded], names=["s"]), Schema.of(NestedField(1, "s", STRING, required=True)))


NESTED = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "s", StructType((NestedField(3, "l", ListType(NestedField(4, "element", LONG))),))),
    NestedField(5, "r", StructType((NestedField(6, "m", ListType(NestedField(7, "element", LONG)), required=True),))),
    NestedField(8, "v", VARIANT),
)
ROWS: list[tuple[Any, ...]] = [
    (1, None, None, None), (2, (None,), ([1],), None), (3, ([],), ([],), None), (4, ([None],), None, None)
]  # fmt: skip
COUNTS = {2: 1, 3: 1, 5: 2, 6: 0, 8: 4}


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("how", ["in order", "by partition", "sorted", "sorted in stages"])
def test_the_certificate_counts_nulls_of_structs_lists_and_variants(how: str, form: str) -> None:
    io, spec = new_io(), PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "id"),)) if how == "by partition" else UNPARTITIONED
    written = write_context(NESTED, properties={"write.format.default": form})
    files = [f for i, row in enumerate(ROWS) for f in write(written, io, [row], operation_id=f"in{i}")]
    order = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),))
    options: dict[str, Any] = {"sort_order": sort_order_to_dict(order)} if how.startswith("sorted") else {}
    work = work_of(io, files, schema=NESTED, spec=spec, partition=None if how == "by partition" else (), **options)
    result = sorted_in_stages(work, 2, one_by_one) if how.endswith("stages") else rewrite_group(work)
    assert read(added(result), NESTED, io) == (ROWS[::-1] if options else ROWS)
    assert {i: result.null_counts_in[i] for i in COUNTS} == {i: result.null_counts_out[i] for i in COUNTS} == COUNTS
    lost = replace(result, null_counts_out={**result.null_counts_out, 3: 0})
    assert not lost.is_balanced
    with pytest.raises(VerificationError, match="nulls read of field 3 are 1, but nulls written of field 3 are 0"):
        certified(group_of(tuple(FileScanTask(f, 1) for f in files)), [lost], ())


def group_of(tasks: tuple[FileScanTask, ...]) -> FileGroup:
    return FileGroup(
        group_id="g", spec_id=0, output_spec_id=0, partition=(), partition_path="", tasks=tasks, reason="", input_bytes=1,
        estimated_bytes=1, expected_output_files=1, target_file_size=1 << 20, strategy="binpack",
    )  # fmt: skip
