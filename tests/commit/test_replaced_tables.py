"""Another engine replaces a table (CREATE OR REPLACE TABLE): its uuid stays, a column has the id of the former one with the same
name, whatever their types, and main begins again. No file that was written for the former columns is committed to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.manifests.appended_manifests import write_manifests_to_append
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import FastForward, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, UNKNOWN, ListType, MapType, NestedField, StructType
from iceberg_ops.spec.updates import LAST_ADDED, AddPartitionSpec, RemoveSchemas, RemoveSnapshots, SetDefaultSpec
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table
from tests.builders import BY_REGION, IDENTIFIER, SCHEMA, data_file, live_files, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import Meddles
from tests.commit.scenarios import RETYPED_SCHEMA, Replaced

STRICT = Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG, True))


def replaced(catalog: Any, schema: Schema = RETYPED_SCHEMA) -> Table:
    return commit(catalog, catalog.load_table(IDENTIFIER), Replaced(schema=schema, is_empty=True)).table


def staged(catalog: Any, table: Table, wap_id: str = "w") -> tuple[Table, int]:
    """The table with a staged snapshot, and its id."""
    append = AppendFiles(added=(data_file(wap_id),), merge=False, staged=True, summary={"wap.id": wap_id})
    done = commit(catalog, table, append)
    assert done.snapshot is not None
    return done.table, done.snapshot.snapshot_id


LATE: dict[str, Callable[[Table, int], Operation]] = {
    "append": lambda table, _: AppendFiles(added=(data_file("late"),)),
    "append to a branch": lambda table, _: AppendFiles(added=(data_file("late"),), branch="audit"),
    "append of manifests": lambda table, _: AppendFiles(manifests=tuple(write_manifests_to_append(table, [data_file("late")]))),
    "staged append": lambda table, _: AppendFiles(added=(data_file("late"),), staged=True),
    "publication": lambda table, _: CherryPick(wap_id="w"),
    "pick for a branch": lambda table, picked: CherryPick(snapshot_id=picked, branch="audit"),
}


@pytest.mark.parametrize("when", ["before the first attempt", "between stage and swap"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["with rows", "empty"])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("late", LATE)
def test_files_of_former_columns_are_refused(late: str, version: int, is_empty: bool, when: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    if not is_empty:
        table = commit(catalog, table, AppendFiles(added=(data_file("a"),))).table
    table, picked = staged(catalog, table)
    if "branch" in late:
        table = commit(catalog, table, SetRef(ref="audit", snapshot_id=picked)).table
        table = commit(catalog, table, AppendFiles(added=(data_file("b"),), branch="audit")).table
    if late == "pick for a branch":
        table, picked = staged(catalog, table, "x")
    operation = LATE[late](table, picked)
    if when == "before the first attempt":
        replaced(catalog)
    meddling = Meddles(catalog, *([] if when == "before the first attempt" else [lambda: replaced(catalog)]))
    with pytest.raises(ValidationError, match=r"column 'data' \(field 2\) is of type long, and was string when"):
        commit(meddling, table, operation, sleep=lambda _: None)
    after = catalog.load_table(IDENTIFIER)
    assert after.metadata.current_snapshot_id is None
    assert after.metadata.ref("audit") == table.metadata.ref("audit")


def test_a_staged_snapshot_without_a_column_that_is_required_now_is_not_published() -> None:
    catalog = make_catalog()
    table, _ = staged(catalog, make_table(catalog))
    replaced(catalog, STRICT)
    with pytest.raises(ValidationError, match=r"column 'more' \(field 4\) is required, and was not there when it was written"):
        commit(catalog, table, CherryPick(wap_id="w"))


def test_a_staged_snapshot_is_published_where_its_columns_are_read() -> None:
    catalog = make_catalog()
    table, _ = staged(catalog, make_table(catalog))
    replaced(catalog, Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG)))
    assert set(live_files(commit(catalog, table, CherryPick(wap_id="w")).table)) == {"w"}


@pytest.mark.parametrize("attempts", [1, 2])
def test_files_of_a_transaction_are_written_by_the_schema_that_it_makes(attempts: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    others = [lambda: commit(catalog, table, AppendFiles(added=(data_file("other"),)))] * (attempts - 1)
    full = replace(data_file("new"), null_value_counts={4: 0})
    operation = Transaction(operations=(UpdateSchema(schema=STRICT), AppendFiles(added=(full,))))
    done = commit(Meddles(catalog, *others), table, operation, sleep=lambda _: None)
    assert (done.attempts, "new" in live_files(done.table)) == (attempts, True)


@pytest.mark.parametrize("when", ["before the first attempt", "between stage and swap"])
def test_files_of_a_transaction_are_written_by_the_schema_that_another_commit_made_before_it(when: str) -> None:
    """The same change of schema: the transaction's own one changes nothing then."""
    catalog = make_catalog()
    table = make_table(catalog)
    others = [lambda: commit(catalog, table, UpdateSchema(schema=STRICT))]
    if when == "before the first attempt":
        others.pop()()
    full = replace(data_file("new"), null_value_counts={4: 0})
    operation = Transaction(operations=(UpdateSchema(schema=STRICT), AppendFiles(added=(full,))))
    done = commit(Meddles(catalog, *others), table, operation, sleep=lambda _: None)
    assert set(live_files(done.table)) == {"new"}
    assert done.table.schema.struct == STRICT.struct


