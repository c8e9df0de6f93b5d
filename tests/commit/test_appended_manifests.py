"""Manifests that are appended unchanged (Java: TestFastAppend, TestMergeAppend, the appendManifest cases)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.appended_manifests import write_manifests_to_append
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import BadInputError, CommitFailedError
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.builders import data_file, live_files, live_paths, make_catalog, make_table
from tests.catalog.wrappers import FailsNTimes, Meddles

VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def begin(version: int, **properties: str) -> tuple[Any, Any]:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True, properties=properties)
    return catalog, commit(catalog, table, AppendFiles(added=(data_file("a", partition=("eu",)),))).table


def manifest(table: Any, *names: str) -> Any:
    (made,) = write_manifests_to_append(table, [data_file(name, partition=("eu",)) for name in names])
    return made


@VERSIONS
@pytest.mark.parametrize("merge", [True, False])
def test_its_files_are_added_by_this_snapshot_and_counted(version: int, merge: bool) -> None:
    catalog, table = begin(version)
    made = manifest(table, "m1", "m2")
    table = commit(
        catalog, table, AppendFiles(added=(data_file("b", partition=("us",)),), manifests=(made,), merge=merge)
    ).table  # fmt: skip
    snapshot = table.metadata.current_snapshot
    number = 2 if version > 1 else 0
    assert live_files(table)["m1"] == live_files(table)["b"] == (number, number)
    assert live_paths(table) == {"a", "b", "m1", "m2"}
    wanted = {"added-data-files": "3", "added-records": "30", "total-data-files": "4", "total-records": "40", "operation": "append"}
    assert {key: snapshot.summary[key] for key in wanted} == wanted
    mine = [m for m in manifests_of(table, snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
    assert all(e.snapshot_id == snapshot.snapshot_id for m in mine for e in entries_of(table, m))
    assert (made.manifest_path in {m.manifest_path for m in mine}) == (version > 1), "v1 inherits nothing: it is copied"


def test_row_ids_are_given_to_its_files_once() -> None:
    catalog, table = begin(3)
    table = commit(catalog, table, AppendFiles(manifests=(manifest(table, "m1", "m2"),))).table
    found = {
        e.data_file.file_path: e.data_file.first_row_id
        for m in manifests_of(table, table.metadata.current_snapshot)
        for e in entries_of(table, m)
    }
    assert found == {"a": 0, "m1": 10, "m2": 20}
    assert table.metadata.next_row_id == 30


@pytest.mark.parametrize("version", [2, 3])
def test_it_is_merged_with_others_where_there_are_enough(version: int) -> None:
    catalog, table = begin(version, **{"commit.manifest.min-count-to-merge": "2"})
    table = commit(catalog, table, AppendFiles(manifests=(manifest(table, "m1"),))).table
    (one,) = manifests_of(table, table.metadata.current_snapshot)
    assert (one.added_files_count, one.existing_files_count) == (1, 1)
    assert live_files(table) == {"a": (1, 1), "m1": (2, 2)}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("in_one_transaction", [False, True])
def test_appended_again_its_files_keep_the_numbers_of_the_first_commit(version: int, in_one_transaction: bool) -> None:
    """Otherwise rows that were deleted after the first commit come back, and rows change their ids."""
    catalog, table = begin(version, **{"commit.manifest.min-count-to-merge": "2"})
    merged = AppendFiles(manifests=(manifest(table, "m1"),))
    unmerged = replace(merged, merge=False)
    for operation in (Transaction(operations=(unmerged, merged)),) if in_one_transaction else (unmerged, merged):
        table = commit(catalog, table, operation).table
    found = [
        (e.sequence_number, e.data_file.first_row_id)
        for m in manifests_of(table, table.metadata.current_snapshot)
        for e in entries_of(table, m, live_only=True)
        if e.data_file.file_path == "m1"
    ]
    assert sorted(found) == ([(2, None), (3, None)] if version < 3 else [(2, 10), (3, 20)])


@VERSIONS
def test_a_refused_commit_leaves_it_to_its_maker_and_a_retry_uses_it_again(version: int) -> None:
    catalog, table = begin(version, **{"commit.retry.num-retries": "4"})
    made = manifest(table, "m1")
    with pytest.raises(CommitFailedError):
        commit(FailsNTimes(catalog, 5), table, AppendFiles(manifests=(made,)), sleep=lambda _: None)
    assert table.io.exists(made.manifest_path)
    done = commit(FailsNTimes(catalog, 3), table, AppendFiles(manifests=(made,)), sleep=lambda _: None)
    assert live_paths(done.table) == {"a", "m1"}


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3)])
def test_an_upgrade_between_two_tries_takes_it_over_anew(before: int, after: int) -> None:
    catalog, table = begin(before)
    made = manifest(table, "m1")
    upgraded = Meddles(catalog, lambda: commit(catalog, table, UpgradeFormatVersion(format_version=after)))
    done = commit(upgraded, table, AppendFiles(manifests=(made,)), sleep=lambda _: None)
    assert live_paths(done.table) == {"a", "m1"}
    assert live_files(done.table)["m1"][0] == (1 if before == 1 else 2)


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "existing files": ({"existing_files_count": 1}, "Cannot append manifest with existing files"),
    "deleted files": ({"deleted_files_count": 1}, "Cannot append manifest with deleted files"),
    "a snapshot id": ({"added_snapshot_id": 7}, "Snapshot id must be assigned during commit"),
    "a sequence number": ({"sequence_number": 7}, "Sequence must be assigned during commit"),
    "deletes": ({"content": ManifestContent.DELETES}, "append takes data manifests only"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_manifest_is_refused_that_has(what: str) -> None:
    _, table = begin(2)
    changes, message = UNFIT[what]
    with pytest.raises(BadInputError, match=message):
        AppendFiles(manifests=(replace(manifest(table, "m1"), **changes),))


def test_a_manifest_of_the_table_is_refused_whatever_its_counts_say() -> None:
    catalog, table = begin(2)
    (known,) = manifests_of(table, table.metadata.current_snapshot)
    disguised = replace(known, added_snapshot_id=None, sequence_number=0)
    with pytest.raises(BadInputError, match="a in it is not just added"):
        commit(catalog, table, AppendFiles(manifests=(disguised,)))


def test_a_manifest_is_not_appended_twice_by_one_commit() -> None:
    _, table = begin(2)
    made = manifest(table, "m1")
    with pytest.raises(BadInputError, match="is appended twice"):
        AppendFiles(manifests=(made, made))
