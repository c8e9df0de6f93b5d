"""Every manifest list and manifest of the recorded tables can be parsed, adds up, and is unchanged after this package rewrites
it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.manifests.manifest_avro import read_manifest, write_manifest
from iceberg_ops.serde.manifests.manifest_list_avro import read_manifest_list, write_manifest_list
from iceberg_ops.spec.manifests import EntryStatus, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.values import from_bytes
from iceberg_ops.table.inspection import TOPICS, inspect
from iceberg_ops.table.manifests import entries_of, manifests_of, read_entries
from iceberg_ops.table.metadata_files import table_from_path
from iceberg_ops.table.state import table_state
from iceberg_ops.table.table import Table
from tests.fixture_paths import cases, requires_fixtures
from tests.table.recorded import current_metadata, expectation, recorded_io, recorded_table

pytestmark = [requires_fixtures, pytest.mark.fixtures]
NAMES = [folder.name for folder in cases()]
SPLIT_HISTORY = {"duckdb-equality_deletes_mytable", "icecxx-metaperf_snapshots", "pglake-spark_generated_iceberg_test_2"}
"""Recorded without the manifest lists of some old snapshots."""
ELSEWHERE = {"dremio-metastore_table"}
"""Recorded without its manifests."""
HAND_EDITED = {
    "duckfork-large_partitioned_table": "the list's bounds and counts are not its manifest's",
    "icecxx-partitioned_table_with_void_transform": "the list has a summary for a field that the spec no longer has",
}


def snapshots_of(name: str, table: Table) -> Iterator[tuple[Snapshot, list[ManifestFile]]]:
    """Snapshots whose manifest lists are there."""
    for snapshot in table.metadata.snapshots:
        if name in SPLIT_HISTORY and not table.io.exists(snapshot.manifest_list or ""):
            with pytest.raises(CorruptTableError, match="does not exist"):
                manifests_of(table, snapshot)
            continue
        yield snapshot, manifests_of(table, snapshot)


@pytest.mark.parametrize("name", NAMES)
def test_every_manifest_of_every_snapshot_parses_and_adds_up(name: str) -> None:
    """MLIST-08, MLIST-09, SEQ-02..05, MANIFEST-03."""
    table = recorded_table(name)
    for _, manifests in snapshots_of(name, table):
        for manifest in manifests:
            if name in ELSEWHERE:
                continue
            found = read_entries(table, manifest)
            assert found == entries_of(table, manifest), "the cached, columnar path agrees with the reference"
            counts = Counter(e.status for e in found)
            for status, count in (
                (EntryStatus.ADDED, manifest.added_files_count),
                (EntryStatus.EXISTING, manifest.existing_files_count),
                (EntryStatus.DELETED, manifest.deleted_files_count),
            ):
                assert count in (None, counts[status]) or name in HAND_EDITED
            for e in found:
                assert e.snapshot_id is not None
                assert e.sequence_number is not None
                assert e.sequence_number <= table.metadata.last_sequence_number or name in HAND_EDITED
                assert len(e.data_file.partition) == len(table.partition_type(manifest.partition_spec_id))


@pytest.mark.parametrize("name", NAMES)
def test_live_files_are_as_many_as_recorded(name: str) -> None:
    """SCAN-01."""
    table = recorded_table(name)
    recorded = {s["snapshot_id"]: s.get("live_files") for s in expectation(name)["expected"].get("snapshots", [])}
    for snapshot, manifests in snapshots_of(name, table):
        if name in ELSEWHERE or not recorded.get(snapshot.snapshot_id):
            continue
        kinds = Counter(
            ("data", "position_deletes", "equality_deletes")[e.data_file.content]
            for m in manifests
            for e in entries_of(table, m, live_only=True)
        )
        assert kinds["data"] == recorded[snapshot.snapshot_id].get("data", 0)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_read_is_written_and_read_again_the_same(name: str) -> None:
    """MANIFEST-*, MLIST-* over real data: entries, summaries and lists."""
    table = recorded_table(name)
    version = table.metadata.format_version
    for snapshot, manifests in snapshots_of(name, table):
        for manifest in () if name in ELSEWHERE else manifests:
            found = entries_of(table, manifest)
            raw, written = _written(table, manifest, found, snapshot)
            if version > 1:
                listed = replace(written, sequence_number=manifest.sequence_number, first_row_id=manifest.first_row_id)
                assert read_manifest(raw, listed, table.partition_type(manifest.partition_spec_id)) == found
            if manifest.partitions and name not in HAND_EDITED:
                assert _bounds(table, written) == _bounds(table, manifest)
        if version == 1 or all(m.added_rows_count is not None for m in manifests):
            data = write_manifest_list(manifests, snapshot_id=1, parent_snapshot_id=None, sequence_number=1, format_version=version)
            assert read_manifest_list(data, "l") == manifests


def _written(table: Table, manifest: ManifestFile, found: list[ManifestEntry], snapshot: Snapshot) -> tuple[bytes, ManifestFile]:
    return write_manifest(
        found,
        path="m",
        spec=table.metadata.specs_by_id[manifest.partition_spec_id],
        schema=table.schema,
        partition_type=table.partition_type(manifest.partition_spec_id),
        format_version=table.metadata.format_version,
        content=manifest.content,
        snapshot_id=snapshot.snapshot_id,
    )


def _bounds(table: Table, manifest: ManifestFile) -> list[tuple[bool, Any, Any]]:
    """Summaries by value: a bound written before its column was promoted is shorter."""
    types = [f.type for f in table.partition_type(manifest.partition_spec_id).fields]
    return [
        (s.contains_null, *(None if b is None else from_bytes(type_, b) for b in (s.lower_bound, s.upper_bound)))
        for type_, s in zip(types, manifest.partitions or (), strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_current_metadata_is_found_in_the_folder(name: str) -> None:
    folder = current_metadata(name).parents[1]
    table = table_from_path(str(folder), recorded_io(name))
    assert table.metadata_location == str(current_metadata(name))
    assert table_from_path(str(current_metadata(name)), recorded_io(name)).metadata == table.metadata


@pytest.mark.parametrize("name", NAMES)
def test_every_topic_of_inspection_gives_rows_that_json_can_hold(name: str) -> None:
    table = recorded_table(name)
    for topic in TOPICS:
        try:
            rows = inspect(table, topic)
        except UnsupportedError:
            assert name in ELSEWHERE
            continue
        assert json.loads(json.dumps(rows, allow_nan=False)) is not None


@pytest.mark.parametrize("name", NAMES)
def test_a_state_counts_what_the_summary_does(name: str) -> None:
    table = recorded_table(name)
    snapshot = table.metadata.current_snapshot
    state = table_state(table, snapshot)
    assert state.snapshots == len(table.metadata.snapshots)
    if snapshot is not None and name not in ELSEWHERE and not any(k.startswith("total-") for k in snapshot.summary):
        files = inspect(table, "files")
        assert state.records == sum(f["record_count"] for f in files if f["content"] == "data")
