"""Manifest lists of other engines whose numbers are unknown or wrong: no delete, file or row id is lost by what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.json.metadata_json import metadata_from_dict, metadata_to_dict
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.manifests import UNASSIGNED, ManifestContent, ManifestFile
from iceberg_ops.spec.updates import AddSnapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, equality_deletes, live_paths, make_catalog, make_table
from tests.commit.test_conflicts import _list, changing

Says = Callable[[ManifestFile], ManifestFile]
A, B, C, D = (data_file(name) for name in "abcd")


@contextmanager
def another_engine(catalog: MemoryCatalog, says: Says, **summary: str) -> Iterator[None]:
    """What is committed now has these rows in its manifest list, and these values in its summary."""

    def said(table: Table, update: Any) -> Any:
        if not isinstance(update, AddSnapshot):
            return update
        _list(table, update.snapshot, [says(m) for m in manifests_of(table, update.snapshot)])
        return replace(update, snapshot=replace(update.snapshot, summary={**update.snapshot.summary, **summary}))

    own = catalog.commit_table
    changing(said)(catalog)
    try:
        yield
    finally:
        catalog.commit_table = own  # type: ignore[method-assign]


def made(catalog: MemoryCatalog, operation: Any) -> Table:
    return commit(catalog, catalog.load_table(IDENTIFIER), operation).table


def test_a_snapshot_whose_parent_is_below_zero_has_none() -> None:
    """ClickHouse writes -1 for the first snapshot."""
    catalog = make_catalog()
    make_table(catalog)
    stored = metadata_to_dict(made(catalog, AppendFiles(added=(A,))).metadata)
    stored["snapshots"][0]["parent-snapshot-id"] = -1
    metadata = metadata_from_dict(stored)
    assert metadata.snapshots[0].parent_snapshot_id is None
    assert "parent-snapshot-id" not in metadata_to_dict(metadata)["snapshots"][0]


def without_minimum(m: ManifestFile) -> ManifestFile:
    """As DuckDB lists a manifest of which it does not know the minimum."""
    return replace(m, min_sequence_number=UNASSIGNED) if m.sequence_number == 0 else m


def with_its_own_number(m: ManifestFile) -> ManifestFile:
    """The number of the commit, also for files of earlier ones."""
    return replace(m, min_sequence_number=m.sequence_number)


def test_deletes_stay_where_the_list_does_not_know_how_old_the_files_are() -> None:
    catalog = make_catalog()
    make_table(catalog, version=1)
    made(catalog, AppendFiles(added=(A, B)))
    made(catalog, UpgradeFormatVersion(format_version=2))
    made(catalog, RowDelta(added_deletes=(equality_deletes("e"),), isolation=None))
    with another_engine(catalog, without_minimum):
        made(catalog, AppendFiles(added=(C,), merge=False))
    made(catalog, AppendFiles(added=(D,)))
    assert live_paths(made(catalog, DeleteFiles(paths=("d",)))) == {"a", "b", "c", "e"}


def test_deletes_stay_where_the_list_says_that_files_of_earlier_commits_are_as_young_as_itself() -> None:
    catalog = make_catalog()
    make_table(catalog)
    made(catalog, AppendFiles(added=(A, B)))
    made(catalog, RowDelta(added_deletes=(equality_deletes("e"),), isolation=None))
    with another_engine(catalog, with_its_own_number):
        made(catalog, DeleteFiles(paths=("b",)))
    made(catalog, AppendFiles(added=(D,)))
    assert live_paths(made(catalog, DeleteFiles(paths=("d",)))) == {"a", "e"}


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_a_manifest_without_counts_are_read_and_kept(version: int) -> None:
    """iceberg-go writes -1 for counts that a v1 list does not record."""

    def uncounted(m: ManifestFile) -> ManifestFile:
        files = replace(m, added_files_count=-1, existing_files_count=-1, deleted_files_count=-1)
        return replace(files, added_rows_count=-1, existing_rows_count=-1, deleted_rows_count=-1)

    catalog = make_catalog()
    make_table(catalog, version=version)
    made(catalog, AppendFiles(added=(A, B)))
    with another_engine(catalog, uncounted):
        table = made(catalog, AppendFiles(added=(C,)))
    assert {task.file_path for task in plan(table, Scan()).tasks} == {"a", "b", "c"}
    table = made(catalog, DeleteFiles(paths=("b",)))
    assert live_paths(table) == {"a", "c"}
    counts = [(m.added_files_count, m.existing_files_count) for m in manifests_of(table, table.metadata.current_snapshot)]
    assert sorted(counts) == [(0, 1), (1, 0)]


def one_file_each(m: ManifestFile) -> ManifestFile:
    """As ClickHouse counts."""
    return replace(m, added_files_count=1)


def one_row_each(m: ManifestFile) -> ManifestFile:
    return replace(m, added_rows_count=1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_are_rewritten_though_their_lists_count_wrongly(version: int) -> None:
    catalog = make_catalog()
    make_table(catalog, version=version)
    for files in ((A, B), (C, D)):
        with another_engine(catalog, one_file_each):
            made(catalog, AppendFiles(added=files, merge=False))
    table = made(catalog, RewriteManifests())
    assert live_paths(table) == {"a", "b", "c", "d"}
    (manifest,) = manifests_of(table, table.metadata.current_snapshot)
    assert manifest.existing_files_count == 4


def row_ids(table: Table) -> dict[str, int | None]:
    manifests = [m for m in manifests_of(table, table.metadata.current_snapshot) if m.content is ManifestContent.DATA]
    return {e.data_file.file_path: e.data_file.first_row_id for m in manifests for e in entries_of(table, m, live_only=True)}


@pytest.mark.parametrize("summary", [{}, {summary_keys.TOTAL_RECORDS: "many"}])
def test_rows_of_an_upgraded_table_get_ids_of_their_own_though_the_list_counts_too_few(summary: dict[str, str]) -> None:
    catalog = make_catalog()
    make_table(catalog)
    with another_engine(catalog, one_row_each, **summary):
        made(catalog, AppendFiles(added=(A, B)))
        made(catalog, AppendFiles(added=(C,), merge=False))
    made(catalog, UpgradeFormatVersion(format_version=3))
    table = made(catalog, AppendFiles(added=(D,), merge=False))
    assert sorted(row_ids(table).values()) == [0, 10, 20, 30]
    assert table.metadata.next_row_id == 40


def test_new_rows_get_no_ids_that_manifests_of_another_engine_have_given_beyond_its_own_count() -> None:
    """DuckDB gives ids to the rows of an upgraded table, and counts only those that it added."""
    catalog = make_catalog()
    make_table(catalog)
    made(catalog, AppendFiles(added=(A, B)))
    made(catalog, UpgradeFormatVersion(format_version=3))

    def counts_its_own(table: Table, update: Any) -> Any:
        if not isinstance(update, AddSnapshot):
            return update
        return replace(update, snapshot=replace(update.snapshot, added_rows=10))

    own = catalog.commit_table
    changing(counts_its_own)(catalog)
    assert made(catalog, AppendFiles(added=(C,), merge=False)).metadata.next_row_id == 10
    catalog.commit_table = own  # type: ignore[method-assign]
    table = made(catalog, AppendFiles(added=(D,), merge=False))
    assert sorted(row_ids(table).values()) == [0, 10, 20, 30]
    assert (table.metadata.current_snapshot and table.metadata.current_snapshot.first_row_id) == 30
