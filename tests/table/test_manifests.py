"""A table's manifests: writing and rolling, reading with the cache, lists of old versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.serde.manifests import manifest_columnar
from iceberg_ops.serde.manifests.manifest_list_avro import read_manifest_list, write_manifest_list
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table import manifests as under_test
from iceberg_ops.table.entry_cache import EntryCache, entries_bytes
from iceberg_ops.table.manifests import ManifestWriter, columns_of, entries_of, manifests_of, read_entries
from iceberg_ops.table.table import Table
from tests.builders import data_file, make_catalog, make_table


def a_table(version: int = 2, **properties: str) -> Table:
    return make_table(make_catalog(), version=version, properties=properties)


def storage(table: Table) -> MemoryFileIO:
    assert isinstance(table.io, MemoryFileIO)
    return table.io


def a_writer(table: Table, **more: Any) -> ManifestWriter:
    options = {"spec_id": 0, "content": ManifestContent.DATA, "snapshot_id": 5, **more}
    return ManifestWriter(table.metadata, table.io, **options)


def entry(path: str, status: EntryStatus = EntryStatus.EXISTING, sequence: int | None = 1) -> ManifestEntry:
    return ManifestEntry(status, 3, sequence, sequence, data_file(path))


def with_snapshot(table: Table, snapshot: Snapshot) -> Table:
    metadata = replace(table.metadata, snapshots=(snapshot,), current_snapshot_id=snapshot.snapshot_id)
    return replace(table, metadata=metadata)


def write_list(table: Table, rows: list[ManifestFile], metadata: TableMetadata | None = None) -> under_test.WrittenManifestList:
    return under_test.write_manifest_list(
        metadata or table.metadata, table.io, rows, snapshot_id=5, parent_snapshot_id=None, sequence_number=9
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_writer_stamps_each_kind_of_entry(version: int) -> None:
    """MANIFEST-50, SEQ-02, SEQ-03, SEQ-06."""
    table = a_table(version)
    writer = a_writer(table)
    writer.add(data_file("new"))
    writer.add(data_file("older"), sequence_number=4)
    writer.existing(entry("kept"))
    writer.deleted(entry("gone"))
    (manifest,) = writer.close()
    assert writer.written == (manifest.manifest_path,)
    assert manifest.manifest_path.startswith(f"{table.location}/metadata/")
    (listed,) = write_list(table, [manifest]).manifests
    found = entries_of(table, listed)
    assert [(e.data_file.file_path, e.status.name, e.snapshot_id) for e in found] == [
        ("new", "ADDED", 5), ("older", "ADDED", 5), ("kept", "EXISTING", 3), ("gone", "DELETED", 5),
    ]  # fmt: skip
    expected = [(9, 9), (4, 9), (1, 1), (1, 1)] if version > 1 else [(0, 0)] * 4
    assert [(e.sequence_number, e.file_sequence_number) for e in found] == expected
    assert [e.data_file.file_path for e in entries_of(table, listed, live_only=True)] == ["new", "older", "kept"]


def test_a_writer_rolls_at_the_target_size() -> None:
    table = a_table(**{"commit.manifest.target-size-bytes": "20000", "write.manifest.compression-codec": "uncompressed"})
    writer = a_writer(table, name="commit")
    for n in range(2000):
        writer.add(data_file(f"{table.location}/data/{n:08d}.parquet"))
    written = writer.close()
    assert len(written) > 1
    assert [m.manifest_path.rsplit("/", 1)[1] for m in written[:2]] == ["commit-m0.avro", "commit-m1.avro"]
    assert sum(m.added_files_count or 0 for m in written) == 2000
    assert all(storage(table).length(m.manifest_path) == m.manifest_length for m in written)


def test_a_writer_without_entries_writes_nothing() -> None:
    table = a_table()
    before = {f.location for f in storage(table).list_prefix(table.location)}
    assert a_writer(table).close() == []
    assert {f.location for f in storage(table).list_prefix(table.location)} == before


def test_v3_lists_number_rows_from_the_tables_next_row_id() -> None:
    """LINEAGE-09, LINEAGE-10, LINEAGE-14."""
    table = a_table(3)
    metadata = replace(table.metadata, next_row_id=1000)
    writer = a_writer(table)
    writer.add(data_file("a", rows=30))
    writer.add(data_file("b", rows=12))
    written = write_list(table, writer.close(), metadata)
    assert written.next_row_id == 1042
    assert [e.data_file.first_row_id for e in entries_of(table, written.manifests[0])] == [1000, 1030]
    assert read_manifest_list(table.io.read(written.location), "l") == list(written.manifests)


def test_counts_an_old_list_does_not_record_are_filled_in() -> None:
    """MLIST-08: required since v2, unknown in some v1 lists."""
    table = a_table(2)
    writer = a_writer(table)
    writer.add(data_file("a", rows=3))
    writer.existing(entry("b"))
    (manifest,) = writer.close()
    blank = replace(
        manifest, sequence_number=1, min_sequence_number=1, added_files_count=None, added_rows_count=None, existing_rows_count=None
    )
    (row,) = write_list(table, [blank]).manifests
    assert (row.added_files_count, row.existing_files_count, row.added_rows_count, row.existing_rows_count) == (1, 1, 3, 10)


def test_manifests_embedded_in_a_v1_snapshot_are_read() -> None:
    """SNAP-27."""
    table = a_table(1)
    writer = a_writer(table)
    writer.add(data_file("a"))
    (manifest,) = writer.close()
    table = with_snapshot(table, Snapshot(snapshot_id=8, timestamp_ms=1, manifests=(manifest.manifest_path,)))
    (row,) = manifests_of(table, table.metadata.current_snapshot)
    assert (row.partition_spec_id, row.sequence_number, row.added_files_count, row.has_live_files) == (0, 0, None, True)
    assert row.manifest_length == manifest.manifest_length
    assert [(e.sequence_number, e.snapshot_id) for e in entries_of(table, row)] == [(0, 5)]


def test_no_snapshot_has_no_manifests() -> None:
    table = a_table()
    assert manifests_of(table, table.metadata.current_snapshot) == []


def test_missing_files_and_unknown_specs_are_named() -> None:
    table = a_table()
    gone = Snapshot(snapshot_id=8, timestamp_ms=1, manifest_list="memory://gone.avro")
    with pytest.raises(CorruptTableError, match=r"manifest list memory://gone\.avro does not exist"):
        manifests_of(table, gone)
    manifest = ManifestFile(manifest_path="memory://m.avro", manifest_length=1)
    for read in (entries_of, read_entries, columns_of):
        with pytest.raises(CorruptTableError, match=r"manifest memory://m\.avro does not exist"):
            read(table, manifest)
    with pytest.raises(CorruptTableError, match="partition spec 7 is not in the metadata"):
        entries_of(table, replace(manifest, partition_spec_id=7))


def test_a_manifest_is_decoded_once_and_apart_for_what_it_inherits() -> None:
    table = a_table()
    writer = a_writer(table)
    writer.add(data_file("a"))
    (manifest,) = writer.close()
    first, later = (replace(manifest, sequence_number=n, min_sequence_number=n) for n in (1, 2))
    assert [e.sequence_number for e in entries_of(table, first)] == [1]
    assert [e.sequence_number for e in entries_of(table, later)] == [2]
    table.io.delete(manifest.manifest_path)
    assert [e.sequence_number for e in entries_of(table, first)] == [1], "kept in this process"
    with pytest.raises(CorruptTableError):
        read_entries(table, first)
    entries_of(table, first).clear()
    assert len(entries_of(table, first)) == 1, "a caller's list is its own"


def test_columns_make_the_entries_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_columnar, "RECORDS_WORTH_NUMPY", 0)
    table = a_table()
    writer = a_writer(table)
    for n in range(100):
        writer.add(data_file(f"memory://{n}", ids=(n, n)))
    (manifest,) = writer.close()
    manifest = replace(manifest, sequence_number=1)
    columns = columns_of(table, manifest)
    assert columns is not None
    assert columns is columns_of(table, manifest)
    assert columns.entries([7, 9]) == [entries_of(table, manifest)[n] for n in (7, 9)]


def test_the_cache_forgets_what_was_used_least_recently() -> None:
    cache = EntryCache(budget_bytes=100)
    made: list[str] = []

    def get(key: str, size: int = 40) -> str:
        return cache.get(key, lambda: made.append(key) or key, lambda _: size)

    for key in ("a", "b", "a", "c", "a", "b"):
        assert get(key) == key
    assert made == ["a", "b", "c", "b"]
    assert cache.used_bytes <= 100
    get("huge", 101)
    get("huge", 101)
    assert made[-2:] == ["huge", "huge"], "what exceeds the budget is not kept"
    cache.clear()
    assert cache.used_bytes == 0


def test_entries_are_weighed_by_their_statistics() -> None:
    plain = [ManifestEntry(EntryStatus.ADDED, 1, 1, 1, data_file("a"))]
    rich = [ManifestEntry(EntryStatus.ADDED, 1, 1, 1, data_file("a", ids=(1, 2)))]
    assert entries_bytes([]) < entries_bytes(plain) < entries_bytes(rich)


def test_the_same_bytes_are_written_in_any_list_version() -> None:
    row = ManifestFile(manifest_path="m", manifest_length=1, sequence_number=UNASSIGNED, added_snapshot_id=1)
    data = write_manifest_list([row], snapshot_id=1, parent_snapshot_id=None, sequence_number=0, format_version=1)
    assert read_manifest_list(data, "l")[0].sequence_number == 0
