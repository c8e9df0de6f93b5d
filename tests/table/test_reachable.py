"""Files that snapshots refer to: live files of any of them, each kind separately."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import MetadataLogEntry, Snapshot
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.table.inspection import inspect
from iceberg_ops.table.manifests import ManifestWriter, write_manifest_list
from iceberg_ops.table.reachable import ReachableFiles, all_files, reachable_files
from iceberg_ops.table.state import table_state
from iceberg_ops.table.table import Table
from tests.builders import data_file, deletion_vector, equality_deletes, make_catalog, make_table, position_deletes


def manifest_of(table: Table, snapshot_id: int, *files: DataFile, gone: tuple[DataFile, ...] = ()) -> ManifestFile:
    content = ManifestContent(int(files[0].content > 0))
    writer = ManifestWriter(table.metadata, table.io, spec_id=0, content=content, snapshot_id=snapshot_id)
    for f in files:
        writer.add(f)
    for f in gone:
        writer.deleted(ManifestEntry(EntryStatus.ADDED, 1, 1, 1, f))
    (found,) = writer.close()
    return found


def snapshot_of(table: Table, snapshot_id: int, *manifests: ManifestFile, **summary: str) -> Snapshot:
    written = write_manifest_list(
        table.metadata, table.io, manifests, snapshot_id=snapshot_id, parent_snapshot_id=None, sequence_number=snapshot_id
    )
    return Snapshot(
        snapshot_id=snapshot_id,
        sequence_number=snapshot_id,
        timestamp_ms=1_600_000_000_000 + snapshot_id,
        manifest_list=written.location,
        summary={"operation": "append", **summary},
    )


@pytest.fixture
def table() -> Table:
    """Snapshot 1 has a and b; snapshot 2 removes b and adds c, deletes and a DV."""
    made = make_table(make_catalog("reachable"), version=3)
    first = manifest_of(made, 1, data_file("a", rows=3), data_file("b"))
    second = manifest_of(made, 2, data_file("c", rows=4), data_file("a2", rows=5), gone=(data_file("b"),))
    deletes = manifest_of(
        made, 2, position_deletes("p"), equality_deletes("e"), deletion_vector("v", "a"), deletion_vector("v", "c", offset=50)
    )
    one, two = snapshot_of(made, 1, first), snapshot_of(made, 2, second, deletes)
    more: dict[str, Any] = {
        "snapshots": (one, two),
        "current_snapshot_id": 2,
        "statistics": (StatisticsFile(snapshot_id=1, statistics_path="s", file_size_in_bytes=1, file_footer_size_in_bytes=1),),
        "partition_statistics": (PartitionStatisticsFile(snapshot_id=2, statistics_path="ps", file_size_in_bytes=1),),
        "metadata_log": (MetadataLogEntry(1, "v0.metadata.json"),),
    }
    return replace(made, metadata=replace(made.metadata, **more))


def test_all_snapshots_reach_everything(table: Table) -> None:
    found = reachable_files(table)
    assert found.data == {"a", "b", "c", "a2"}
    assert found.deletes == {"p", "e", "v"}
    assert (len(found.manifests), len(found.manifest_lists)) == (3, 2)
    assert found.statistics == {"s", "ps"}
    assert found.metadata_files == {table.metadata_location, "v0.metadata.json"}


def test_only_live_files_of_the_chosen_snapshots_are_reached(table: Table) -> None:
    """SCAN-01: a DELETED entry reaches nothing."""
    first, second = table.metadata.snapshots
    assert reachable_files(table, [first]).data == {"a", "b"}
    assert reachable_files(table, [second]).data == {"c", "a2"}
    assert reachable_files(table, []).data == frozenset()


def test_large_manifests_are_read_by_columns_with_the_same_outcome() -> None:
    made = make_table(make_catalog("large"))
    files = [data_file(f"f{n}") for n in range(60)]
    manifest = manifest_of(made, 1, *files[:50], gone=tuple(files[50:]))
    deletes = manifest_of(made, 1, *(position_deletes(f"p{n}") for n in range(40)))
    snapshot = snapshot_of(made, 1, manifest, deletes)
    found = reachable_files(replace(made, metadata=replace(made.metadata, snapshots=(snapshot,))))
    assert found.data == {f"f{n}" for n in range(50)}
    assert found.deletes == {f"p{n}" for n in range(40)}


def test_the_difference_is_what_only_one_side_reaches(table: Table) -> None:
    first, second = table.metadata.snapshots
    removed = reachable_files(table, [first]) - reachable_files(table, [second])
    assert removed.data == {"a", "b"}
    assert removed.statistics == {"s"}
    assert removed.metadata_files == frozenset()
    assert ReachableFiles(data=frozenset("x")) - ReachableFiles(deletes=frozenset("x")) == ReachableFiles()


def test_purging_lists_data_first_and_metadata_last(table: Table) -> None:
    found = all_files(table)
    assert len(found) == len(set(found)) == 16
    assert set(found[:4]) == {"a", "b", "c", "a2"}
    assert set(found[-2:]) == {table.metadata_location, "v0.metadata.json"}


def test_a_missing_manifest_stops_everything(table: Table) -> None:
    (lost,) = reachable_files(table, table.metadata.snapshots[:1]).manifests
    fresh = replace(table, io=type(table.io)("elsewhere"))  # type: ignore[call-arg]
    with pytest.raises(CorruptTableError, match="does not exist"):
        reachable_files(fresh)
    assert lost


def test_a_state_counts_manifests_where_the_summary_has_no_totals(table: Table) -> None:
    first, second = table.metadata.snapshots
    state = table_state(table, second)
    assert (state.snapshot_id, state.snapshots, state.data_files, state.delete_files) == (2, 2, 2, 4)
    assert (state.manifests, state.records, state.bytes) == (2, 9, 2280)
    totals = {"total-data-files": "7", "total-delete-files": "0", "total-records": "70", "total-files-size": "700"}
    state = table_state(table, replace(first, summary={**first.summary, **totals}))
    assert (state.data_files, state.delete_files, state.records, state.bytes) == (7, 0, 70, 700)
    assert table_state(table, None).snapshots == 2


def test_partitions_and_files_tell_deletes_apart(table: Table) -> None:
    (row,) = inspect(table, "partitions")
    assert (row["data_files"], row["records"], row["data_bytes"]) == (2, 9, 2000)
    assert (row["position_delete_files"], row["equality_delete_files"], row["deletion_vectors"]) == (1, 1, 2)
    assert (row["position_deletes"], row["equality_deletes"]) == (3, 1)
    files = inspect(table, "files")
    assert [f["file_path"] for f in files if f["content"] == "data"] == ["c", "a2"]
    assert {f["referenced_data_file"] for f in files if f["file_format"] == "puffin"} == {"a", "c"}
