"""A compaction must not bring back rows whose equality delete was converted to deletes by position while it ran."""

from __future__ import annotations

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.content_files import DataFile
from tests.builders import IDENTIFIER, data_file, deletion_vector, equality_deletes, make_catalog, make_table, position_deletes

A, NEW, E = data_file("a"), data_file("new"), equality_deletes("e")


def converted(version: int) -> DataFile:
    return position_deletes("p", "a") if version == 2 else deletion_vector("p", "a")


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_is_refused_when_its_equality_deletes_were_converted_meanwhile(version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    start = commit(catalog, table, AppendFiles(added=(A,))).table.metadata.current_snapshot
    assert start is not None
    table = commit(catalog, table, RowDelta(added_deletes=(E,), starting_snapshot_id=start.snapshot_id)).table
    head = table.metadata.current_snapshot_id
    conversion = RewriteFiles(removed_deletes=(E,), added_deletes=(converted(version),), starting_snapshot_id=head)
    commit(catalog, table, conversion)
    compaction = RewriteFiles(
        removed_data=(A,), added_data=(NEW,), starting_snapshot_id=start.snapshot_id, data_sequence_number=start.sequence_number
    )
    with pytest.raises(ValidationError, match="found new position delete for replaced data file"):
        commit(catalog, catalog.load_table(IDENTIFIER), compaction, sleep=lambda _: None)


def test_a_compaction_passes_when_position_deletes_were_only_put_together_meanwhile() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=(A,))).table
    first, second = position_deletes("p1", "a"), position_deletes("p2", "a")
    for delete in (first, second):
        head = table.metadata.current_snapshot_id
        table = commit(catalog, table, RowDelta(added_deletes=(delete,), starting_snapshot_id=head)).table
    start = table.metadata.current_snapshot
    assert start is not None
    together = position_deletes("p", "a", rows=2)
    commit(
        catalog,
        table,
        RewriteFiles(removed_deletes=(first, second), added_deletes=(together,), starting_snapshot_id=start.snapshot_id),
    )
    compaction = RewriteFiles(
        removed_data=(A,), added_data=(NEW,), starting_snapshot_id=start.snapshot_id, data_sequence_number=start.sequence_number
    )
    assert commit(catalog, catalog.load_table(IDENTIFIER), compaction).snapshot is not None
