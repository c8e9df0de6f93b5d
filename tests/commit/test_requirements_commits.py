"""The results of commits, requirement by requirement: GEN-09, MANIFEST-51, MANIFEST-58, SNAP-22..25, SEQ-01, LINEAGE-09,
LINEAGE-14, DEL-EQ-07, REFS-08, UPG-01..03, COMMIT-11, COMMIT-13, META-31, REST-06."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSortOrder, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.errors import BadInputError, UnsupportedError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.json.metadata_json import metadata_to_dict, metadata_to_json
from iceberg_ops.spec.manifests import EntryStatus
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, Transform
from iceberg_ops.spec.types import INT, NestedField
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table
from tests.builders import (
    SCHEMA,
    data_file,
    deletion_vector,
    equality_deletes,
    live_files,
    make_catalog,
    make_table,
    position_deletes,
)
from tests.catalog.wrappers import Meddles

A, B, C = (data_file(name) for name in ("/a", "/b", "/c"))


def begin(version: int = 2, *files: Any, **properties: str) -> tuple[Any, Table]:
    catalog = make_catalog()
    table = make_table(catalog, version=version, properties=properties)
    return catalog, commit(catalog, table, AppendFiles(added=files or (A, B))).table


def head(table: Table, branch: str = "main") -> Any:
    return table.metadata.branch_head(branch)


def entries(table: Table) -> list[Any]:
    return [e for m in manifests_of(table, head(table)) for e in entries_of(table, m)]


def test_no_file_is_added_in_a_spec_with_an_unknown_transform() -> None:
    """GEN-09; what is there stays readable and can be deleted."""
    _, table = begin()
    spec = PartitionSpec(7, (PartitionField((1,), 1000, Transform("zorder[3]"), "z"),))
    odd = replace(table, metadata=replace(table.metadata, partition_specs=(*table.metadata.partition_specs, spec)))
    file = data_file("/z", spec_id=7, partition=("x",))
    for operation in (AppendFiles(added=(file,)), RowDelta(added_data=(file,), isolation=None)):
        with pytest.raises(UnsupportedError, match=r"spec 7, because the values of z with transform zorder\[3\] are not defined"):
            operation.stage(operation.prepare(odd), odd)


def test_entries_of_files_deleted_earlier_are_left_out_when_manifests_are_rewritten() -> None:
    """MANIFEST-51, MANIFEST-52"""
    catalog, table = begin()
    table = commit(catalog, table, DeleteFiles(paths=("/a",))).table
    assert {(e.data_file.file_path, e.status) for e in entries(table)} == {
        ("/a", EntryStatus.DELETED),
        ("/b", EntryStatus.EXISTING),
    }
    table = commit(catalog, table, AppendFiles(added=(C,))).table
    table = commit(catalog, table, RewriteManifests()).table
    assert {(e.data_file.file_path, e.status) for e in entries(table)} == {
        ("/b", EntryStatus.EXISTING),
        ("/c", EntryStatus.EXISTING),
    }


def test_a_path_is_live_once() -> None:
    """MANIFEST-58: twice in one commit is refused."""
    with pytest.raises(BadInputError, match="/a"):
        AppendFiles(added=(A, A))


SUMMARIES = {
    "rows added, deleted by position and by value": (
        2,
        lambda: RowDelta(
            added_data=(C,), added_deletes=(position_deletes("/p", "/a", rows=2), equality_deletes("/e", rows=3)), isolation=None
        ),
        {
            "added-data-files": "1", "added-records": "10", "added-delete-files": "2", "added-position-delete-files": "1",
            "added-position-deletes": "2", "added-equality-delete-files": "1", "added-equality-deletes": "3",
            "added-files-size": "1200", "total-data-files": "3", "total-records": "30", "total-delete-files": "2",
            "total-position-deletes": "2", "total-equality-deletes": "3", "total-files-size": "3200",
        },
    ),
    "a deletion vector": (
        3,
        lambda: RowDelta(added_deletes=(deletion_vector("/v", "/a", rows=4),), isolation=None),
        {"added-delete-files": "1", "added-dvs": "1", "added-position-deletes": "4", "total-delete-files": "1"},
    ),
    "a file removed": (
        2,
        lambda: DeleteFiles(paths=("/a",)),
        {"deleted-data-files": "1", "deleted-records": "10", "removed-files-size": "1000", "total-data-files": "1"},
    ),
    "partitions replaced": (2, lambda: ReplacePartitions(added=(C,), isolation=None), {"replace-partitions": "true"}),
}  # fmt: skip


@pytest.mark.parametrize("case", SUMMARIES)
def test_a_summary_counts_under_the_specs_names(case: str) -> None:
    """SNAP-22, SNAP-23, SNAP-24: data files and records are deleted, everything else is removed."""
    version, operation, expected = SUMMARIES[case]
    catalog, table = begin(version)
    summary = head(commit(catalog, table, operation()).table).summary
    assert expected.items() <= summary.items()
    assert all(isinstance(v, str) for v in summary.values())
    assert summary["engine-name"] == "iceberg-ops"
    assert not {"removed-data-files", "removed-records", "deleted-delete-files", "deleted-files-size"} & set(summary)


def test_what_a_later_commit_removes_is_counted() -> None:
    """SNAP-22"""
    catalog, table = begin(3)
    vector = deletion_vector("/v", "/a", rows=4)
    table = commit(catalog, table, RowDelta(added_deletes=(vector, equality_deletes("/e", rows=3)), isolation=None)).table
    table = commit(catalog, table, RowDelta(removed_deletes=(vector, equality_deletes("/e", rows=3)), isolation=None)).table
    expected = {
        "removed-delete-files": "2", "removed-dvs": "1", "removed-position-deletes": "4", "removed-equality-delete-files": "1",
        "removed-equality-deletes": "3", "total-delete-files": "0",
    }  # fmt: skip
    assert expected.items() <= head(table).summary.items()


def test_partitions_are_summed_up_where_the_table_asks_for_it() -> None:
    """SNAP-23"""
    catalog = make_catalog()
    table = make_table(catalog, partitioned=True, properties={"write.summary.partition-limit": "5"})
    summary = head(commit(catalog, table, AppendFiles(added=(data_file("/a", partition=("eu",)),))).table).summary
    assert summary["partition-summaries-included"] == "true"
    assert summary["partitions.region=eu"] == "added-files-size=1000,added-data-files=1,added-records=10"


def test_totals_stay_unknown_where_the_parent_does_not_have_them() -> None:
    """SNAP-24"""
    _, table = begin()
    bare = replace(head(table), summary={"operation": "append"})
    odd = replace(table, metadata=replace(table.metadata, snapshots=(bare,)))
    operation = AppendFiles(added=(C,))
    staged = operation.stage(operation.prepare(odd), odd)
    assert staged.snapshot is not None
    assert staged.snapshot.summary["added-records"] == "10"
    assert not [k for k in staged.snapshot.summary if k.startswith("total-")]


def test_snapshot_ids_are_positive_random_and_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """SNAP-25"""
    catalog, table = begin()
    taken = head(table).snapshot_id
    drawn = iter([taken, 0, 7])
    from iceberg_ops.commit.manifests import snapshot_draft

    monkeypatch.setattr(snapshot_draft.secrets, "randbits", lambda bits: next(drawn) if bits == 63 else 1)
    assert head(commit(catalog, table, AppendFiles(added=(C,))).table).snapshot_id == 7


@pytest.mark.parametrize("version", [2, 3])
def test_a_retry_takes_the_next_sequence_number_and_row_ids(version: int) -> None:
    """SEQ-01, LINEAGE-09, COMMIT-05"""
    catalog, table = begin(version)
    meddling = Meddles(catalog, lambda: commit(catalog, table, AppendFiles(added=(B,), branch="audit")))
    late = Meddles(catalog, lambda: commit(catalog, table, AppendFiles(added=(data_file("/late"),))))
    for by in (meddling, late):
        done = commit(by, table, AppendFiles(added=(data_file(f"/{id(by)}"),)), sleep=lambda _: None)
        table = done.table
        assert head(table).sequence_number == table.metadata.last_sequence_number
        if version == 3:
            assert head(table).first_row_id + head(table).added_rows == table.metadata.next_row_id
    numbers = [s.sequence_number for s in table.metadata.snapshots]
    assert numbers == sorted(set(numbers))
    if version == 3:
        spans = sorted((e.data_file.first_row_id, e.data_file.record_count) for e in entries(table))
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(spans)), "no two files share a row id"


def test_commits_to_branches_and_staged_ones_use_the_tables_numbers() -> None:
    """COMMIT-13, LINEAGE-14"""
    catalog, table = begin(3)
    table = commit(catalog, table, AppendFiles(added=(C,), branch="audit")).table
    assert (head(table, "audit").parent_snapshot_id, table.metadata.next_row_id) == (head(table).snapshot_id, 30)
    staged = commit(catalog, table, AppendFiles(added=(data_file("/s"),), staged=True, summary={"wap.id": "w"})).table
    assert (staged.metadata.last_sequence_number, staged.metadata.next_row_id) == (3, 40)
    assert head(staged).snapshot_id == head(table).snapshot_id


def test_a_commit_that_adds_no_row_says_where_row_ids_stand() -> None:
    """LINEAGE-09"""
    catalog, table = begin(3)
    table = commit(catalog, table, DeleteFiles(paths=("/a",))).table
    assert head(table).first_row_id == 20
    assert table.metadata.next_row_id == 20 + head(table).added_rows
    assert {e.data_file.file_path: e.data_file.first_row_id for e in entries(table)} == {"/a": 0, "/b": 10}


@pytest.mark.parametrize("version", [2, 3])
def test_an_upsert_in_one_commit_deletes_the_old_row_only(version: int) -> None:
    """DEL-EQ-07"""
    catalog, table = begin(version)
    change = RowDelta(added_data=(C,), added_deletes=(equality_deletes("/e"),), isolation=None)
    table = commit(catalog, table, change).table
    found = {t.file_path: [d.file_path for d in t.deletes] for t in plan(table, Scan()).tasks}
    assert found == {"/a": ["/e"], "/b": ["/e"], "/c": []}


def test_a_puffin_file_goes_when_none_of_its_vectors_is_live() -> None:
    """REFS-08, COMMIT-11"""
    catalog = make_catalog()
    table = make_table(catalog, version=3)
    names = {n: f"{table.location}/data/{n}" for n in ("a", "b", "v")}
    for path in names.values():
        catalog.io.write(path, b"x")
    table = commit(catalog, table, AppendFiles(added=(data_file(names["a"]), data_file(names["b"])))).table
    vectors = tuple(deletion_vector(names["v"], names[n], offset=o) for n, o in (("a", 4), ("b", 50)))
    table = commit(catalog, table, RowDelta(added_deletes=vectors, isolation=None)).table
    everything = ExpireSnapshots(older_than_ms=2**60, retain_last=1)
    for gone, there in (("a", True), ("b", False)):
        table = commit(catalog, table, DeleteFiles(paths=(names[gone],))).table
        live = {name for name in live_files(table) if name.startswith(names["v"])}
        assert live == ({f"{names['v']}#50"} if there else set())
        table = commit(catalog, table, AppendFiles(added=(data_file(f"/more-{gone}"),))).table
        expire(catalog, table, everything)
        table = catalog.load_table(("ns", "t"))
        assert catalog.io.exists(names["v"]) is there


@pytest.mark.parametrize("version", [2, 3])
def test_an_upgrade_rewrites_the_metadata_only_and_old_entries_keep_number_zero(version: int) -> None:
    """UPG-01, UPG-02, UPG-03, UPG-05"""
    catalog, old = begin(1)
    before = {i.location for i in catalog.io.list_prefix(f"{old.location}/metadata") if i.location.endswith(".avro")}
    table = commit(catalog, old, UpgradeFormatVersion(format_version=version)).table
    after = {i.location for i in catalog.io.list_prefix(f"{old.location}/metadata") if i.location.endswith(".avro")}
    assert after == before
    assert replace(table.metadata.snapshots[0], summary={}) == replace(old.metadata.snapshots[0], summary={})
    written = metadata_to_dict(table.metadata)
    assert not {"schema", "partition-spec"} & set(written)
    assert written["last-sequence-number"] == 0
    assert (written.get("next-row-id") == 0) is (version == 3)
    first = head(table).snapshot_id
    table = commit(catalog, table, AppendFiles(added=(C,))).table
    table = commit(catalog, table, RewriteManifests()).table
    assert live_files(table) == {"/a": (0, 0), "/b": (0, 0), "/c": (1, 1)}
    assert {e.data_file.file_path for e in entries(table) if e.snapshot_id == first} == {"/a", "/b"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_snapshots_that_embed_their_manifests_live_on_through_upgrades(version: int) -> None:
    """UPG-01, SNAP-06, SNAP-27"""
    catalog, table = begin(1)
    embedded = tuple(m.manifest_path for m in manifests_of(table, head(table)))
    oldest = replace(table.metadata, snapshots=(replace(head(table), manifest_list=None, manifests=embedded),))
    location = f"{table.location}/metadata/00009-11111111-1111-1111-1111-111111111111.metadata.json"
    catalog.io.write(location, metadata_to_json(oldest))
    catalog.drop_table(("ns", "t"))
    table = catalog.register_table(("ns", "t"), location)
    if version > 1:
        table = commit(catalog, table, UpgradeFormatVersion(format_version=version)).table
    assert metadata_to_dict(table.metadata)["snapshots"][0]["manifests"] == list(embedded)
    assert set(live_files(table)) == {"/a", "/b"}
    table = commit(catalog, table, AppendFiles(added=(C,))).table
    table = commit(catalog, table, DeleteFiles(paths=("/a",))).table
    assert set(live_files(catalog.load_table(("ns", "t")))) == {"/b", "/c"}
    assert head(table).summary["total-data-files"] == "2"


def test_a_v1_table_has_no_sequence_numbers_and_no_deletes() -> None:
    """UPG-04, COMMIT-12"""
    _, table = begin(1)
    written = metadata_to_dict(table.metadata)
    assert "last-sequence-number" not in written
    assert "sequence-number" not in written["snapshots"][0]
    assert [m.content.name for m in manifests_of(table, head(table))] == ["DATA"]


REQUIRED: dict[str, tuple[Any, set[str]]] = {
    "files": (AppendFiles(added=(C,)), {"AssertTableUUID", "AssertRefSnapshotId", "AssertSameRef", "AssertCurrentSchemaId"}),
    "schema": (
        UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(4, "x", INT))),
        {"AssertTableUUID", "AssertLastAssignedFieldId", "AssertCurrentSchemaId", "AssertDefaultSpecId", "AssertProperty"},
    ),
    "spec": (
        UpdateSpec(spec=PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "id"),))),
        {"AssertTableUUID", "AssertLastAssignedPartitionId", "AssertDefaultSpecId", "AssertCurrentSchemaId"},
    ),
    "order": (
        UpdateSortOrder(sort_order=SortOrder(0, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))),
        {"AssertTableUUID", "AssertDefaultSortOrderId"},
    ),
}


@pytest.mark.parametrize("case", REQUIRED)
def test_updates_come_with_the_requirements_that_java_pairs_with_them(case: str) -> None:
    """REST-06; names of columns and of partition fields must not clash, so that a change of one requires the other to stand. Three
    are this package's own: the branch keeps its retention, files were written for the columns that the table has, and the name
    mapping is what the next one was made of."""
    operation, expected = REQUIRED[case]
    _, table = begin()
    staged: StagedCommit = operation.stage(operation.prepare(table), table)
    assert {type(r).__name__ for r in staged.requirements} == expected


def test_every_commit_is_a_new_metadata_file_that_names_the_one_before() -> None:
    """META-31, META-34"""
    catalog, table = begin()
    first = table.metadata_location
    table = commit(catalog, table, DeleteFiles(paths=("/a",))).table
    assert table.metadata_location != first
    assert table.metadata.metadata_log[-1].metadata_file == first
    assert catalog.io.exists(first)
