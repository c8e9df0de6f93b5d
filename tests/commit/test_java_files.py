"""Cases of Iceberg Java's own tests of overwrites, rewrites, replaced partitions and deletes of files that need more than a
conflict: the table's content afterwards, entry by entry.

docs/conformance-commits.md lists the Java case of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import BadInputError, CommitFailedError, ValidationError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, eq, lt
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.transforms import IDENTITY, VOID
from iceberg_ops.table.manifests import manifests_of
from tests.builders import (
    IDENTIFIER,
    SCHEMA,
    data_file,
    deletion_vector,
    equality_deletes,
    live_paths,
    make_catalog,
    make_table,
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
    begin,
    entries,
    head,
    leftovers,
    positions,
    two_specs,
)


@ALL
@pytest.mark.parametrize("isolation", [None, "snapshot", "serializable"])
def test_an_empty_table_can_be_overwritten(isolation: Any, version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    operation = OverwriteFiles(added=(NEW,), overwrite_filter=eq("region", "eu"), isolation=isolation)
    assert live_paths(commit(catalog, table, operation).table) == {"new"}


@ALL
@pytest.mark.parametrize("isolation", [None, "snapshot", "serializable"])
def test_a_file_is_replaced_where_nobody_else_does_anything(isolation: Any, version: int) -> None:
    catalog, table = begin(version)
    operation = OverwriteFiles(removed=(A,), added=(NEW,), isolation=isolation, starting_snapshot_id=head(table))
    assert live_paths(commit(catalog, table, operation).table) == {"new", "b"}


@ALL
@pytest.mark.parametrize("inside", [False, True])
def test_an_expired_snapshot_matters_only_inside_the_window(inside: bool, version: int) -> None:
    catalog, table = begin(version)
    first = head(table)
    table = commit(catalog, table, AppendFiles(added=(data_file("c", partition=US),))).table
    start = first if inside else head(table)
    table = commit(catalog, table, AppendFiles(added=(data_file("d", partition=US),))).table
    gone = (first,) if not inside else (first, table.metadata.snapshots[1].snapshot_id)
    commit(catalog, table, ExpireSnapshots(snapshot_ids=gone))
    operation = OverwriteFiles(removed=(A,), added=(NEW,), conflict_filter=eq("region", "eu"), starting_snapshot_id=start)
    if inside:
        with pytest.raises(ValidationError, match="Cannot determine history"):
            commit(catalog, table, operation)
    else:
        assert "new" in live_paths(commit(catalog, table, operation).table)


@ALL
@pytest.mark.parametrize("region", ["eu", "us"])
def test_a_transaction_validates_what_its_operations_validate(region: str, version: int) -> None:
    catalog, table = begin(version)
    overwrite = OverwriteFiles(
        removed=(A,), added=(NEW,), conflict_filter=eq("region", "eu"), starting_snapshot_id=head(table)
    )  # fmt: skip
    commit(catalog, table, AppendFiles(added=(data_file("late", partition=(region,)),)))
    both = Transaction(operations=(UpdateProperties(updates={"a": "b"}), overwrite))
    if region == "eu":
        with pytest.raises(ValidationError, match="Found conflicting files"):
            commit(catalog, table, both)
        assert "a" not in catalog.load_table(IDENTIFIER).properties
    else:
        assert live_paths(commit(catalog, table, both).table) == {"b", "late", "new"}


@pytest.mark.parametrize("version", [2, 3])
def test_whole_files_that_are_deleted_take_their_deletes_along(version: int) -> None:
    catalog, table = begin(version, A)
    table = commit(catalog, table, RowDelta(added_deletes=(positions(version, "a"),), isolation=None)).table
    operation = OverwriteFiles(overwrite_filter=eq("region", "eu"), starting_snapshot_id=head(table))
    table = commit(catalog, table, operation).table
    assert (live_paths(table), table.metadata.current_snapshot.operation) == (set(), "delete")


@ALL
def test_nothing_can_be_rewritten_in_an_empty_table(version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    with pytest.raises(ValidationError, match="Missing required files to delete: a"):
        commit(catalog, table, RewriteFiles(removed_data=(A,), added_data=(NEW,)))


@ALL
def test_every_entry_of_a_removed_file_goes(version: int) -> None:
    catalog, table = begin(version, A)
    table = commit(catalog, table, AppendFiles(added=(A,), merge=False)).table
    table = commit(catalog, table, DeleteFiles(files=(A,), starting_snapshot_id=head(table))).table
    assert live_paths(table) == set()
    summary = table.metadata.current_snapshot.summary
    assert (summary["deleted-data-files"], summary["deleted-duplicate-files"], summary["total-data-files"]) == ("2", "1", "0")


REPLACE = {
    "rewrite": lambda removed, **f: RewriteFiles(removed_data=removed, added_data=(NEW,), **f),
    "overwrite": lambda removed, **f: OverwriteFiles(removed=removed, added=(NEW,), **f),
    "overwrite at any price": lambda removed, **f: OverwriteFiles(removed=removed, added=(NEW,), isolation=None, **f),
    "row delta": lambda removed, **f: RowDelta(removed_data=removed, added_data=(NEW,), **f),
}


@ALL
@pytest.mark.parametrize("operation", REPLACE.values(), ids=list(REPLACE))
def test_a_file_is_replaced_only_with_every_entry_that_is_live(version: int, operation: Callable[..., Operation]) -> None:
    """Here we are stricter than Java, which removes both entries and has the rows of one."""
    catalog, table = begin(version, A)
    table = commit(catalog, table, AppendFiles(added=(A,), merge=False)).table
    with pytest.raises(ValidationError, match="Cannot replace a: it is live 2 times, and the rows of 1 entries were read") as e:
        commit(catalog, table, operation((A,), starting_snapshot_id=head(table)))
    assert e.value.file_paths == ("a",)
    table = commit(catalog, table, operation((A, A), starting_snapshot_id=head(table))).table
    assert live_paths(table) == {"new"}


@ALL
def test_rows_of_a_file_that_was_live_twice_are_not_written_twice_for_the_entry_that_is_left(version: int) -> None:
    catalog, table = begin(version, A)
    with pytest.raises(ValidationError, match="Cannot replace a: it is live 1 times, and the rows of 2 entries were read"):
        commit(catalog, table, RewriteFiles(removed_data=(A, A), added_data=(NEW,), starting_snapshot_id=head(table)))


@DELETES
def test_data_and_its_deletes_are_rewritten_together(version: int) -> None:
    catalog, table = begin(version)
    d = positions(version, "a")
    table = commit(catalog, table, RowDelta(added_deletes=(d,), isolation=None)).table
    operation = RewriteFiles(removed_data=(A,), removed_deletes=(d,), added_data=(NEW,), starting_snapshot_id=head(table))
    table = commit(catalog, table, operation).table
    assert live_paths(table) == {"b", "new"}
    assert table.metadata.current_snapshot.operation == "replace"


@DELETES
def test_deletes_are_rewritten_into_none_or_into_others(version: int) -> None:
    catalog, table = begin(version)
    e = equality_deletes("e", partition=EU)
    table = commit(catalog, table, RowDelta(added_deletes=(e, positions(version, "b", partition=US)), isolation=None)).table
    operation = RewriteFiles(
        removed_deletes=(e,), added_deletes=(positions(version, "a", "p"),), starting_snapshot_id=head(table)
    )  # fmt: skip
    table = commit(catalog, table, operation).table
    assert live_paths(table) == {"a", "b", "d", "p"}
    gone = (positions(version, "a", "p"), positions(version, "b", partition=US))
    table = commit(catalog, table, RewriteFiles(removed_deletes=gone, starting_snapshot_id=head(table))).table
    assert live_paths(table) == {"a", "b"}


@DELETES
def test_five_failures_of_a_rewrite_of_both_leave_no_manifest_and_three_do_not_matter(version: int) -> None:
    catalog, table = begin(version, **{"commit.retry.num-retries": "4"})
    d = positions(version, "a")
    table = commit(catalog, table, RowDelta(added_deletes=(d,), isolation=None)).table
    operation = RewriteFiles(removed_data=(A,), removed_deletes=(d,), added_data=(NEW,), starting_snapshot_id=head(table))
    with pytest.raises(CommitFailedError):
        commit(FailsNTimes(catalog, 5), table, operation, sleep=lambda _: None)
    assert leftovers(catalog) == []
    table = commit(FailsNTimes(catalog, 3), table, operation, sleep=lambda _: None).table
    assert live_paths(table) == {"b", "new"}
    assert leftovers(catalog) == []


def table_by(version: int, *fields: PartitionField) -> tuple[Any, Any]:
    catalog = make_catalog()
    spec = PartitionSpec(0, fields)
    table = catalog.create_table(IDENTIFIER, SCHEMA, spec=spec, properties={"format-version": str(version)})
    return catalog, table


SPECS: dict[str, tuple[tuple[PartitionField, ...], tuple[Any, ...]]] = {
    "no partitions": ((), ()),
    "a void field": ((PartitionField((3,), 1000, VOID, "region"),), (None,)),
    "a null value": ((PartitionField((3,), 1000, IDENTITY, "region"),), (None,)),
}


@ALL
@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("what", SPECS)
def test_a_partition_is_replaced_with(what: str, merge: bool, version: int) -> None:
    fields, partition = SPECS[what]
    catalog, table = table_by(version, *fields)
    if merge:
        table = commit(catalog, table, UpdateProperties(updates=MERGING)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("a", partition=partition),))).table
    new = data_file("new", partition=partition)
    table = commit(catalog, table, ReplacePartitions(added=(new,), starting_snapshot_id=head(table))).table
    assert live_paths(table) == {"new"}
    assert table.metadata.current_snapshot.summary["replace-partitions"] == "true"


@ALL
@pytest.mark.parametrize("what", ["no partitions", "a void field"])
def test_replacing_a_whole_table_conflicts_with_any_append(what: str, version: int) -> None:
    fields, partition = SPECS[what]
    catalog, table = table_by(version, *fields)
    table = commit(catalog, table, AppendFiles(added=(data_file("a", partition=partition),))).table
    operation = ReplacePartitions(added=(data_file("new", partition=partition),), starting_snapshot_id=head(table))
    commit(catalog, table, AppendFiles(added=(data_file("late", partition=partition),)))
    with pytest.raises(ValidationError, match="Found conflicting files"):
        commit(catalog, table, operation)


@DELETES
def test_a_replaced_partition_drops_its_deletes(version: int) -> None:
    catalog, table = begin(version)
    d = (positions(version, "a"), equality_deletes("e", partition=EU))
    table = commit(catalog, table, RowDelta(added_deletes=d, isolation=None)).table
    table = commit(catalog, table, ReplacePartitions(added=(NEW,), starting_snapshot_id=head(table))).table
    if version > 2:
        assert "d" not in live_paths(table)
    table = commit(catalog, table, ReplacePartitions(added=(data_file("n", partition=US),), starting_snapshot_id=head(table))).table
    table = commit(catalog, table, AppendFiles(added=(data_file("later", partition=EU),))).table
    assert live_paths(table) == {"new", "n", "later"}


@ALL
def test_deletes_follow_each_other_and_gone_files_do_not_stop_a_filter(version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, DeleteFiles(paths=("a",))).table
    table = commit(catalog, table, DeleteFiles(filter=ALWAYS_TRUE)).table
    assert (live_paths(table), entries(table)) == (set(), {"b": "DELETED"})
    assert Counter(s.operation for s in table.metadata.snapshots) == {"append": 1, "delete": 2}


@ALL
def test_a_delete_on_a_branch_leaves_main_alone(version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, DeleteFiles(paths=("a",), branch="audit")).table
    assert (live_paths(table), live_paths(table, "audit")) == ({"a", "b"}, {"b"})


@ALL
def test_partitions_whose_texts_look_alike_are_told_apart(version: int) -> None:
    catalog, table = begin(version, data_file("1", partition=("AaAa",)), data_file("2", partition=("BBBB",)))
    table = commit(catalog, table, DeleteFiles(files=(data_file("1", partition=("AaAa",)),), must_exist=True)).table
    assert live_paths(table) == {"2"}


@DELETES
@pytest.mark.parametrize("how", ["by filter", "by path", "everything"])
def test_a_deleted_file_takes_its_vector_along(how: str, version: int) -> None:
    catalog, table = begin(version)
    table = commit(catalog, table, RowDelta(added_deletes=(positions(version, "a"),), isolation=None)).table
    operation = {
        "by filter": DeleteFiles(filter=eq("region", "eu")),
        "by path": DeleteFiles(paths=("a",)),
        "everything": DeleteFiles(filter=ALWAYS_TRUE),
    }[how]
    assert "d" not in live_paths(commit(catalog, table, operation).table)


def test_a_vector_needs_its_place_and_its_file() -> None:
    catalog, table = begin(3)
    for missing in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        broken = replace(deletion_vector("v", "a", partition=EU), **{missing: None})
        with pytest.raises(BadInputError, match=r"A deletion vector needs its data file, offset and size|Must use DVs"):
            commit(catalog, table, RowDelta(added_deletes=(broken,), isolation=None))


@ALL
def test_manifest_rewrites_of_one_spec_leave_the_other_and_refuse_lost_ones(version: int) -> None:
    catalog, table = two_specs(version)
    before = {m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot) if m.partition_spec_id == 1}
    table = commit(catalog, table, RewriteManifests(spec_id=0)).table
    after = {m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot)}
    assert before < after
    with pytest.raises(BadInputError, match="no partition spec 7"):
        commit(catalog, table, RewriteManifests(spec_id=7))


@ALL
def test_a_manifest_rewrite_takes_those_that_a_predicate_chooses_also_in_a_later_attempt(version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    for name in ("a", "b", "c"):
        table = commit(catalog, table, AppendFiles(added=(data_file(name, partition=EU),), merge=False)).table
    of_c, *of_others = (m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot))
    late = AppendFiles(added=(data_file("d", partition=EU),), merge=False)
    meddling = Meddles(catalog, lambda: commit(catalog, table, late))
    operation = RewriteManifests(rewrite_if=lambda m: m.manifest_path in of_others)
    table = commit(meddling, table, operation, sleep=lambda _: None).table
    left = [m.manifest_path for m in manifests_of(table, table.metadata.current_snapshot)]
    assert len(left) == 3, "what was rewritten, what was not chosen, and what came meanwhile"
    assert of_c in left
    assert not set(of_others) & set(left)
    assert live_paths(table) == {"a", "b", "c", "d"}
    again = commit(catalog, table, RewriteManifests(rewrite_if=lambda m: False))
    assert again.table.metadata.current_snapshot_id == table.metadata.current_snapshot_id


@ALL
def test_manifests_written_anew_are_as_large_as_asked_for(version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True, properties={"commit.manifest.target-size-bytes": "400000"})
    for n in range(4):
        files = tuple(data_file(f"s3://bucket/long/path/{n}/{i}", partition=(f"r{i}",)) for i in range(2000))
        table = commit(catalog, table, AppendFiles(added=files, merge=False)).table
    table = commit(catalog, table, UpdateProperties(updates={"commit.manifest.target-size-bytes": "20000"})).table
    before = [m.manifest_length for m in manifests_of(table, table.metadata.current_snapshot)]
    told: dict[tuple[str, str, int, int], list[tuple[int, int]]] = {}

    def begin_counting(*work: Any) -> Callable[[int, int], None]:
        done = told.setdefault(work, [])
        return lambda count, bytes_: done.append((count, bytes_))

    table = commit(catalog, table, RewriteManifests(begin=begin_counting)).table
    sizes = [m.manifest_length for m in manifests_of(table, table.metadata.current_snapshot)]
    assert len(sizes) == 2
    reading, writing = told.values()
    assert list(told) == [("reading", "manifests", 4, sum(before)), ("writing", "entries", 8000, 0)]
    assert reading == [(1, size) for size in before]
    assert (len(writing), sum(count for count, _ in writing)) == (2, 8000)
    assert max(sizes) < 40_000
    assert len(live_paths(table)) == 8000


@ALL
def test_a_metadata_only_filter_uses_metrics_where_the_partition_says_nothing(version: int) -> None:
    catalog, table = begin(version, A, data_file("far", partition=EU, ids=(100, 109)))
    assert live_paths(commit(catalog, table, DeleteFiles(filter=lt("id", 50))).table) == {"far"}