MOVES: dict[str, Callable[[int], Operation]] = {
    "set": lambda former: SetCurrentSnapshot(snapshot_id=former),
    "fast-forward": lambda _: FastForward(to="audit"),
    "ref": lambda former: SetRef(ref="main", snapshot_id=former),
    "rename": lambda _: RenameBranch(old="audit", new="main"),
}


@pytest.mark.parametrize("when", ["before the first attempt", "between stage and swap"])
@pytest.mark.parametrize("how", MOVES)
def test_main_is_not_moved_to_rows_of_former_columns(how: str, when: str) -> None:
    """Branches are read by the table's columns: it could not be read, or numbers were read as dates."""
    catalog = make_catalog()
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),), branch="audit")).table
    head = table.metadata.ref("audit")
    assert head is not None
    others = [lambda: replaced(catalog)]
    if when == "before the first attempt":
        others.pop()()
    with pytest.raises(ValidationError, match=r"Cannot move branch main to .* column 'data' \(field 2\) is of type long, and was"):
        commit(Meddles(catalog, *others), table, MOVES[how](head.snapshot_id), sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).metadata.current_snapshot_id is None


@pytest.mark.parametrize("how", MOVES)
def test_main_is_moved_to_rows_whose_columns_are_read(how: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),), branch="audit")).table
    head = table.metadata.ref("audit")
    assert head is not None
    replaced(catalog, Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG)))
    assert set(live_files(commit(catalog, table, MOVES[how](head.snapshot_id)).table)) == {"a"}


def former_branch(catalog: Any, schema: Schema, *late: str, properties: Any = None) -> Table:
    """A table with branch audit; replaced; the branch gets the files ``late`` by the new columns."""
    table = make_table(catalog, properties=properties)
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),), branch="audit")).table
    table = replaced(catalog, schema)
    for path in late:
        table = commit(catalog, table, AppendFiles(added=(data_file(path),), branch="audit")).table
    return table


def head_of_audit(table: Table) -> int:
    head = table.metadata.ref("audit")
    assert head is not None
    return head.snapshot_id


@pytest.mark.parametrize("properties", [None, {"commit.manifest.min-count-to-merge": "2"}], ids=["as they were", "merged"])
@pytest.mark.parametrize("how", MOVES)
def test_main_is_not_moved_to_a_branch_that_has_rows_of_former_columns_below_those_of_its_head(how: str, properties: Any) -> None:
    catalog = make_catalog()
    table = former_branch(catalog, RETYPED_SCHEMA, "b", "c", properties=properties)
    with pytest.raises(ValidationError, match=r"is of type long, and was string when snapshot \d+, from which it has"):
        commit(catalog, table, MOVES[how](head_of_audit(table)))


def expired_below(catalog: Any, table: Table) -> Table:
    """The same table; of branch audit nothing but the head is left."""
    before = [s.snapshot_id for s in table.metadata.ancestors(head_of_audit(table))][1:]
    return catalog.commit_table(table, (), (RemoveSnapshots(tuple(before)),))  # type: ignore[no-any-return]


HAS_EXPIRED = r"is of type long, and was string when snapshot \d+, from which it has rows and which has expired, was made"


@pytest.mark.parametrize("left", ["schemas", "no former schema"])
@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("how", MOVES)
def test_main_is_not_moved_to_rows_of_former_columns_whose_snapshot_has_expired(how: str, version: str, left: str) -> None:
    catalog = make_catalog()
    table = expired_below(catalog, former_branch(catalog, RETYPED_SCHEMA, "b", properties={"format-version": version}))
    if left == "no former schema":
        table = catalog.commit_table(table, (), (RemoveSchemas((0,)),))
    with pytest.raises(ValidationError, match=HAS_EXPIRED):
        commit(catalog, table, MOVES[how](head_of_audit(table)))


