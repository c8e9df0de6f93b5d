"""Cases of Iceberg Java's own tests of refs, picks, transactions, expiry and merging appends that no other test covers.

docs/conformance-commits.md lists the Java case of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSchema
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    IcebergOpsError,
    NoSuchSnapshotError,
    ValidationError,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.manifests import manifests_of
from tests.builders import IDENTIFIER, SCHEMA, data_file, live_files, live_paths, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import FailsNTimes, Meddles
from tests.commit.cases import ALL, DELETES, EU, NEW, US, A, B, begin, head, leftovers, positions, two_specs

FOR_EVER = 2**60


def real(table: Any, *names: str) -> tuple[Any, ...]:
    """Data files that exist."""
    for name in names:
        table.io.write(f"{table.location}/data/{name}", b"rows")
    return tuple(data_file(f"{table.location}/data/{name}", partition=EU) for name in names)


def left(catalog: Any) -> set[str]:
    table = catalog.load_table(IDENTIFIER)
    return {i.location.rpartition("/")[2] for i in table.io.list_prefix(f"{table.location}/data")}


def empty(version: int = 2) -> tuple[Any, Any]:
    catalog = make_catalog()
    return catalog, make_table(catalog, version=version, partitioned=True)


REFUSED: dict[str, tuple[Callable[[int, int], Any], type[IcebergOpsError], str]] = {
    "a branch that is there": (lambda a, b: SetRef(ref="b", snapshot_id=a), AlreadyExistsError, "ref b already exists"),
    "a tag under a branch's name": (lambda a, b: SetRef(ref="b", snapshot_id=b, type="tag"), BadInputError, "ref b .* is a branch"),
    "a branch at an unknown snapshot": (lambda a, b: SetRef(ref="n", snapshot_id=7), NoSuchSnapshotError, "7"),
    "a tag moved without leave": (lambda a, b: SetRef(ref="t", snapshot_id=b, type="tag"), AlreadyExistsError, "ref t already"),
    "removing a ref that is not there": (lambda a, b: RemoveRef(ref="n"), NoSuchSnapshotError, "has no ref n"),
    "removing a tag as a branch": (lambda a, b: RemoveRef(ref="t", type="branch"), BadInputError, "ref t .* is a tag"),
    "removing main": (lambda a, b: RemoveRef(ref="main"), BadInputError, "main .* cannot be removed"),
    "renaming main": (lambda a, b: RenameBranch(old="main", new="n"), BadInputError, "main .* cannot be renamed"),
    "renaming a tag": (lambda a, b: RenameBranch(old="t", new="n"), BadInputError, "ref t .* is a tag"),
    "renaming to a name that is taken": (lambda a, b: RenameBranch(old="b", new="t"), AlreadyExistsError, "ref t already"),
    "renaming what is not there": (lambda a, b: RenameBranch(old="n", new="m"), NoSuchSnapshotError, "has no ref n"),
    "fast-forward to nothing": (lambda a, b: FastForward(to="n"), NoSuchSnapshotError, "has no ref n"),
    "fast-forward of a tag": (lambda a, b: FastForward(branch="t", to="main"), BadInputError, "is a tag"),
    "fast-forward backwards": (lambda a, b: FastForward(to="t"), ValidationError, "Cannot fast-forward: main"),
    "roll back to a stranger": (lambda a, b: RollBack(snapshot_id=7), NoSuchSnapshotError, "7"),
    "roll back before the beginning": (
        lambda a, b: RollBack(timestamp_ms=1),
        NoSuchSnapshotError,
        "snapshot older than 1",
    ),
    "set to nothing": (lambda a, b: SetCurrentSnapshot(snapshot_id=7), NoSuchSnapshotError, "7"),
    "set to two things": (lambda a, b: SetCurrentSnapshot(snapshot_id=a, ref="t"), BadInputError, "either"),
    "an append to a tag": (lambda a, b: AppendFiles(added=(NEW,), branch="t"), BadInputError, "t is a tag, not a branch"),
    "picking a stranger": (lambda a, b: CherryPick(snapshot_id=7), NoSuchSnapshotError, "7"),
    "picking an unknown WAP id": (lambda a, b: CherryPick(wap_id="no"), NoSuchSnapshotError, r"wap\.id no"),
    "picking a delete": (lambda a, b: CherryPick(snapshot_id=b), ValidationError, "Cannot cherry.?pick"),
    "expiring a branch's head by id": (
        lambda a, b: ExpireSnapshots(snapshot_ids=(b,)),
        BadInputError,
        "referenced by refs: b",
    ),
    "expiring a tag's snapshot by id": (
        lambda a, b: ExpireSnapshots(snapshot_ids=(a,)),
        BadInputError,
        "referenced by refs: t",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str) -> None:
    """A table of three snapshots on main, tag t at the first; branch b with a delete after the second."""
    operation, error, message = REFUSED[what]
    catalog, table = begin(2)
    first = head(table)
    commit(catalog, table, SetRef(ref="t", snapshot_id=first, type="tag"))
    commit(catalog, table, AppendFiles(added=(data_file("c", partition=US),)))
    table = commit(catalog, table, DeleteFiles(paths=("a",), branch="b")).table
    table = commit(catalog, table, AppendFiles(added=(data_file("d", partition=US),))).table
    before = table.metadata_location
    with pytest.raises(error, match=message):
        commit(catalog, table, operation(first, table.metadata.refs["b"].snapshot_id))
    assert catalog.load_table(IDENTIFIER).metadata_location == before


@ALL
def test_a_branch_is_renamed_replaced_and_given_retention(version: int) -> None:
    catalog, table = begin(version)
    first = head(table)
    table = commit(catalog, table, AppendFiles(added=(NEW,))).table
    table = commit(catalog, table, SetRef(ref="b", snapshot_id=first)).table
    table = commit(catalog, table, RenameBranch(old="b", new="c")).table
    wanted = SetRef(
        ref="c",
        snapshot_id=head(table),
        replace_existing=True,
        min_snapshots_to_keep=3,
        max_snapshot_age_ms=10,
        max_ref_age_ms=20,
    )
    ref = commit(catalog, table, wanted).table.metadata.refs["c"]
    found = (ref.snapshot_id, ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)
    assert found == (head(table), 3, 10, 20)


@ALL
def test_main_is_set_anywhere_and_rolled_back_by_time(version: int) -> None:
    catalog, table = empty(version)
    table = commit(catalog, table, AppendFiles(added=(A,), timestamp_ms=FOR_EVER)).table
    first = table.metadata.current_snapshot
    table = commit(catalog, table, AppendFiles(added=(B,), timestamp_ms=FOR_EVER + 10)).table
    second = head(table)
    table = commit(catalog, table, RollBack(timestamp_ms=FOR_EVER + 5)).table
    assert head(table) == first.snapshot_id
    table = commit(catalog, table, SetCurrentSnapshot(snapshot_id=second)).table
    assert live_paths(table) == {"a", "b"}
    commit(catalog, table, SetRef(ref="t", snapshot_id=first.snapshot_id, type="tag"))
    assert live_paths(commit(catalog, table, SetCurrentSnapshot(ref="t")).table) == {"a"}


@ALL
def test_a_branch_is_made_by_its_first_commit_and_by_a_fast_forward(version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, AppendFiles(added=(NEW,), branch="b")).table
    assert table.metadata.snapshot(table.metadata.refs["b"].snapshot_id).parent_snapshot_id == head(table)
    table = commit(catalog, table, FastForward(branch="c", to="b")).table
    assert live_paths(table, "c") == {"a", "b", "new"}
    assert live_paths(commit(catalog, table, FastForward(to="b")).table) == {"a", "b", "new"}


@ALL
def test_two_staged_appends_are_published_and_an_unpublished_one_shows_nowhere(version: int) -> None:
    catalog, table = begin(version)
    for name in ("w1", "w2", "w3"):
        staged = AppendFiles(added=(data_file(name, partition=EU),), staged=True, summary={"wap.id": name})
        table = commit(catalog, table, staged).table
    assert live_paths(table) == {"a", "b"}
    table = commit(catalog, table, CherryPick(wap_id="w2")).table
    table = commit(catalog, table, CherryPick(wap_id="w1")).table
    assert live_paths(table) == {"a", "b", "w1", "w2"}
    summary = table.metadata.current_snapshot.summary
    assert (summary["published-wap-id"], "source-snapshot-id" in summary) == ("w1", True)
    for again in ("w1", "w2"):
        with pytest.raises(ValidationError, match=r"already|Duplicate"):
            commit(catalog, table, CherryPick(wap_id=again))


@DELETES
def test_a_picked_snapshot_gets_the_next_sequence_number(version: int) -> None:
    catalog, table = begin(version)
    staged = commit(catalog, table, AppendFiles(added=(data_file("w", partition=EU),), staged=True)).snapshot
    assert staged is not None
    commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),)))
    table = commit(catalog, table, CherryPick(snapshot_id=staged.snapshot_id)).table
    assert live_files(table)["w"] == (4, 4)
    assert staged.sequence_number == 2


@ALL
def test_a_picked_partition_overwrite_replaces_its_partition(version: int) -> None:
    catalog, table = begin(version)
    overwrite = ReplacePartitions(added=(NEW,), staged=True, starting_snapshot_id=head(table), summary={"wap.id": "w"})
    commit(catalog, table, overwrite)
    commit(catalog, table, AppendFiles(added=(data_file("c", partition=US),)))
    assert live_paths(commit(catalog, table, CherryPick(wap_id="w")).table) == {"new", "b", "c"}


def test_a_run_of_numbers_goes_on_after_a_rollback() -> None:
    catalog, table = begin(2)
    first = head(table)
    table = commit(catalog, table, AppendFiles(added=(NEW,))).table
    table = commit(catalog, table, RollBack(snapshot_id=first)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    assert live_files(table) == {"a": (1, 1), "b": (1, 1), "c": (3, 3)}
    assert [e.snapshot_id for e in table.metadata.snapshot_log][-1] == head(table)


# transactions


@ALL
def test_a_transaction_is_tried_again_and_leaves_no_manifest(version: int) -> None:
    catalog, table = begin(version)
    both = Transaction(operations=(AppendFiles(added=(NEW,)), AppendFiles(added=(data_file("c", partition=US),), merge=False)))
    meddling = FailsNTimes(Meddles(catalog, lambda: commit(catalog, table, DeleteFiles(paths=("a",)))), 2)
    done = commit(meddling, table, both, sleep=lambda _: None)
    assert (done.attempts, live_paths(done.table)) == (4, {"b", "c", "new"})
    assert leftovers(catalog) == []


@ALL
def test_a_failed_transaction_changes_nothing_and_leaves_nothing(version: int) -> None:
    catalog, table = begin(version, **{"commit.retry.num-retries": "4"})
    both = Transaction(operations=(UpdateProperties(updates={"a": "b"}), AppendFiles(added=(NEW,))))
    with pytest.raises(CommitFailedError):
        commit(FailsNTimes(catalog, 5), table, both, sleep=lambda _: None)
    now = catalog.load_table(IDENTIFIER)
    assert (now.metadata_location, leftovers(catalog)) == (table.metadata_location, [])


def test_a_schema_change_in_a_transaction_survives_appends_but_not_another_schema() -> None:
    catalog, table = begin(2)
    schema = Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG))
    both = Transaction(operations=(UpdateSchema(schema=schema), AppendFiles(added=(NEW,))))
    done = commit(
        Meddles(catalog, lambda: commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),)))),
        table,
        both,
        sleep=lambda _: None,
    )
    assert live_paths(done.table) == {"a", "b", "c", "new"}
    other = Schema.of(*SCHEMA.fields, NestedField(4, "less", LONG))
    with pytest.raises(ValidationError, match="has changed"):
        commit(catalog, table, Transaction(operations=(UpdateSchema(schema=other), UpdateProperties(updates={"a": "b"}))))


@DELETES
def test_a_delta_in_a_transaction_meets_a_manifest_rewrite(version: int) -> None:
    catalog, table = begin(version)
    delta = RowDelta(added_deletes=(positions(version, "a"),), referenced_data_files=("a",), starting_snapshot_id=head(table))
    meddling = Meddles(catalog, lambda: commit(catalog, table, RewriteManifests()))
    done = commit(meddling, table, Transaction(operations=(delta,)), sleep=lambda _: None)
    assert live_paths(done.table) == {"a", "b", "d"}


# expiry


def test_a_table_without_snapshots_and_one_with_nothing_old_stay_as_they_are() -> None:
    catalog, table = empty()
    assert expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER)).files.data == ()
    table = commit(catalog, table, AppendFiles(added=(A,))).table
    found = expire(catalog, table, ExpireSnapshots(older_than_ms=1))
    assert found.committed.table.metadata_location == table.metadata_location


@ALL
def test_a_file_deleted_in_a_merged_manifest_goes(version: int) -> None:
    catalog, table = begin(version, **{"commit.manifest.min-count-to-merge": "1"})
    a, b = real(table, "a", "b")
    table = commit(catalog, table, AppendFiles(added=(a,))).table
    table = commit(catalog, table, AppendFiles(added=(b,))).table
    table = commit(catalog, table, DeleteFiles(files=(a,))).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER))
    assert left(catalog) == {"b"}


@ALL
@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_ref_that_ages_off_frees_its_files(kind: str, version: int) -> None:
    catalog, table = begin(version)
    (a,) = real(table, "a")
    table = commit(catalog, table, AppendFiles(added=(a,))).table
    table = commit(catalog, table, SetRef(ref="old", snapshot_id=head(table), type=kind, max_ref_age_ms=1)).table
    table = commit(catalog, table, DeleteFiles(files=(a,))).table
    expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER, now_ms=1))
    assert left(catalog) == {"a"}
    expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER, now_ms=FOR_EVER))
    assert (left(catalog), set(catalog.load_table(IDENTIFIER).metadata.refs)) == (set(), {"main"})


@ALL
def test_a_picked_file_survives_the_expiry_of_where_it_came_from(version: int) -> None:
    catalog, table = begin(version)
    (w,) = real(table, "w")
    table = commit(catalog, table, AppendFiles(added=(w,), staged=True, summary={"wap.id": "w"})).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    table = commit(catalog, table, CherryPick(wap_id="w")).table
    expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER))
    assert left(catalog) == {"w"}
    assert len(catalog.load_table(IDENTIFIER).metadata.snapshots) == 1


@DELETES
def test_delete_files_of_expired_snapshots_go(version: int) -> None:
    catalog, table = begin(version)
    (a,) = real(table, "a")
    table = commit(catalog, table, AppendFiles(added=(a,))).table
    path = f"{table.location}/data/deletes"
    table.io.write(path, b"x")
    make = positions(version, a.file_path, path)
    table = commit(catalog, table, RowDelta(added_deletes=(make,), isolation=None)).table
    table = commit(catalog, table, ReplacePartitions(added=(NEW,), starting_snapshot_id=head(table))).table
    table = commit(catalog, table, ReplacePartitions(added=(data_file("n", partition=US),), isolation=None)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    expire(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER))
    assert left(catalog) == set()


def test_a_snapshot_between_main_and_a_tag_goes_and_one_below_a_branch_stays() -> None:
    catalog, table = begin(2)
    ids = [head(table)]
    for n in range(3):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"f{n}", partition=EU),))).table
        ids.append(head(table))
    commit(catalog, table, SetRef(ref="t", snapshot_id=ids[2], type="tag"))
    table = commit(catalog, table, SetRef(ref="b", snapshot_id=ids[1], min_snapshots_to_keep=2)).table
    table = commit(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER)).table
    assert {s.snapshot_id for s in table.metadata.snapshots} == {ids[0], ids[1], ids[2], ids[3]}
    table = commit(catalog, table, RemoveRef(ref="b")).table
    table = commit(catalog, table, ExpireSnapshots(older_than_ms=FOR_EVER)).table
    assert {s.snapshot_id for s in table.metadata.snapshots} == {ids[2], ids[3]}


# merging and fast appends


@ALL
def test_the_newest_manifest_stands_first_and_specs_are_merged_apart(version: int) -> None:
    catalog, table = two_specs(version, **{"commit.manifest.min-count-to-merge": "1"})
    table = commit(catalog, table, AppendFiles(added=(NEW,))).table
    found = [
        (m.partition_spec_id, m.added_files_count, m.existing_files_count)
        for m in manifests_of(table, table.metadata.current_snapshot)
    ]
    assert sorted(found) == [(0, 1, 2), (1, 1, 0)]


@ALL
def test_a_fast_append_adds_one_manifest_and_touches_none(version: int) -> None:
    catalog, table = begin(version, **{"commit.manifest.min-count-to-merge": "1"})
    before = [m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot)]
    table = commit(catalog, table, AppendFiles(added=(NEW,), merge=False)).table
    after = [m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot)]
    assert (after[1:], len(after)) == (before, 2)


@ALL
def test_merging_can_be_switched_off_and_needs_enough_manifests(version: int) -> None:
    for properties, manifests in (
        ({"commit.manifest-merge.enabled": "false", "commit.manifest.min-count-to-merge": "1"}, 4),
        ({"commit.manifest.min-count-to-merge": "4"}, 1),
        ({"commit.manifest.min-count-to-merge": "5"}, 4),
    ):
        catalog, table = begin(version, **properties)
        for n in range(3):
            table = commit(catalog, table, AppendFiles(added=(data_file(f"f{n}", partition=EU),))).table
        assert len(manifests_of(table, table.metadata.current_snapshot)) == manifests


def test_a_branch_and_main_are_appended_to_independently() -> None:
    catalog, table = begin(2)
    table = commit(catalog, table, AppendFiles(added=(NEW,), branch="b")).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    table = commit(
        catalog, table, RowDelta(added_deletes=(position_deletes("d", "a", partition=EU),), branch="b", isolation=None)
    ).table
    assert (live_paths(table), live_paths(table, "b")) == ({"a", "b", "c"}, {"a", "b", "new", "d"})
