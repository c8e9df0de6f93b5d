"""Copy-on-write on lane local: the new rows of a statement are written into the copies, so it leaves no more files than before."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.actions.rows import changed_rows
from iceberg_ops.actions.rows.changed_rows import ChangedRows
from iceberg_ops.actions.rows.row_commits import RowFields
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.config.options import SMALL_FILE_RATIO
from iceberg_ops.data.rewriting.copy_without import taken_in
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.expressions.predicates import ALWAYS_TRUE
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.spec.updates import LAST_ADDED, AddPartitionSpec, SetDefaultSpec
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
BY_CITY = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "city"),))
ROWS = pa.schema({"id": pa.int64(), "city": pa.string()})
LINEAGE = ["id", "city", "_row_id", "_last_updated_sequence_number"]


def fill(place: RowsPlace, first: int, city: str) -> None:
    place.run("append", source=place.source([{"id": i, "city": city} for i in range(first, first + 10)], ROWS))


def files(place: RowsPlace) -> dict[str, list[int]]:
    """Rows of each file, by partition."""
    found: dict[str, list[int]] = {}
    for task in plan(place.table(), Scan()).tasks:
        assert not task.deletes
        found.setdefault(str(*task.data_file.partition), []).append(task.record_count)
    return found


def stored(place: RowsPlace) -> int:
    return sum(1 for _ in place.folder.glob("warehouse/**/data/**/*.parquet"))


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_an_update_of_one_row_leaves_one_file_of_one(place: RowsPlace, version: str) -> None:
    place.create(SCHEMA, format__version=version)
    fill(place, 0, "Rome")
    report = place.update("copy-on-write", {"city": "'Oslo'"}, "id = 3")
    assert files(place) == {"": [10]}
    assert report.metrics["added-data-files"] == 1
    assert {r["id"]: r["city"] for r in place.rows()} == {i: "Oslo" if i == 3 else "Rome" for i in range(10)}
    assert stored(place) == 2, "the file that was replaced and the copy; none of the new rows alone"


def test_new_rows_go_into_the_copy_of_their_partition(place: RowsPlace) -> None:
    place.create(SCHEMA, BY_CITY)
    for first, city in ((0, "Rome"), (10, "Oslo"), (20, "Bonn")):
        fill(place, first, city)
    place.update("copy-on-write", {"city": "case when id % 10 = 4 then 'Oslo' else city end"}, "id IN (4, 14, 15)")
    assert files(place) == {"Rome": [9], "Oslo": [11], "Bonn": [10]}


def test_rows_of_a_partition_without_a_copy_keep_their_own_file(place: RowsPlace) -> None:
    place.create(SCHEMA, BY_CITY)
    fill(place, 0, "Rome")
    place.update("copy-on-write", {"city": "'Oslo'"}, "id < 2")
    assert files(place) == {"Rome": [8], "Oslo": [2]}
    place.update("copy-on-write", {"id": "id + 100"}, "city = 'Oslo'")
    assert files(place) == {"Rome": [8], "Oslo": [2]}
    assert sorted(r["id"] for r in place.rows()) == [*range(2, 10), 100, 101]


def test_files_of_a_former_spec_are_copied_beside_the_new_rows(place: RowsPlace) -> None:
    place.create(SCHEMA)
    fill(place, 0, "Rome")
    place.catalog.commit_table(place.table(), (), (AddPartitionSpec(BY_CITY), SetDefaultSpec(LAST_ADDED)))
    place.update("copy-on-write", {"id": "id + 100"}, "id < 2")
    assert sorted(r["id"] for r in place.rows()) == [*range(2, 10), 100, 101]


def test_merged_and_inserted_rows_keep_and_get_their_row_ids(place: RowsPlace) -> None:
    place.create(SCHEMA, format__version="3")
    fill(place, 0, "Rome")
    before = {r["id"]: tuple(r.values())[1:] for r in place.rows(columns=LINEAGE)}
    change = RowChange(
        on="target.id = source.id",
        clauses=[
            MergeClause(when="matched", action="update", assignments={"city": "source.city"}),
            MergeClause(when="not-matched", action="insert"),
        ],
        mode="copy-on-write",
    )
    place.run("merge", change=change, source=place.source([{"id": 3, "city": "Oslo"}, {"id": 77, "city": "Bonn"}], ROWS))
    number = place.table().metadata.last_sequence_number
    after = {r["id"]: tuple(r.values())[1:] for r in place.rows(columns=LINEAGE)}
    new = after.pop(77)
    assert after == {i: ("Oslo", r, number) if i == 3 else (c, r, s) for i, (c, r, s) in before.items()}
    assert new[0] == "Bonn"
    assert new[2] == number
    assert new[1] is not None
    assert new[1] not in {r for _, r, _ in before.values()}
    assert files(place) == {"": [11]}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_an_update_that_fails_after_its_copy(
    place: RowsPlace, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create(SCHEMA)
    fill(place, 0, "Rome")

    def fails(*_: object) -> None:
        raise error("between the copy and the commit")

    monkeypatch.setattr(changed_rows, "discard_own", fails)
    with pytest.raises(error):
        place.update("copy-on-write", {"city": "'Oslo'"}, "id = 3")
    assert stored(place) == 1
    assert {r["city"] for r in place.rows()} == {"Rome"}


@pytest.mark.parametrize(
    ("size", "gone", "partition", "is_taken"),
    [
        (74, 1, ("a",), True),
        (75, 1, ("a",), False),  # no small file
        (1, 10, ("a",), False),  # no row of the partition is copied
        (1, 1, ("b",), False),
    ],
)
def test_small_files_are_taken_in_where_rows_are_copied(size: int, gone: int, partition: tuple[str, ...], is_taken: bool) -> None:
    assert SMALL_FILE_RATIO == 0.75
    new = file("new", partition, size)
    copied = [(FileScanTask(file("old", ("a",), 50), 1), gone)]
    assert taken_in([new], copied, BY_CITY, 100) == ([new] if is_taken else [])


@pytest.mark.parametrize(("old", "new", "is_taken"), [(math.nan, -math.nan, True), (0.0, -0.0, False), (None, None, True)])
def test_partitions_are_told_apart_as_the_writer_does(old: float | None, new: float | None, is_taken: bool) -> None:
    copied = [(FileScanTask(file("old", (old,), 50), 1), 1)]
    small = file("new", (new,), 1)
    assert taken_in([small], copied, BY_CITY, 100) == ([small] if is_taken else [])


def test_files_that_were_taken_in_are_no_longer_staged_and_no_two_are_compared(
    place: RowsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update of many partitions has a file for each: a comparison of all with all takes hours."""
    partitions = [f"{i}" for i in range(100)]
    new = [file(f"new-{p}", (p,), 1) for p in partitions]
    table = place.create(SCHEMA, BY_CITY)
    changed = ChangedRows(
        table=table,
        scan_plan=plan(table, Scan()),
        context=replace(WriteContext.for_table(table.metadata), spec=BY_CITY),
        mode="copy-on-write",
        isolation="serializable",
        conflict_filter=ALWAYS_TRUE,
        operation_id="o",
        fields=RowFields(branch="main", run_key=None, summary={}, staged=False),
        copy=lambda work, _: [replace(f, file_path=f"copy of {f.file_path}") for f in work.taken_in],
    )
    matched = [(FileScanTask(file(f"old-{p}", (p,), 50), 1), np.zeros(1, np.int64)) for p in partitions]
    compared = list[object]()
    monkeypatch.setattr(DataFile, "__eq__", lambda one, other: compared.append(one) or one is other)
    staged = [*new]
    changed.operation(matched, staged)
    assert [f.file_path for f in staged] == [f"copy of new-{p}" for p in partitions]
    assert not compared


def test_without_partitions_files_of_any_spec_are_one_place() -> None:
    new = file("new", (), 1)
    copied = [(FileScanTask(file("old", ("a",), 50), 1), 1)]
    assert taken_in([new], copied, UNPARTITIONED, 100) == [new]


def file(path: str, partition: tuple[str | float | None, ...], size: int) -> DataFile:
    return DataFile(
        file_path=path,
        file_format=FileFormat.PARQUET,
        spec_id=1 if partition else 0,
        partition=partition,
        record_count=10,
        file_size_in_bytes=size,
    )
