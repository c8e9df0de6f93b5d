"""Rules for every file and every read of a table: GEN-01 to GEN-04, STAT-01."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.builders import data_file, equality_deletes, make_catalog, make_table

OPERATIONS = (
    AppendFiles(added=(data_file("/a"), data_file("/b"))),
    AppendFiles(added=(data_file("/c"),), branch="audit"),
    RowDelta(added_deletes=(equality_deletes("/e"),), isolation=None),
    DeleteFiles(paths=("/a",)),
    RewriteManifests(),
    UpdateProperties(updates={"k": "v"}),
)


def stored(catalog: Any, location: str) -> dict[str, bytes]:
    return {i.location: catalog.io.read(i.location) for i in catalog.io.list_prefix(location)}


def test_a_table_read_before_a_commit_keeps_its_snapshot() -> None:
    """GEN-01"""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("/a"),))).table
    later = commit(catalog, table, DeleteFiles(paths=("/a",))).table
    later = commit(catalog, later, AppendFiles(added=(data_file("/b"),))).table
    assert [t.file_path for t in plan(table, Scan()).tasks] == ["/a"]
    assert [t.file_path for t in plan(later, Scan()).tasks] == ["/b"]
    assert [t.file_path for t in plan(catalog.load_table(("ns", "t")), Scan()).tasks] == ["/b"]


def test_no_file_is_changed_once_it_is_written() -> None:
    """GEN-02"""
    catalog = make_catalog()
    table = make_table(catalog)
    seen = stored(catalog, table.location)
    for operation in OPERATIONS:
        table = commit(catalog, table, operation).table
        now = stored(catalog, table.location)
        assert {k: now[k] for k in seen} == seen, operation
        seen = now


def test_storage_needs_writing_seeking_and_deleting_only() -> None:
    """GEN-03"""
    asked = {name for name, _ in inspect.getmembers(FileIO) if not name.startswith("_")}
    assert not [name for name in asked if "rename" in name or "move" in name or "append" in name or "lock" in name]
    assert {"open_input", "delete"} <= asked


def test_locations_are_written_whole_and_a_path_without_a_scheme_is_used_as_it_is() -> None:
    """GEN-04"""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("/elsewhere/a.parquet"),))).table
    snapshot = table.metadata.current_snapshot
    assert snapshot is not None
    manifests = manifests_of(table, snapshot)
    assert "://" in table.location
    for location in (table.metadata_location, snapshot.manifest_list or "", *(m.manifest_path for m in manifests)):
        assert location.startswith(f"{table.location}/metadata/")
    assert [e.data_file.file_path for m in manifests for e in entries_of(table, m)] == ["/elsewhere/a.parquet"]
    assert LocalFileIO().local_path("/elsewhere/a.parquet") == "/elsewhere/a.parquet"


def test_statistics_that_can_not_be_read_change_no_scan() -> None:
    """STAT-01"""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("/a"),))).table
    head = table.metadata.current_snapshot_id or 0
    gone = StatisticsFile(snapshot_id=head, statistics_path="/no", file_size_in_bytes=1, file_footer_size_in_bytes=1)
    by_partition = PartitionStatisticsFile(snapshot_id=head, statistics_path="/no", file_size_in_bytes=1)
    metadata = replace(table.metadata, statistics=(gone,), partition_statistics=(by_partition,))
    assert plan(replace(table, metadata=metadata), Scan()).tasks == plan(table, Scan()).tasks
