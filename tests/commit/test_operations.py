"""What operations write: summaries, entries, sequence numbers and the deletes that go with their files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import (
    UpdateLocation,
    UpdateProperties,
    UpdateSchema,
    UpdateSortOrder,
    UpdateSpec,
    UpgradeFormatVersion,
)
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.ledger import LEDGER_SIZE
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    NoSuchSnapshotError,
    ValidationError,
)
from iceberg_ops.expressions.predicates import eq
from iceberg_ops.spec.manifests import EntryStatus
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, NestedField
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import (
    BY_REGION,
    IDENTIFIER,
    SCHEMA,
    data_file,
    deletion_vector,
    equality_deletes,
    live_files,
    live_paths,
    make_catalog,
    make_table,
    position_deletes,
)
from tests.catalog.wrappers import FailsNTimes, Meddles

EU, US = ("eu",), ("us",)
A, B = data_file("a", partition=EU), data_file("b", partition=US)
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def begin(version: int = 2, *files: Any, **properties: str) -> tuple[Any, Table]:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True, properties=properties)
    return catalog, commit(catalog, table, AppendFiles(added=files or (A, B))).table


def head(table: Table, branch: str = "main") -> Any:
    return table.metadata.branch_head(branch)


def leaked(catalog: Any, table: Table) -> list[str]:
    known = set(reachable_files(table))
    return [i.location for i in catalog.io.list_prefix(table.location) if i.location not in known]


@VERSIONS
def test_an_append_writes_the_summary_that_java_writes(version: int) -> None:
    _, table = begin(version)
    expected = {
        "operation": "append",
        "added-data-files": "2",
        "added-records": "20",
        "added-files-size": "2000",
        "changed-partition-count": "2",
        "total-records": "20",
        "total-files-size": "2000",
        "total-data-files": "2",
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "0",
    }
    assert expected.items() <= head(table).summary.items()
    assert head(table).sequence_number == (0 if version == 1 else 1)
    assert table.metadata.snapshot_log[-1].snapshot_id == head(table).snapshot_id


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        (lambda s: RowDelta(added_data=(data_file("x", partition=EU),), isolation=None), "append"),
        (lambda s: RowDelta(added_deletes=(equality_deletes("e", partition=EU),), isolation=None), "delete"),
        (
            lambda s: RowDelta(
                added_data=(data_file("x", partition=EU),), added_deletes=(equality_deletes("e", partition=EU),), isolation=None
            ),
            "overwrite",
        ),
        (lambda s: OverwriteFiles(added=(data_file("x", partition=EU),), removed=(A,), isolation=None), "overwrite"),
        (lambda s: OverwriteFiles(removed=(A,), isolation=None), "delete"),
        (lambda s: OverwriteFiles(added=(data_file("x", partition=EU),), isolation=None), "append"),
        (lambda s: DeleteFiles(filter=eq("region", "eu")), "delete"),
        (lambda s: ReplacePartitions(added=(data_file("x", partition=EU),), isolation=None), "overwrite"),
        (lambda s: RewriteFiles(removed_data=(A,), added_data=(data_file("x", partition=EU),), starting_snapshot_id=s), "replace"),
        (lambda s: RewriteManifests(), "replace"),
    ],
)
def test_the_snapshots_operation_tells_what_was_done(operation: Any, value: str) -> None:
    catalog, table = begin()
    done = commit(catalog, table, operation(head(table).snapshot_id))
    assert done.snapshot is not None
    assert done.snapshot.operation == value
    assert done.snapshot.parent_snapshot_id == head(table).snapshot_id


@VERSIONS
def test_a_removed_file_is_written_as_deleted_by_the_snapshot_that_removed_it(version: int) -> None:
    catalog, table = begin(version)
    first = head(table).snapshot_id
    table = commit(catalog, table, DeleteFiles(paths=("a",))).table
    entries = [e for m in manifests_of(table, head(table)) for e in entries_of(table, m)]
    found = {e.data_file.file_path: (e.status, e.snapshot_id) for e in entries}
    assert found == {"a": (EntryStatus.DELETED, head(table).snapshot_id), "b": (EntryStatus.EXISTING, first)}
    table = commit(catalog, table, DeleteFiles(filter=eq("region", "us"))).table
    assert live_paths(table) == set()
    assert head(table).summary["total-data-files"] == "0"


def test_a_rewrite_keeps_an_older_data_sequence_number_and_gets_a_new_file_sequence_number() -> None:
    catalog, table = begin()
    start = head(table)
    table = commit(catalog, table, RowDelta(added_deletes=(equality_deletes("e", partition=EU),), isolation=None)).table
    rewrite = RewriteFiles(
        removed_data=(A,),
        added_data=(data_file("n", partition=EU),),
        starting_snapshot_id=start.snapshot_id,
        data_sequence_number=1,
    )
    table = commit(catalog, table, rewrite).table
    assert live_files(table) == {"n": (1, 3), "b": (1, 1), "e": (2, 2)}


def test_equality_deletes_are_kept_while_the_rewritten_file_is_older_even_when_nothing_else_is() -> None:
    catalog, table = begin(2, A)
    start = head(table).snapshot_id
    for name in ("e1", "e2"):
        table = commit(catalog, table, RowDelta(added_deletes=(equality_deletes(name, partition=EU),), isolation=None)).table
    rewrite = RewriteFiles(
        removed_data=(A,), added_data=(data_file("n", partition=EU),), starting_snapshot_id=start, data_sequence_number=1
    )
    table = commit(catalog, table, rewrite).table
    assert live_paths(table) == {"n", "e1", "e2"}


def test_deletes_older_than_all_data_are_dropped_by_the_next_commit_but_not_by_a_fast_append() -> None:
    catalog, table = begin(2, A)
    table = commit(catalog, table, RowDelta(added_deletes=(position_deletes("p", partition=EU),), isolation=None)).table
    table = commit(catalog, table, DeleteFiles(paths=("a",))).table
    table = commit(catalog, table, AppendFiles(added=(B,), merge=False)).table
    assert live_paths(table) == {"b", "p"}
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    assert live_paths(table) == {"b", "c"}
    assert head(table).summary["removed-position-delete-files"] == "1"


@pytest.mark.parametrize("version", [2, 3])
def test_a_removed_data_file_takes_its_own_deletes_along(version: int) -> None:
    catalog, table = begin(version)
    delete = position_deletes("d", "a", partition=EU) if version == 2 else deletion_vector("d", "a", partition=EU)
    table = commit(catalog, table, RowDelta(added_deletes=(delete,), isolation=None)).table
    table = commit(catalog, table, DeleteFiles(filter=eq("region", "eu"))).table
    assert live_paths(table) == {"b"}
    assert head(table).summary["total-delete-files"] == "0"


def test_a_branch_moved_between_two_tries_does_not_lose_the_deletes_that_count_again() -> None:
    """The first try sees only younger data, so the delete may go; where the branch is moved to, an older file still needs it."""
    catalog, table = begin(2, A)
    table = commit(catalog, table, RowDelta(added_deletes=(position_deletes("p", partition=EU),), isolation=None)).table
    table = commit(catalog, table, SetRef(ref="other", snapshot_id=head(table).snapshot_id)).table
    table = commit(catalog, table, DeleteFiles(paths=("a",))).table
    for branch in ("other", "main"):
        new = AppendFiles(added=(data_file("x", partition=EU),), merge=False, branch=branch)
        table = commit(catalog, table, new).table
    assert live_paths(table) == {"p", "x"}
    assert live_paths(table, "other") == {"a", "p", "x"}
    move = Meddles(catalog, lambda: commit(catalog, table, SetCurrentSnapshot(ref="other")))
    table = commit(move, table, DeleteFiles(paths=("x",)), sleep=lambda _: None).table
    assert live_paths(table) == {"a", "p"}


def test_manifests_are_merged_from_the_end_once_there_are_enough() -> None:
    catalog, table = begin(2, A, **{"commit.manifest.min-count-to-merge": "3"})
    counts = []
    for i in range(4):
        table = commit(catalog, table, AppendFiles(added=(data_file(f"n{i}", partition=EU),))).table
        counts.append(len(manifests_of(table, head(table))))
    assert counts == [2, 1, 2, 1]
    assert head(table).summary["manifests-replaced"] == "2"
    statuses = {e.data_file.file_path: e.status for m in manifests_of(table, head(table)) for e in entries_of(table, m)}
    assert statuses["n3"] is EntryStatus.ADDED
    assert set(statuses.values()) == {EntryStatus.ADDED, EntryStatus.EXISTING}


def test_row_ids_are_assigned_once_and_survive_every_rewrite_of_manifests() -> None:
    catalog, table = begin(3, A, **{"commit.manifest.min-count-to-merge": "2"})
    table = commit(catalog, table, AppendFiles(added=(B,))).table
    table = commit(catalog, table, RewriteManifests()).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    ids = {e.data_file.file_path: e.data_file.first_row_id for m in manifests_of(table, head(table)) for e in entries_of(table, m)}
    assert (ids["a"], ids["b"]) == (0, 10)
    assert ids["c"] >= 20
    assert table.metadata.next_row_id == head(table).first_row_id + head(table).added_rows


def test_a_table_upgraded_to_v3_gets_row_ids_with_its_next_snapshot() -> None:
    catalog, table = begin(2)
    table = commit(catalog, table, UpgradeFormatVersion(format_version=3)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    entries = [e for m in manifests_of(table, head(table)) for e in entries_of(table, m)]
    ranges = sorted((e.data_file.first_row_id, e.data_file.record_count) for e in entries)
    assert ranges == [(0, 10), (10, 10), (20, 10)]


def test_an_upgrade_between_two_tries_writes_the_new_manifests_anew() -> None:
    catalog, table = begin(1)
    meddling = Meddles(catalog, lambda: commit(catalog, table, UpgradeFormatVersion(format_version=2)))
    done = commit(meddling, table, AppendFiles(added=(data_file("c", partition=EU),)), sleep=lambda _: None)
    assert head(done.table).sequence_number == 1
    assert live_files(done.table) == {"a": (0, 0), "b": (0, 0), "c": (1, 1)}
    assert leaked(catalog, done.table) == []


@VERSIONS
def test_a_retry_uses_the_manifest_again_and_leaves_nothing_behind(version: int) -> None:
    catalog, table = begin(version)
    done = commit(FailsNTimes(catalog, 3), table, AppendFiles(added=(data_file("c", partition=EU),)), sleep=lambda _: None)
    assert done.attempts == 4
    assert leaked(catalog, done.table) == []
    mine = [m for m in manifests_of(done.table, head(done.table)) if m.added_snapshot_id == head(done.table).snapshot_id]
    assert [m.manifest_path.endswith("-m0.avro") for m in mine] == [True]


def test_five_failures_are_one_too_many_where_the_table_says_four_retries() -> None:
    catalog, table = begin(2, **{"commit.retry.num-retries": "4"})
    with pytest.raises(CommitFailedError, match="Injected failure"):
        commit(FailsNTimes(catalog, 5), table, AppendFiles(added=(data_file("c", partition=EU),)), sleep=lambda _: None)
    assert leaked(catalog, catalog.load_table(IDENTIFIER)) == []


def test_without_a_limit_the_time_budget_ends_the_loop() -> None:
    catalog, table = begin(2, **{"commit.retry.total-timeout-ms": "10000"})
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(CommitFailedError):
        commit(
            FailsNTimes(catalog, 10**6),
            table,
            AppendFiles(added=(data_file("c", partition=EU),)),
            sleep=sleep,
            clock=lambda: now[0],
            random=lambda: 0.5,
        )
    assert 10 <= now[0] < 13


def test_a_conflict_deletes_what_the_attempts_wrote() -> None:
    catalog, table = begin()
    start = head(table).snapshot_id
    meddling = Meddles(catalog, lambda: commit(catalog, table, DeleteFiles(paths=("a",))))
    with pytest.raises(ValidationError, match="Missing required files"):
        commit(
            meddling,
            table,
            RewriteFiles(removed_data=(A,), added_data=(data_file("n", partition=EU),), starting_snapshot_id=start),
            sleep=lambda _: None,
        )
    assert leaked(catalog, catalog.load_table(IDENTIFIER)) == []


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_one_run_key_commits_once(branch: str) -> None:
    catalog, table = begin()
    first = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),), run_key="job/1", branch=branch))
    again = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),), run_key="job/1", branch=branch))
    assert (first.already_committed, again.already_committed) == (False, True)
    assert again.snapshot == first.snapshot
    assert len(again.table.metadata.snapshots) == 2


def test_a_run_key_of_a_metadata_change_is_remembered_in_the_ledger() -> None:
    catalog, table = begin()
    for i in range(LEDGER_SIZE + 3):
        table = commit(catalog, table, UpdateProperties(updates={"n": str(i)}, run_key=f"k{i}")).table
    for i in (0, LEDGER_SIZE):
        assert commit(catalog, table, UpdateProperties(updates={"n": "other"}, run_key=f"k{i}")).already_committed


def test_a_commit_to_a_table_that_was_made_anew_under_the_name_is_refused() -> None:
    catalog, table = begin()
    catalog.drop_table(IDENTIFIER, purge=True)
    make_table(catalog, partitioned=True)
    with pytest.raises(ValidationError, match="is not the one this work was planned on"):
        commit(catalog, table, AppendFiles(added=(A,)))


def test_branches_and_tags_are_made_moved_and_removed() -> None:
    catalog, table = begin()
    first = head(table).snapshot_id
    table = commit(catalog, table, SetRef(ref="v1", type="tag", snapshot_id=first, max_ref_age_ms=5)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),), branch="audit")).table
    assert live_paths(table, "audit") == {"a", "b", "c"}
    assert live_paths(table) == {"a", "b"}
    table = commit(catalog, table, FastForward(to="audit")).table
    assert live_paths(table) == {"a", "b", "c"}
    table = commit(catalog, table, RenameBranch(old="audit", new="old")).table
    table = commit(catalog, table, RemoveRef(ref="old")).table
    assert set(table.metadata.refs) == {"main", "v1"}
    assert table.metadata.refs["v1"].max_ref_age_ms == 5
    table = commit(catalog, table, RollBack(snapshot_id=first)).table
    assert live_paths(table) == {"a", "b"}
    refused = {
        BadInputError: [RemoveRef(ref="main"), RollBack(), SetCurrentSnapshot(), AppendFiles(added=(A,), branch="v1")],
        NoSuchSnapshotError: [FastForward(to="no"), SetCurrentSnapshot(snapshot_id=7), RemoveRef(ref="no")],
        AlreadyExistsError: [SetRef(ref="v1", type="tag", snapshot_id=table.metadata.snapshots[-1].snapshot_id)],
        ValidationError: [RollBack(snapshot_id=table.metadata.snapshots[-1].snapshot_id)],
    }
    for error, operations in refused.items():
        for operation in operations:
            with pytest.raises(error):
                commit(catalog, table, operation)
    table = commit(catalog, table, SetCurrentSnapshot(snapshot_id=table.metadata.snapshots[-1].snapshot_id)).table
    assert live_paths(table) == {"a", "b", "c"}


@VERSIONS
def test_a_staged_append_is_published_once(version: int) -> None:
    catalog, table = begin(version)
    staged = commit(catalog, table, AppendFiles(added=(data_file("w", partition=EU),), staged=True, summary={"wap.id": "w1"}))
    assert live_paths(staged.table) == {"a", "b"}
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    done = commit(catalog, table, CherryPick(wap_id="w1"))
    assert live_paths(done.table) == {"a", "b", "c", "w"}
    assert done.snapshot is not None
    assert done.snapshot.summary["published-wap-id"] == "w1"
    with pytest.raises(ValidationError, match=r"already picked|Duplicate request"):
        commit(catalog, done.table, CherryPick(wap_id="w1"))


def test_a_staged_append_on_the_head_is_published_by_fast_forward() -> None:
    catalog, table = begin()
    staged = commit(catalog, table, AppendFiles(added=(data_file("w", partition=EU),), staged=True, summary={"wap.id": "w1"}))
    done = commit(catalog, table, CherryPick(snapshot_id=staged.snapshot.snapshot_id if staged.snapshot else 0))
    assert head(done.table) == staged.snapshot


def test_a_partition_overwrite_is_not_picked_over_rows_that_came_meanwhile() -> None:
    catalog, table = begin()
    new = data_file("w", partition=EU)
    staged = commit(catalog, table, ReplacePartitions(added=(new,), staged=True, starting_snapshot_id=head(table).snapshot_id))
    assert staged.snapshot is not None
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU),))).table
    with pytest.raises(ValidationError, match="changed partition"):
        commit(catalog, table, CherryPick(snapshot_id=staged.snapshot.snapshot_id))


def test_a_picked_partition_overwrite_replaces_what_it_was_seen_to_and_no_rows_that_a_rewrite_brought_into_its_partition() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    old = data_file("of-the-old-spec")
    table = commit(catalog, table, AppendFiles(added=(old,))).table
    table = commit(catalog, table, UpdateSpec(spec=replace(BY_REGION, spec_id=1))).table
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=EU, spec_id=1),))).table
    new = data_file("w", partition=EU, spec_id=1)
    staged = commit(catalog, table, ReplacePartitions(added=(new,), staged=True, starting_snapshot_id=head(table).snapshot_id))
    assert staged.snapshot is not None
    rewrite = RewriteFiles(removed_data=(old,), added_data=(data_file("rewritten", partition=EU, spec_id=1),))
    table = commit(catalog, table, rewrite).table
    assert live_paths(commit(catalog, table, CherryPick(snapshot_id=staged.snapshot.snapshot_id)).table) == {"rewritten", "w"}


def test_a_partition_overwrite_of_the_tables_own_rows_is_not_picked_where_these_may_have_changed() -> None:
    catalog, table = begin()
    start = head(table).snapshot_id
    of_own = ReplacePartitions(added=(data_file("w", partition=EU),), staged=True, reads_table=True, starting_snapshot_id=start)
    first, second = (commit(catalog, table, of_own).snapshot for _ in range(2))
    assert first is not None
    assert second is not None
    table = commit(catalog, table, CherryPick(snapshot_id=first.snapshot_id)).table  # nothing came in between
    assert live_paths(table) == {"b", "w"}
    table = commit(catalog, table, DeleteFiles(paths=("b",))).table
    with pytest.raises(ValidationError, match="not append, dynamic overwrite, or fast-forward"):
        commit(catalog, table, CherryPick(snapshot_id=second.snapshot_id))


def test_a_transaction_is_wholly_there_or_not_at_all() -> None:
    catalog, table = begin()
    new = (data_file("c", partition=EU),)
    operations = (AppendFiles(added=new), UpdateProperties(updates={"x": "1"}), DeleteFiles(paths=("a",)))
    done = commit(FailsNTimes(catalog, 2), table, Transaction(operations=operations, run_key="t1"), sleep=lambda _: None)
    assert live_paths(done.table) == {"b", "c"}
    assert done.table.properties["x"] == "1"
    assert [e.snapshot_id for e in done.table.metadata.snapshot_log][-1] == done.table.metadata.current_snapshot_id
    assert len(done.table.metadata.snapshot_log) == 2, "the state in between was never current"
    assert leaked(catalog, done.table) == []
    assert commit(catalog, table, Transaction(operations=operations, run_key="t1")).already_committed
    bad = Transaction(
        operations=(AppendFiles(added=(data_file("z", partition=EU),)), DeleteFiles(paths=("gone",), must_exist=True))
    )
    with pytest.raises(ValidationError):
        commit(catalog, table, bad)
    now = catalog.load_table(IDENTIFIER)
    assert live_paths(now) == {"b", "c"}
    assert leaked(catalog, now) == []


def test_schema_spec_and_order_changes_are_refused_when_worked_out_on_an_older_state() -> None:
    catalog, table = begin()
    wider = Schema.of(*SCHEMA.fields, NestedField(4, "extra", INT))
    other = Schema.of(*SCHEMA.fields, NestedField(4, "another", INT))
    changed = commit(catalog, table, UpdateSchema(schema=wider)).table
    assert [f.name for f in changed.schema.fields] == ["id", "data", "region", "extra"]
    with pytest.raises(ValidationError, match="schema has changed"):
        commit(catalog, table, UpdateSchema(schema=other))
    assert commit(catalog, table, UpdateSchema(schema=wider)).table.metadata == changed.metadata
    order = SortOrder(0, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
    assert commit(catalog, changed, UpdateSortOrder(sort_order=order)).table.metadata.sort_order.fields == order.fields
    spec = type(BY_REGION)(0, ())
    assert commit(catalog, changed, UpdateSpec(spec=spec)).table.spec.is_unpartitioned
    moved = commit(catalog, changed, UpdateLocation(location=f"{table.location}/elsewhere")).table
    assert moved.location.endswith("/elsewhere")


def test_rewritten_manifests_are_sorted_by_partition_on_any_branch_and_no_file_changes() -> None:
    catalog, table = begin(2, A, B)
    for i in range(4):
        new = (data_file(f"n{i}", partition=(("us", "eu")[i % 2],)),)
        table = commit(catalog, table, AppendFiles(added=new, branch="audit", merge=False)).table
    before = live_files(table, "audit")
    table = commit(catalog, table, RewriteManifests(branch="audit")).table
    assert live_files(table, "audit") == before
    manifests = manifests_of(table, head(table, "audit"))
    partitions = [e.data_file.partition for m in manifests for e in entries_of(table, m)]
    assert len(manifests) == 1
    assert partitions == sorted(partitions)
    assert head(table, "audit").summary["entries-processed"] == "6"


@pytest.mark.parametrize(
    "make",
    [
        lambda: AppendFiles(added=(A, A)),
        lambda: AppendFiles(added=(equality_deletes("e"),)),
        lambda: RowDelta(added_deletes=(deletion_vector("v", "a"), deletion_vector("w", "a"))),
        RewriteFiles,
        lambda: RewriteFiles(removed_deletes=(equality_deletes("e"),), added_data=(A,)),
        RowDelta,
        lambda: RowDelta(added_deletes=(A,)),
        DeleteFiles,
        OverwriteFiles,
        lambda: Transaction(operations=()),
    ],
)
def test_an_operation_that_makes_no_sense_is_refused_when_it_is_made(make: Any) -> None:
    with pytest.raises(BadInputError):
        make()
