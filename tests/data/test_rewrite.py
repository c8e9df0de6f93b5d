"""A file group's rewrite keeps its rows, in their order or the requested one, and proves it (LINEAGE-07, SORT-01, SORT-03,
PART-01)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask, task_to_json
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DOUBLE, LONG, STRING, NestedField
from tests.data.files import new_io, read, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "price", DOUBLE), NestedField(3, "city", STRING))
BY_CITY = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "city"),))
NAN = float("nan")


def some_rows(count: int, seed: int = 7) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    prices = [None, NAN, -0.0, 0.0, float("-inf"), *(rng.uniform(-9, 9) for _ in range(20))]
    return [(i, rng.choice(prices), rng.choice([None, "Bonn", "Köln", "Aachen"])) for i in range(count)]


def work_of(io: MemoryFileIO, files: list[DataFile], spec: PartitionSpec = UNPARTITIONED, **options: Any) -> GroupWork:
    lineage = options.pop("lineage", False)
    deletes: tuple[DeleteFile, ...] = options.pop("deletes", ())
    schema: Schema = options.pop("schema", SCHEMA)
    columns = [*(f.name for f in schema.fields), *(["_row_id", "_last_updated_sequence_number"] if lineage else [])]
    context = ReadContext(table_schema=schema, projected=schema, schemas=(schema,), specs={0: spec}).select(columns)
    tasks = tuple(task_to_json(FileScanTask(f, 5, deletes=deletes)).decode() for f in files)
    given: dict[str, Any] = {
        "group_id": "g",
        "tasks": tasks,
        "read": context.to_json(),
        "write": write_context(schema, spec=spec, row_lineage=lineage).to_json(),
        "io_properties": dict(io.properties),
        "target_file_size": 1 << 20,
        "operation_id": "rewrite",
    }
    work = GroupWork(**(given | options))
    return GroupWork.from_json(work.to_json())


def added(result: GroupResult) -> list[DataFile]:
    return [data_file_from_dict(f) for f in GroupResult.from_json(result.to_json()).added]


def test_rows_keep_their_order_and_the_certificate_counts_them() -> None:
    io, rows = new_io(), some_rows(1000)
    context = write_context(SCHEMA)
    files = [f for i in range(0, 1000, 100) for f in write(context, io, rows[i : i + 100], operation_id=f"in{i}")]
    result = rewrite_group(work_of(io, files, partition=()))
    assert repr(read(added(result), SCHEMA, io)) == repr(rows)
    assert (result.rows_in, result.rows_out, result.is_balanced) == (1000, 1000, True)
    assert result.null_counts_in[2] == result.null_counts_out[2] == sum(r[1] is None for r in rows)
    assert len(result.added) == 1
    assert result.bytes_out == added(result)[0].file_size_in_bytes


@pytest.mark.parametrize("memory_limit_bytes", [1 << 30, 4_000], ids=["in memory", "spilled"])
@pytest.mark.parametrize("direction", list(SortDirection))
@pytest.mark.parametrize("nulls", list(NullOrder))
def test_a_sort_follows_the_specs_order_of_floats_and_nulls(
    memory_limit_bytes: int, direction: SortDirection, nulls: NullOrder
) -> None:
    io, rows = new_io(), some_rows(2000)
    order = SortOrder(1, (SortField((2,), IDENTITY, direction, nulls), SortField((1,), IDENTITY, SortDirection.ASC, nulls)))
    files = [f for i in range(0, 2000, 250) for f in write(write_context(SCHEMA), io, rows[i : i + 250], operation_id=f"in{i}")]
    work = work_of(io, files, partition=(), sort_order=sort_order_to_dict(order), memory_limit_bytes=memory_limit_bytes)
    found = read(added(rewrite_group(work)), SCHEMA, io)

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        price = row[1]
        null_rank = (price is None) != (nulls is NullOrder.NULLS_FIRST)
        if price is None:
            return (null_rank, 0, 0.0, 0, row[0])
        sign = 1 if direction is SortDirection.ASC else -1
        is_nan = price != price  # noqa: PLR0124
        negative_zero = str(price) == "-0.0"
        return (null_rank, sign * is_nan, 0.0 if is_nan else sign * price, sign * (0 if negative_zero or price else 1), row[0])

    assert repr(found) == repr(sorted(rows, key=key))


@pytest.mark.parametrize("curve", ["zorder", "hilbert"])
@pytest.mark.parametrize("memory_limit_bytes", [1 << 30, 4_000], ids=["in memory", "spilled"])
def test_z_order_keeps_the_rows_and_clusters_every_column(memory_limit_bytes: int, curve: str) -> None:
    io = new_io()
    rng = random.Random(3)
    rows = [(rng.randrange(1000), rng.uniform(0, 1), rng.choice(["a", "b", "c", "d"])) for _ in range(4000)]
    files = write(write_context(SCHEMA), io, rows)
    columns = ("id", "price")
    work = work_of(io, files, partition=(), zorder_columns=columns, curve=curve, memory_limit_bytes=memory_limit_bytes)
    found = read(added(rewrite_group(work)), SCHEMA, io)
    assert sorted(found) == sorted(rows)
    for column, width in ((0, 1000), (1, 1)):
        spreads = []
        for start in range(0, 4000, 250):
            part = [r[column] for r in found[start : start + 250]]
            spreads.append((max(part) - min(part)) / width)
        assert sum(spreads) / len(spreads) < 0.5


def test_partitions_are_computed_where_no_partition_is_given() -> None:
    io, rows = new_io(), some_rows(300)
    spec = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "city"), PartitionField((1,), 1001, bucket(4), "id_bucket")))
    files = write(write_context(SCHEMA, spec=spec), io, rows)
    result = rewrite_group(work_of(io, files, spec, partition=None, spec_id=0))
    found = added(result)
    assert len(found) == 16
    assert sorted(map(repr, read(found, SCHEMA, io, spec=spec))) == sorted(map(repr, rows))
    for file in found:
        assert {row[2] for row in read([file], SCHEMA, io, spec=spec)} == {file.partition[0]}


def test_row_lineage_is_carried_over() -> None:
    io = new_io()
    (plain,) = write(write_context(SCHEMA), io, [(1, None, "a"), (2, None, "b")])
    file = DataFile(
        file_path=plain.file_path, file_format=plain.file_format, record_count=2, file_size_in_bytes=1, first_row_id=100
    )
    once = added(rewrite_group(work_of(io, [file], partition=(), lineage=True)))
    again = DataFile(
        file_path=once[0].file_path, file_format=once[0].file_format, record_count=2, file_size_in_bytes=1, first_row_id=900
    )
    names = ["id", "_row_id", "_last_updated_sequence_number"]
    assert read([again], SCHEMA, io, columns=names, sequence_number=9) == [(1, 100, 5), (2, 101, 5)]


def test_files_roll_at_the_target_size() -> None:
    io = new_io()
    rng = random.Random(1)
    rows = [(i, rng.random(), f"city {rng.random()}") for i in range(40_000)]
    files = [f for i in range(0, 40_000, 4000) for f in write(write_context(SCHEMA), io, rows[i : i + 4000], operation_id=f"in{i}")]
    target = sum(f.file_size_in_bytes for f in files) // 4
    found = added(rewrite_group(work_of(io, files, partition=(), target_file_size=target)))
    assert 3 <= len(found) <= 6
    assert all(f.file_size_in_bytes <= 1.5 * target for f in found)
    assert read(found, SCHEMA, io) == rows
