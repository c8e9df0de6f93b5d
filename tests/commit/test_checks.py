"""Refusals that no conflict scenario covers: a test fails when one of them is removed (``torture/test_every_check_matters``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.carry_over import RowMap, commit_carrying_over
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSortOrder, UpdateSpec, UpdateStatistics
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import no_lost_files
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import BadInputError, ValidationError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table
from tests.actions.lake import make_lake, numbered
from tests.builders import BY_REGION, SCHEMA, data_file, live_paths, make_catalog, make_table
from tests.catalog.wrappers import Meddles

WITH_MORE = Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG))
WITH_LESS = Schema.of(*SCHEMA.fields[:-1])
BY_ID = PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "id"),))
DOWN = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_FIRST),))
UP = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))


def test_a_snapshot_without_a_wap_id_is_picked_once() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    staged = commit(catalog, table, AppendFiles(added=(data_file("w"),), staged=True))
    assert staged.snapshot is not None
    table = commit(catalog, table, AppendFiles(added=(data_file("b"),))).table
    pick = CherryPick(snapshot_id=staged.snapshot.snapshot_id)
    done = commit(catalog, table, pick)
    assert done.snapshot is not None
    with pytest.raises(ValidationError, match=f"already picked to create ancestor {done.snapshot.snapshot_id}"):
        commit(catalog, done.table, pick)
    assert live_paths(catalog.load_table(("ns", "t"))) == {"a", "b", "w"}


def test_a_wap_id_is_published_once_though_two_snapshots_have_it() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    first, second = (
        commit(catalog, table, AppendFiles(added=(data_file(name),), staged=True, summary={"wap.id": "w"})).snapshot
        for name in ("w1", "w2")
    )  # fmt: skip
    assert first is not None
    assert second is not None
    table = commit(catalog, table, AppendFiles(added=(data_file("b"),))).table
    with pytest.raises(ValidationError, match=f"snapshots {first.snapshot_id}, {second.snapshot_id}: say which one"):
        commit(catalog, table, CherryPick(wap_id="w"))
    done = commit(catalog, table, CherryPick(snapshot_id=first.snapshot_id))
    with pytest.raises(ValidationError, match="wap id that was published already: w"):
        commit(catalog, done.table, CherryPick(snapshot_id=second.snapshot_id))


def test_a_file_of_an_unknown_spec_is_refused() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(ValidationError, match="partition spec 7 of a file to be committed is not in table"):
        commit(catalog, table, AppendFiles(added=(data_file("a", spec_id=7),)))


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (UpdateSchema(schema=WITH_MORE), UpdateSchema(schema=WITH_LESS)),
        (UpdateSpec(spec=BY_REGION), UpdateSpec(spec=BY_ID)),
        (UpdateSortOrder(sort_order=DOWN), UpdateSortOrder(sort_order=UP)),
    ],
    ids=["schema", "spec", "order"],
)
def test_a_change_worked_out_on_another_state_is_refused(mine: Operation, other: Operation) -> None:
    catalog = make_catalog()
    table = make_table(catalog, properties={"commit.retry.num-retries": "0"})
    commit(catalog, table, other)
    with pytest.raises(ValidationError, match=r"has changed from .* since this change was planned"):
        commit(catalog, table, mine)


OF_TABLE = StatisticsFile(snapshot_id=7, statistics_path="s", file_size_in_bytes=1, file_footer_size_in_bytes=1)
OF_PARTITIONS = PartitionStatisticsFile(snapshot_id=7, statistics_path="s", file_size_in_bytes=1)


@pytest.mark.parametrize("operation", [UpdateStatistics(added=(OF_TABLE,)), UpdateStatistics(added_partition=(OF_PARTITIONS,))])
def test_statistics_of_a_snapshot_that_is_gone_are_refused(operation: UpdateStatistics) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    with pytest.raises(ValidationError, match="statistics for snapshot 7: it is not in table"):
        commit(catalog, table, operation)


def test_statistics_of_a_snapshot_that_expires_right_before_the_swap_are_refused() -> None:
    """Otherwise the table would name them for ever: a snapshot that is gone cannot be expired."""
    catalog = make_catalog()
    first = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    table = commit(catalog, first, AppendFiles(added=(data_file("b"),))).table
    gone = first.metadata.current_snapshot_id or 0
    meddling = Meddles(catalog, lambda: commit(catalog, table, ExpireSnapshots(snapshot_ids=(gone,))))
    with pytest.raises((ValidationError, BadInputError), match=str(gone)):
        commit(meddling, table, UpdateStatistics(added_partition=(replace(OF_PARTITIONS, snapshot_id=gone),)))
    assert catalog.load_table(("ns", "t")).metadata.partition_statistics == ()
    assert commit(catalog, table, UpdateStatistics(added=(replace(OF_TABLE, snapshot_id=_head(table)),))).table.metadata.statistics


def _head(table: Table) -> int:
    return table.metadata.current_snapshot_id or 0


def test_a_manifest_rewrite_that_loses_a_file_is_refused() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),), merge=False)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("b"),), merge=False)).table
    manifests = manifests_of(table, table.metadata.current_snapshot)
    no_lost_files(2, manifests)
    with pytest.raises(ValidationError, match=r"must have the same number of active files: 1 \(new\), 2 \(old\)"):
        no_lost_files(2, manifests[:1])


def test_deletes_that_can_not_be_written_are_a_conflict() -> None:
    """Deletes came for a file that is rewritten, and the table wants delete files in a format that is not written: the rewrite is
    refused with the files named, so that a job can do the others."""
    lake = make_lake(properties={"write.delete.format.default": "orc"})
    lake.append(numbered(0, 5))
    planned, (task,) = lake.table, lake.tasks()
    lake.delete_positions((task, [1]))
    new = data_file("new", rows=5)
    head = planned.metadata.current_snapshot
    assert head is not None
    operation = RewriteFiles(
        removed_data=(task.data_file,),
        added_data=(new,),
        starting_snapshot_id=head.snapshot_id,
        data_sequence_number=head.sequence_number,
    )
    moves = RowMap([(task.data_file, np.empty(0, np.int64))], [new])
    with pytest.raises(ValidationError, match="concurrent deletes cannot be carried over") as refused:
        commit_carrying_over(lake.catalog, planned, operation, lambda _: [moves], operation_id="carried")
    assert refused.value.file_paths == (task.file_path,)