@pytest.mark.parametrize("how", MOVES)
def test_files_as_old_as_a_former_snapshot_have_former_columns_though_they_are_in_a_new_manifest(how: str) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=(data_file("a"),), branch="audit")).table
    table = commit(catalog, table, AppendFiles(added=(data_file("s"),), staged=True, summary={"wap.id": "w"})).table
    replaced(catalog)
    table = commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("b"),), branch="audit")).table
    table = commit(catalog, table, RewriteManifests(branch="audit")).table
    assert len(manifests_of(table, table.metadata.branch_head("audit"))) == 1
    table = expired_below(catalog, table)
    with pytest.raises(ValidationError, match=HAS_EXPIRED):
        commit(catalog, table, MOVES[how](head_of_audit(table)))


@pytest.mark.parametrize("is_lost", [False, True], ids=["whole", "a manifest is lost"])
@pytest.mark.parametrize("how", MOVES)
def test_main_is_moved_to_a_branch_of_which_snapshots_have_expired(how: str, is_lost: bool) -> None:
    """In a table that was not replaced, though columns were added. Damage does not mean that it was replaced: only the history is
    unknown."""
    catalog = make_catalog()
    table = expired_below(catalog, former_branch(catalog, Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG)), "b"))
    table = catalog.commit_table(table, (), (RemoveSchemas((0,)),))
    if is_lost:
        for manifest in manifests_of(table, table.metadata.branch_head("audit")):
            table.io.delete(manifest.manifest_path)
    head = head_of_audit(table)
    assert commit(catalog, table, MOVES[how](head)).table.metadata.current_snapshot_id == head


@pytest.mark.parametrize("how", MOVES)
def test_main_is_moved_to_a_branch_that_has_no_rows_of_former_columns_any_more(how: str) -> None:
    catalog = make_catalog()
    table = former_branch(catalog, RETYPED_SCHEMA)
    start = head_of_audit(table)
    swap = OverwriteFiles(added=(data_file("b"),), removed=(data_file("a"),), branch="audit", starting_snapshot_id=start)
    table = commit(catalog, table, swap).table
    assert set(live_files(commit(catalog, table, MOVES[how](head_of_audit(table))).table)) == {"b"}


def test_a_branch_of_the_former_table_is_moved_along_its_own_history_and_to_main() -> None:
    catalog = make_catalog()
    table = former_branch(catalog, RETYPED_SCHEMA, "b", "c")
    before = table.metadata.snapshot(head_of_audit(table)).parent_snapshot_id
    table = commit(catalog, table, RollBack(snapshot_id=before, branch="audit")).table
    assert set(live_files(table, "audit")) == {"a", "b"}
    done = commit(catalog, table, AppendFiles(added=(data_file("d"),)))
    assert done.snapshot is not None
    move = SetRef(ref="audit", snapshot_id=done.snapshot.snapshot_id, replace_existing=True)
    assert set(live_files(commit(catalog, done.table, move).table, "audit")) == {"d"}


@pytest.mark.parametrize("how", MOVES)
def test_main_is_not_moved_to_rows_that_lack_a_column_that_is_required_now(how: str) -> None:
    catalog = make_catalog()
    table = former_branch(catalog, STRICT)
    with pytest.raises(ValidationError, match=r"column 'more' \(field 4\) is required, and was not there when it was made"):
        commit(catalog, table, MOVES[how](head_of_audit(table)))


@pytest.mark.parametrize("how", MOVES)
def test_main_is_moved_to_rows_whose_columns_came_back_by_a_second_replacement(how: str) -> None:
    """Snapshots of the table in between came later, and say nothing of older files."""
    catalog = make_catalog()
    table = make_table(catalog)
    for path in ("a", "b"):
        table = commit(catalog, table, AppendFiles(added=(data_file(path),), branch="audit")).table
    replaced(catalog)
    commit(catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("between"),), branch="other"))
    table = expired_below(catalog, replaced(catalog, SCHEMA))
    assert set(live_files(commit(catalog, table, MOVES[how](head_of_audit(table))).table)) == {"a", "b"}


