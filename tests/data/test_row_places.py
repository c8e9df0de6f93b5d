"""The new position of each row of a rewrite is reconstructed exactly: in file order, sorted, z-ordered, spilled, split by
partition; with rows that position deletes, deletion vectors and equality deletes had removed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iceberg_ops.commit.operations.carry_over import RowMap
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.data.rewriting.row_places import places_of_rows, rows_not_copied
from iceberg_ops.data.rewriting.staged_sort import sorted_in_stages
from iceberg_ops.data.sorting import external_sort, key_sample
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask, task_to_json
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, bucket
from tests.data.files import batch_of, new_io, read, write, write_context
from tests.data.test_rewrite import SCHEMA, some_rows, work_of

BY_CITY_AND_BUCKET = PartitionSpec(
    1, (PartitionField((3,), 1000, IDENTITY, "city"), PartitionField((1,), 1001, bucket(3), "id_bucket"))
)
BY_CITY = SortOrder(
    1,
    (
        SortField((3,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField((2,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),
    ),
)
SORTED = {"sort_order": sort_order_to_dict(BY_CITY)}
ZORDERED = {"zorder_columns": ("city", "price")}
CASES: list[Any] = [
    pytest.param({}, id="bin-pack"),
    pytest.param({"target_file_size": 1}, id="bin-pack into several files"),
    pytest.param(SORTED, id="sorted"),
    pytest.param({**SORTED, "memory_limit_bytes": 7_000}, id="sorted on disk"),
    pytest.param({**SORTED, "memory_limit_bytes": 7_000, "target_file_size": 1}, id="sorted on disk into several files"),
    pytest.param(ZORDERED, id="z-ordered"),
    pytest.param({**ZORDERED, "memory_limit_bytes": 7_000}, id="z-ordered on disk"),
    pytest.param({**SORTED, "ranges": 3, "memory_limit_bytes": 7_000}, id="sorted in stages"),
    pytest.param({**ZORDERED, "ranges": 4, "memory_limit_bytes": 7_000, "target_file_size": 1}, id="z-ordered in stages"),
    pytest.param({"partition": None, "spec_id": 1}, id="split by partition"),
    pytest.param({"partition": None, "spec_id": 1, **SORTED, "memory_limit_bytes": 7_000}, id="sorted and split"),
]


def a_work(io: MemoryFileIO, options: dict[str, Any]) -> GroupWork:
    """1,500 rows of few keys in six files; of some, rows are deleted in each of the ways there are."""
    rows, context = some_rows(1500), write_context(SCHEMA)
    files = [f for i in range(0, 1500, 250) for f in write(context, io, rows[i : i + 250], operation_id=f"in{i}")]
    gone = {f: np.array(sorted(random.Random(i).sample(range(250), 20))) for i, f in enumerate(files[:3])}
    v2 = replace(context, format_version=2)
    by_position = write_position_deletes(io, v2, {f: gone[f] for f in files[:2]}, "partition", operation_id="p")
    vectors = write_deletion_vectors(io, context, {files[2]: gone[files[2]]}, operation_id="v")
    city = write_equality_deletes(io, v2, [3], [batch_of(SCHEMA, [(0, None, "Bonn")]).select(["city"])], operation_id="e")
    deletes = {files[0]: by_position, files[1]: [*by_position, *city], files[2]: vectors, files[4]: city}
    given = {"partition": (), **options}
    spec = BY_CITY_AND_BUCKET if given["partition"] is None else UNPARTITIONED
    work = work_of(io, files, **given)
    tasks = tuple(
        task_to_json(FileScanTask(f, 5, deletes=tuple(DeleteFile(d, 9) for d in deletes.get(f, ())))).decode() for f in files
    )
    return GroupWork.from_json(replace(work, tasks=tasks, write=write_context(SCHEMA, spec=spec).to_json()).to_json())


def in_stages(work: GroupWork) -> GroupResult:
    return sorted_in_stages(work, 2, lambda stage, texts: [stage(text) for text in texts])


def rows_in_places(files: list[DataFile], io: MemoryFileIO) -> list[tuple[Any, ...]]:
    return read(files, SCHEMA, io, columns=["_file", "_pos", "id"])


@pytest.mark.parametrize("options", CASES)
def test_every_copied_row_is_found_again(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort, "BATCH_ROWS", 64)
    monkeypatch.setattr(external_sort, "_FEWEST_ROWS", 20)
    monkeypatch.setattr(external_sort, "_MERGED_ROWS", 20)
    monkeypatch.setattr(key_sample, "_ROWS", 100)
    io = new_io()
    work = a_work(io, options)
    made = rewrite_group(work) if work.ranges == 1 else in_stages(work)
    result = GroupResult.from_json(made.to_json())
    assert (len(result.spilled_runs) > 2) == ("memory_limit_bytes" in options)
    inputs, added = rows_not_copied(work, io), [data_file_from_dict(f) for f in result.added]
    row_map = RowMap(inputs, added, places_of_rows(work, result, io))
    dropped = {(f.file_path, int(p)) for f, positions in inputs for p in positions}
    old = {id_: (path, p) for path, p, id_ in rows_in_places([f for f, _ in inputs], io)}
    new = {id_: (path, p) for path, p, id_ in rows_in_places(added, io)}
    assert len(dropped) == 1500 - len(new) == result.deleted_rows_applied > 60
    assert {old[id_] for id_ in new} == set(old.values()) - dropped
    for ids in (random.Random(5).sample(sorted(old), 200), [next(iter(new))], []):
        deleted: dict[str, Any] = {
            f.file_path: np.array(sorted(old[i][1] for i in ids if old[i][0] == f.file_path), np.int64) for f, _ in inputs
        }
        moved = {(path, int(p)) for path, positions in row_map.moved(deleted).items() for p in positions}
        assert moved == {new[i] for i in ids if i in new}


def test_a_position_beyond_the_end_of_its_file_is_not_a_row_of_the_next() -> None:
    io = new_io()
    work = a_work(io, {})
    result = rewrite_group(work)
    inputs = rows_not_copied(work, io)
    row_map = RowMap(inputs, [data_file_from_dict(f) for f in result.added])
    assert row_map.moved({inputs[3][0].file_path: np.array([250, 251], np.int64)}) == {}


def test_rows_that_are_not_where_the_same_sort_puts_them_are_refused() -> None:
    io = new_io()
    work = a_work(io, SORTED)
    result = rewrite_group(work)
    other = rewrite_group(replace(work, sort_order=None, operation_id="unsorted"))
    with pytest.raises(VerificationError, match="cannot be found out again"):
        places_of_rows(work, replace(result, added=other.added), io)


def test_new_files_of_other_partitions_than_their_rows_are_refused() -> None:
    io = new_io()
    work = a_work(io, {"partition": None, "spec_id": 1})
    result = rewrite_group(work)
    with pytest.raises(VerificationError, match="no new file has partition"):
        places_of_rows(work, replace(result, added=result.added[1:]), io)
