"""Every operation of the commit package on one table under one run key, for tests that kill it during its work (jobs:
``killed_jobs``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import (
    UpdateLocation,
    UpdateProperties,
    UpdateSchema,
    UpdateSortOrder,
    UpdateSpec,
    UpdateStatistics,
    UpgradeFormatVersion,
)
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.deletion.leases import Lease, acquire_lease, release_lease
from iceberg_ops.expressions.predicates import lt
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.transforms import IDENTITY, Transform
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.lake import Lake, Row, numbered

RUN_KEY = "job/1"
FOUR_DAYS_NS = 4 * 24 * 3_600_000_000_000
Work = Callable[[Lake, str], None]


@dataclass(frozen=True)
class KilledOperation:
    """``work`` writes files under the name it is given. ``snapshots``: how many it makes (None: it depends); ``in_parts``: if it
    dies, its finished parts stay, by design; ``catalogs``: those in which it can be done."""

    work: Work
    snapshots: int | None = 1
    in_parts: bool = False
    catalogs: tuple[str, ...] = ("filesystem", "sql")


def write_rows(lake: Lake, rows: list[Row], name: str) -> tuple[DataFile, ...]:
    table = lake.table
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=name, task_id="0", fanout=True)
    ids, texts, regions = zip(*rows, strict=True)
    writer.write(pa.RecordBatch.from_pydict({"id": ids, "data": texts, "region": regions}))
    return tuple(writer.close())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def head(lake: Lake) -> int:
    return lake.table.metadata.current_snapshot_id or 0


def append(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    commit(lake.catalog, lake.table, AppendFiles(added=added, run_key=RUN_KEY))


def stage(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    commit(lake.catalog, lake.table, AppendFiles(added=added, staged=True, summary={"wap.id": "x"}, run_key=RUN_KEY))


def append_to_branch(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    commit(lake.catalog, lake.table, AppendFiles(added=added, branch="audit", run_key=RUN_KEY))


def overwrite(lake: Lake, name: str) -> None:
    table, task = lake.table, lake.tasks()[0]
    operation = OverwriteFiles(
        added=write_rows(lake, numbered(100, 5), name),
        removed=(task.data_file,),
        starting_snapshot_id=head(lake),
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def overwrite_filter(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    operation = OverwriteFiles(
        added=added, overwrite_filter=lt("id", 5), starting_snapshot_id=head(lake), run_key=RUN_KEY
    )  # fmt: skip
    commit(lake.catalog, lake.table, operation)


def replace_partitions(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    commit(lake.catalog, lake.table, ReplacePartitions(added=added, starting_snapshot_id=head(lake), run_key=RUN_KEY))


def delta(lake: Lake, name: str) -> None:
    table, task = lake.table, lake.tasks()[0]
    found = [(task, np.array([0, 2], np.int64))]
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), found, operation_id=name)
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        added_data=write_rows(lake, numbered(200, 2), name),
        referenced_data_files=(task.file_path,),
        starting_snapshot_id=head(lake),
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def rewrite(lake: Lake, name: str) -> None:
    table, tasks = lake.table, lake.tasks()
    operation = RewriteFiles(
        removed_data=tuple(task.data_file for task in tasks),
        added_data=write_rows(lake, lake.rows(), name),
        starting_snapshot_id=head(lake),
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def transaction(lake: Lake, name: str) -> None:
    operations = (
        AppendFiles(added=write_rows(lake, numbered(100, 5), f"{name}-1")),
        UpdateProperties(updates={"a": "b"}),
        SetRef(ref="noon", snapshot_id=head(lake), type="tag"),
        AppendFiles(added=write_rows(lake, numbered(200, 5), f"{name}-2"), branch="audit"),
    )
    commit(lake.catalog, lake.table, Transaction(operations=operations, run_key=RUN_KEY))


def expiry(lake: Lake, name: str) -> None:
    expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key=RUN_KEY))


def expiry_beside_a_job(lake: Lake, name: str) -> None:
    """Another job holds a lease on the parent of the head, so that little may expire."""
    parent = lake.table.metadata.snapshot(head(lake)).parent_snapshot_id
    lease = Lease(holder="other", snapshot_id=parent, expires_at_ms=now_ms() + 3_600_000, instance="its run")
    acquire_lease(lake.table, lease)
    expiry(lake, name)
    assert parent in lake.table.metadata.snapshots_by_id
    release_lease(lake.table, lease)


def roll_back(lake: Lake, name: str) -> None:
    parent = lake.table.metadata.snapshot(head(lake)).parent_snapshot_id
    commit(lake.catalog, lake.table, RollBack(snapshot_id=parent, run_key=RUN_KEY))


def set_current(lake: Lake, name: str) -> None:
    commit(lake.catalog, lake.table, SetCurrentSnapshot(ref="audit", run_key=RUN_KEY))


def more_columns(lake: Lake, name: str) -> None:
    table = lake.table
    schema = Schema.of(*table.schema.fields, NestedField(table.metadata.last_column_id + 1, "more", LONG))
    commit(lake.catalog, table, UpdateSchema(schema=schema, run_key=RUN_KEY))


def statistics(lake: Lake, name: str) -> None:
    table = lake.table
    path = f"{table.location}/metadata/{name}.stats"
    table.io.write(path, b"x", overwrite=True)
    found = StatisticsFile(snapshot_id=head(lake), statistics_path=path, file_size_in_bytes=1, file_footer_size_in_bytes=1)
    commit(lake.catalog, table, UpdateStatistics(added=(found,), run_key=RUN_KEY))


def no_statistics(lake: Lake, name: str) -> None:
    """Those that the table has already go."""
    known = tuple(f.snapshot_id for f in lake.table.metadata.statistics)
    commit(lake.catalog, lake.table, UpdateStatistics(removed=known, run_key=RUN_KEY))


def more_partitions(lake: Lake, name: str) -> None:
    table = lake.table
    evolution = SpecEvolution.of_table(table.metadata)
    if all(f.source_id != 1 for f in table.metadata.spec.fields):
        evolution.add_field("id", Transform("bucket", 4))
    commit(lake.catalog, table, UpdateSpec(spec=evolution.apply(), run_key=RUN_KEY))


def move(lake: Lake, name: str) -> None:
    place = f"{lake.table.location.rpartition('/')[0]}/elsewhere"
    commit(lake.catalog, lake.table, UpdateLocation(location=place, run_key=RUN_KEY))


def partition_statistics(lake: Lake, name: str) -> None:
    table = lake.table
    path = f"{table.location}/metadata/{name}.partition-stats"
    table.io.write(path, b"x", overwrite=True)
    found = PartitionStatisticsFile(snapshot_id=head(lake), statistics_path=path, file_size_in_bytes=1)
    commit(lake.catalog, table, UpdateStatistics(added_partition=(found,), run_key=RUN_KEY))


def upsert(lake: Lake, name: str) -> None:
    """Rows by key: equality deletes for the existing rows, and the new rows."""
    table = lake.table
    ids = pa.RecordBatch.from_pydict({"id": [1, 2]})
    keys = write_equality_deletes(table.io, WriteContext.for_table(table.metadata), [1], [ids], operation_id=f"{name}-keys")
    added = write_rows(lake, numbered(1, 2), name)
    operation = RowDelta(added_data=added, added_deletes=tuple(keys), isolation=None, run_key=RUN_KEY)
    commit(lake.catalog, table, operation)


def replace_branch(lake: Lake, name: str) -> None:
    parent = lake.table.metadata.snapshot(head(lake)).parent_snapshot_id or 0
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=parent, replace_existing=True, run_key=RUN_KEY))


def one(make: Callable[[Lake], Any]) -> Work:
    """An operation that writes no files of its own."""
    return lambda lake, name: (commit(lake.catalog, lake.table, make(lake)), None)[1]


BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))

OPERATIONS: dict[str, KilledOperation] = {
    "append": KilledOperation(append),
    "staged append": KilledOperation(stage),
    "append to a branch": KilledOperation(append_to_branch),
    "cherry-pick": KilledOperation(one(lambda lake: CherryPick(wap_id="w", run_key=RUN_KEY))),
    "overwrite": KilledOperation(overwrite),
    "overwrite by filter": KilledOperation(overwrite_filter),
    "replace partitions": KilledOperation(replace_partitions),
    "delete files": KilledOperation(one(lambda lake: DeleteFiles(filter=lt("id", 5), run_key=RUN_KEY))),
    "row delta": KilledOperation(delta),
    "rewrite files": KilledOperation(rewrite),
    "rewrite manifests": KilledOperation(one(lambda lake: RewriteManifests(run_key=RUN_KEY))),
    "transaction": KilledOperation(transaction, 2),
    "expire": KilledOperation(expiry, None),
    "expire beside a job": KilledOperation(expiry_beside_a_job, None),
    "roll back": KilledOperation(roll_back, 0),
    "set current": KilledOperation(set_current, 0),
    "tag": KilledOperation(one(lambda lake: SetRef(ref="noon", snapshot_id=head(lake), type="tag", run_key=RUN_KEY)), 0),
    "rename branch": KilledOperation(one(lambda lake: RenameBranch(old="audit", new="later", run_key=RUN_KEY)), 0),
    "remove branch": KilledOperation(one(lambda lake: RemoveRef(ref="audit", run_key=RUN_KEY)), 0),
    "fast-forward": KilledOperation(one(lambda lake: FastForward(branch="audit", to="main", run_key=RUN_KEY)), 0),
    "properties": KilledOperation(one(lambda lake: UpdateProperties(updates={"a": "b"}, run_key=RUN_KEY)), 0),
    "schema": KilledOperation(more_columns, 0),
    "sort order": KilledOperation(one(lambda lake: UpdateSortOrder(sort_order=BY_ID, run_key=RUN_KEY)), 0),
    "upgrade": KilledOperation(one(lambda lake: UpgradeFormatVersion(format_version=3, run_key=RUN_KEY)), 0),
    "statistics": KilledOperation(statistics, 0),
    "no statistics": KilledOperation(no_statistics, 0),
    "partition spec": KilledOperation(more_partitions, 0),
    "location": KilledOperation(move, 0, catalogs=("sql",)),
    "data path": KilledOperation(
        one(lambda lake: UpdateProperties(updates={"write.data.path": f"{lake.table.location}/rows"}, run_key=RUN_KEY)), 0
    ),
    "upsert": KilledOperation(upsert),
    "replace branch": KilledOperation(replace_branch, 0),
    "partition statistics": KilledOperation(partition_statistics, 0),
}