def test_a_branch_is_rolled_back_to_rows_without_a_required_column_once_that_is_optional() -> None:
    """Nobody replaced the table: the column was added although rows were there."""
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    start = table.metadata.current_snapshot_id
    table = commit(catalog, table, UpdateSchema(schema=STRICT)).table
    table = commit(catalog, table, AppendFiles(added=(replace(data_file("b"), null_value_counts={4: 0}),))).table
    with pytest.raises(ValidationError, match=r"column 'more' \(field 4\) is required, and was not there when it was made"):
        commit(catalog, table, RollBack(snapshot_id=start))
    table = commit(catalog, table, UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG)))).table
    assert set(live_files(commit(catalog, table, RollBack(snapshot_id=start)).table)) == {"a"}


BY_NUMBER = Schema.of(*SCHEMA.fields[:2], NestedField(3, "region", LONG))
EU = ("eu",)
LOST = position_deletes("p", "a", partition=EU)
ON_A_BRANCH: dict[str, Callable[[int], Operation]] = {
    "append": lambda _: AppendFiles(added=(data_file("new", partition=EU),), branch="audit"),
    "overwrite": lambda start: OverwriteFiles(
        added=(data_file("new", partition=EU),),
        removed=(data_file("a", partition=EU),),
        branch="audit",
        starting_snapshot_id=start,
    ),
    "delete of rows": lambda start: RowDelta(
        added_deletes=(LOST,), referenced_data_files=("a",), branch="audit", starting_snapshot_id=start
    ),
    "publication": lambda _: CherryPick(wap_id="w"),
}


@pytest.mark.parametrize("is_dropped", [False, True], ids=["there", "dropped since"])
@pytest.mark.parametrize("former", [SCHEMA, BY_NUMBER], ids=["text to number", "number to text"])
@pytest.mark.parametrize("name", ON_A_BRANCH)
def test_a_former_partition_column_is_a_conflict_and_no_damage(name: str, former: Schema, is_dropped: bool) -> None:
    """Also where others changed the branch since the work began, and where the table lacks the column by now."""
    value: Any = "eu" if former is SCHEMA else 1

    def at_home(files: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(f, partition=(value,)) for f in files)

    catalog = make_catalog()
    table = catalog.create_table(IDENTIFIER, former, spec=BY_REGION, properties={"format-version": "2"})
    table = commit(catalog, table, AppendFiles(added=at_home((data_file("a"),)), branch="audit")).table
    seen = commit(catalog, table, AppendFiles(added=at_home((data_file("s"),)), staged=True, summary={"wap.id": "w"})).table
    commit(catalog, seen, AppendFiles(added=at_home((data_file("b"),)), branch="audit", merge=False))
    now = BY_NUMBER if former is SCHEMA else SCHEMA
    late = replaced(catalog, now)
    if is_dropped:
        late = catalog.commit_table(late, (), (AddPartitionSpec(UNPARTITIONED), SetDefaultSpec(LAST_ADDED)))
        commit(catalog, late, UpdateSchema(schema=Schema.of(*SCHEMA.fields[:2])))
    start = seen.metadata.ref("audit")
    assert start is not None
    operation: Any = ON_A_BRANCH[name](start.snapshot_id)
    given = {k: at_home(v) for k in ("added", "removed", "added_deletes") if (v := getattr(operation, k, ()))}
    with pytest.raises(ValidationError, match=r"is of type (long|string), and was|columns have other types now"):
        commit(catalog, seen, replace(operation, **given), sleep=lambda _: None)


@pytest.mark.parametrize("late", ["append", "publication"])
@pytest.mark.parametrize(
    "now",
    [
        StructType((NestedField(5, "a", LONG),)),
        StructType((NestedField(5, "a", LONG, True),)),
        ListType(NestedField(5, "element", LONG, True)),
        MapType(NestedField(5, "key", LONG, True), NestedField(6, "value", LONG)),
    ],
    ids=["struct", "struct of a required field", "list", "map"],
)
def test_files_of_a_column_of_unknown_type_are_read_whatever_it_becomes(now: Any, late: str) -> None:
    catalog = make_catalog()
    schema = Schema.of(*SCHEMA.fields, NestedField(4, "more", UNKNOWN))
    table = catalog.create_table(IDENTIFIER, schema, properties={"format-version": "3"})
    table, picked = staged(catalog, table)
    commit(catalog, table, UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(4, "more", now))))
    operation = CherryPick(snapshot_id=picked) if late == "publication" else AppendFiles(added=(data_file("w"),))
    assert set(live_files(commit(catalog, table, operation).table)) == {"w"}
