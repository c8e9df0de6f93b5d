"""Removing files from manifests that are rewritten as whole columns, on threads: the result equals that of rewriting entry by
entry."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests import manifest_filter
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.errors import ValidationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestEntry
from iceberg_ops.table.manifests import CACHE, entries_of, manifests_of, read_entries
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, copied, data_file, live_paths, make_catalog, make_table

REGIONS = ("eu", "us", "asia")
MANIFESTS = 3
PER_MANIFEST = 1500
assert MANIFESTS * PER_MANIFEST >= manifest_filter._FEWEST_FOR_THREADS


def files_of(manifest: int) -> list[DataFile]:
    return [
        data_file(f"/d/{manifest}-{n:05}", rows=n % 7 + 1, partition=(REGIONS[n % 3],), ids=(n, n + 5), size=1000 + n)
        for n in range(PER_MANIFEST)
    ]


def filled(version: int) -> tuple[MemoryCatalog, Table]:
    """A catalog of its own for whoever asks; the table in it was written once for each version."""
    catalog = copied(_filled(version))
    return catalog, catalog.load_table(IDENTIFIER)


@cache
def _filled(version: int) -> MemoryCatalog:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    for m in range(MANIFESTS):
        table = commit(catalog, table, AppendFiles(added=tuple(files_of(m)), merge=False)).table
    return catalog


def entries(table: Table) -> list[ManifestEntry]:
    found = [e for m in manifests_of(table, table.metadata.current_snapshot) for e in read_entries(table, m)]
    return sorted(found, key=lambda e: (e.data_file.file_path, e.status))


def operations(table: Table) -> dict[str, object]:
    everything = [f for m in range(MANIFESTS) for f in files_of(m)]
    scattered = everything[::20]
    joined = data_file("/d/joined", rows=sum(f.record_count for f in scattered), partition=("eu",))
    return {
        "scattered files by others": RewriteFiles(removed_data=tuple(scattered), added_data=(joined,)),
        "all files": RewriteFiles(removed_data=tuple(everything)),
        "paths spelled otherwise": DeleteFiles(paths=tuple(f"file:{f.file_path}" for f in scattered)),
        "a partition": ReplacePartitions(added=(joined,), starting_snapshot_id=table.metadata.current_snapshot_id),
    }


NAMES = ("scattered files by others", "all files", "paths spelled otherwise", "a partition")


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_columns_and_entries_give_one_table(version: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for by_columns in (True, False):
        catalog, table = filled(version)
        with monkeypatch.context() as patched:
            if by_columns:
                patched.setattr(manifest_filter.ManifestFilter, "_by_entries", lambda *_: pytest.fail("entry by entry"))
            else:
                patched.setattr(manifest_filter.DataRemoval, "gone", lambda *_: None)
            tables.append(commit(catalog, table, operations(table)[name]).table)  # type: ignore[arg-type]
    fast, slow = tables
    assert live_paths(fast) == live_paths(slow)
    ids = [{s.snapshot_id: n for n, s in enumerate(t.metadata.snapshots)} for t in tables]
    numbered = [
        [replace(e, snapshot_id=known[e.snapshot_id or 0]) for e in entries(t)] for t, known in zip(tables, ids, strict=True)
    ]
    assert numbered[0] == numbered[1]
    summaries = [t.metadata.current_snapshot.summary for t in tables if t.metadata.current_snapshot is not None]
    assert summaries[0] == summaries[1]
    listed = [
        [
            (
                m.added_files_count,
                m.existing_files_count,
                m.deleted_files_count,
                m.existing_rows_count,
                m.min_sequence_number,
                m.partitions,
            )
            for m in manifests_of(t, t.metadata.current_snapshot)
        ]
        for t in tables
    ]
    assert listed[0] == listed[1]
    assert any(e.status is EntryStatus.DELETED for e in numbered[0])


def test_a_file_that_is_not_there_is_named() -> None:
    catalog, table = filled(2)
    gone = data_file("/d/never", partition=("eu",))
    with pytest.raises(ValidationError, match="Missing required files to delete: /d/never"):
        commit(catalog, table, RewriteFiles(removed_data=(*files_of(0)[:10], gone)))  # type: ignore[arg-type]
    assert len(live_paths(table)) == MANIFESTS * PER_MANIFEST


def test_a_manifest_is_read_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = filled(2)
    CACHE.clear()
    reads: Counter[str] = Counter()
    storage = type(table.io)
    read = storage.read

    def counted(self: FileIO, location: str) -> bytes:
        reads[location] += 1
        return read(self, location)

    monkeypatch.setattr(storage, "read", counted)
    planned = [e.data_file for m in manifests_of(table, table.metadata.current_snapshot) for e in entries_of(table, m)]
    table = commit(catalog, table, RewriteFiles(removed_data=tuple(planned[::20]))).table  # type: ignore[arg-type]
    read_manifests = [m.manifest_path for s in table.metadata.snapshots for m in manifests_of(table, s)]
    assert {reads[path] for path in read_manifests} <= {0, 1}
    assert sum(reads[path] for path in set(read_manifests)) == MANIFESTS
