"""Cases of Iceberg Java's own tests of row deltas that need more than a conflict: the table's content afterwards, entry by entry.

docs/conformance-commits.md lists the Java case of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import CommitFailedError, ValidationError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.builders import (
    data_file,
    deletion_vector,
    equality_deletes,
    live_files,
    live_paths,
    position_deletes,
)
from tests.catalog.wrappers import FailsNTimes, Meddles
from tests.commit.cases import (
    ALL,
    DELETES,
    EU,
    MERGING,
    NEW,
    US,
    A,
    B,
    begin,
    counts,
    entries,
    head,
    leftovers,
    positions,
    two_specs,
)


@DELETES
def test_deletes_alone_make_one_manifest_and_touch_no_other(version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, RowDelta(added_deletes=(positions(version, "a"),), isolation=None)).table
    assert (table.metadata.current_snapshot.operation, counts(table)) == ("delete", ("1", "1", "0"))


@DELETES
def test_rows_and_deletes_of_one_delta_have_one_sequence_number(version: int) -> None:
    catalog, table = begin(version)
    operation = RowDelta(added_data=(NEW,), added_deletes=(positions(version, "a"),), isolation=None)
    table = commit(catalog, table, operation).table
    assert table.metadata.current_snapshot.operation == "overwrite"
    numbers = {name.partition("#")[0]: number for name, number in live_files(table).items()}
    assert numbers["new"] == numbers["d"] == (2, 2)


@ALL
def test_a_delta_that_replaces_a_file_writes_its_manifest_anew(version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, RowDelta(added_data=(NEW,), removed_data=(A,), isolation=None)).table
    assert (table.metadata.current_snapshot.operation, counts(table)) == ("overwrite", ("2", "0", "1"))
    assert entries(table) == {"new": "ADDED", "a": "DELETED", "b": "EXISTING"}


@DELETES
def test_a_delta_may_delete_rows_of_one_file_and_remove_another(version: int) -> None:
    catalog, table = begin(version)
    operation = RowDelta(
        added_data=(NEW,),
        added_deletes=(positions(version, "a"),),
        removed_data=(B,),
        referenced_data_files=("a",),
        starting_snapshot_id=head(table),
    )
    table = commit(catalog, table, operation).table
    assert entries(table) == {"new": "ADDED", "a": "EXISTING", "b": "DELETED", "d": "ADDED"}


REMOVALS: dict[str, Callable[[int], Any]] = {
    "overwrite": lambda start: OverwriteFiles(removed=(A, B), added=(NEW,), starting_snapshot_id=start),
    "replace partitions": lambda start: ReplacePartitions(added=(NEW, data_file("n2", partition=US)), starting_snapshot_id=start),
    "delete by filter": lambda start: DeleteFiles(filter=ALWAYS_TRUE),
    "delete by path": lambda start: DeleteFiles(paths=("a", "b")),
}


@DELETES
@pytest.mark.parametrize("how", REMOVALS)
def test_deletes_go_once_all_data_they_apply_to_is_gone(how: str, version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, RowDelta(added_deletes=(positions(version, "a"),), isolation=None)).table
    table = commit(catalog, table, REMOVALS[how](head(table))).table
    table = commit(catalog, table, AppendFiles(added=(data_file("later", partition=EU),))).table
    assert "d" not in live_paths(table)
    assert table.metadata.current_snapshot.summary["total-delete-files"] == "0"


def deletes_of_both(version: int, suffix: str = "") -> tuple[Any, ...]:
    make = position_deletes if version < 3 else deletion_vector
    return (make(f"d0{suffix}", "a", partition=EU), make(f"d1{suffix}", "c", spec_id=1, partition=(None, "x")))


@DELETES
def test_deletes_of_several_specs_make_a_manifest_each_and_are_replaced_each(version: int) -> None:
    catalog, table = two_specs(version, **MERGING)
    old, new = deletes_of_both(version), deletes_of_both(version, "n")
    table = commit(catalog, table, RowDelta(added_deletes=old, isolation=None)).table
    of_deletes = [m for m in manifests_of(table, table.metadata.current_snapshot) if m.content.name == "DELETES"]
    assert sorted(m.partition_spec_id for m in of_deletes) == [0, 1]
    table = commit(catalog, table, RowDelta(added_deletes=new, removed_deletes=old, starting_snapshot_id=head(table))).table
    assert live_paths(table) == {"a", "b", "c", "d0n", "d1n"}
    assert {p: s for p, s in entries(table).items() if p.startswith("d")} == {
        "d0": "DELETED", "d1": "DELETED", "d0n": "ADDED", "d1n": "ADDED"
    }  # fmt: skip


@DELETES
def test_a_failed_delta_of_several_specs_leaves_no_manifest(version: int) -> None:
    catalog, table = two_specs(version, **{"commit.retry.num-retries": "4"})
    operation = RowDelta(added_deletes=deletes_of_both(version), isolation=None)
    with pytest.raises(CommitFailedError):
        commit(FailsNTimes(catalog, 5), table, operation, sleep=lambda _: None)
    assert leftovers(catalog) == []


@DELETES
@pytest.mark.parametrize("merging", [False, True])
def test_a_rewrite_at_the_old_number_and_a_new_equality_delete_keep_their_numbers(version: int, merging: bool) -> None:
    catalog, table = begin(version, **(MERGING if merging else {}))
    start = table.metadata.current_snapshot
    others = RowDelta(added_deletes=(equality_deletes("e", partition=EU),), isolation=None)
    operation = RewriteFiles(
        removed_data=(A,), added_data=(NEW,), starting_snapshot_id=start.snapshot_id, data_sequence_number=start.sequence_number
    )
    table = commit(Meddles(catalog, lambda: commit(catalog, table, others)), table, operation, sleep=lambda _: None).table
    assert live_files(table) == {"b": (1, 1), "e": (2, 2), "new": (1, 3)}


@DELETES
def test_replaced_deletes_are_deleted_entries_with_their_numbers(version: int) -> None:
    catalog, table = begin(version)
    old, new = positions(version, "a"), positions(version, "a", "d2")
    table = commit(catalog, table, RowDelta(added_deletes=(old,), isolation=None)).table
    operation = RowDelta(added_deletes=(new,), removed_deletes=(old,), starting_snapshot_id=head(table))
    table = commit(catalog, table, operation).table
    assert entries(table) == {"a": "ADDED", "b": "ADDED", "d": "DELETED", "d2": "ADDED"}
    gone = next(
        e
        for m in manifests_of(table, table.metadata.current_snapshot)
        for e in entries_of(table, m)
        if e.data_file.file_path == "d"
    )
    assert (gone.sequence_number, gone.file_sequence_number, gone.snapshot_id) == (2, 2, head(table))


@pytest.mark.parametrize("isolation", [None, "snapshot"])
def test_two_deltas_that_replace_the_same_delete_file(isolation: Any) -> None:
    """Without validation both pass; with it the second is refused."""
    catalog, table = begin(2)
    old = position_deletes("d", "a", partition=EU)
    table = commit(catalog, table, RowDelta(added_deletes=(old,), isolation=None)).table

    def replacing(name: str) -> RowDelta:
        return RowDelta(
            added_deletes=(position_deletes(name, "a", partition=EU),),
            removed_deletes=(old,),
            starting_snapshot_id=head(table),
            isolation=isolation,
        )

    commit(catalog, table, replacing("d1"))
    if isolation is None:
        assert live_paths(commit(catalog, table, replacing("d2")).table) == {"a", "b", "d1", "d2"}
    else:
        with pytest.raises(ValidationError, match="Missing required files to delete: d"):
            commit(catalog, table, replacing("d2"))


@DELETES
def test_deletes_that_a_manifest_rewrite_moved_are_still_removed(version: int) -> None:
    catalog, table = begin(version)
    old = positions(version, "a")
    table = commit(catalog, table, RowDelta(added_deletes=(old,), isolation=None)).table
    operation = RowDelta(
        added_deletes=(positions(version, "a", "d2"),), removed_deletes=(old,), starting_snapshot_id=head(table)
    )  # fmt: skip
    commit(catalog, table, RewriteManifests())
    assert live_paths(commit(catalog, table, operation).table) == {"a", "b", "d2"}


def test_position_deletes_of_v2_and_vectors_live_side_by_side_after_an_upgrade() -> None:
    catalog, table = begin(2, **MERGING)
    commit(catalog, table, RowDelta(added_deletes=(position_deletes("p", "a", partition=EU),), isolation=None))
    table = commit(catalog, table, UpgradeFormatVersion(format_version=3)).table
    table = commit(catalog, table, RowDelta(added_deletes=(deletion_vector("v", "b", partition=US),), isolation=None)).table
    assert live_paths(table) == {"a", "b", "p", "v"}
    assert len([m for m in manifests_of(table, table.metadata.current_snapshot) if m.content.name == "DELETES"]) == 1
