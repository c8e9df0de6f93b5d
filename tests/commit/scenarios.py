"""Conflicts and near misses, by name: the initial state, the operation, and the commits of others in the meantime.

``SCENARIOS`` runs unchanged (``test_conflicts``), and again with each validation switched off, which must make a test fail
(``test_every_validation_matters``).
"""

# ruff: noqa: E501 - a table of cases reads best one case a line

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import MetadataOperation, StagedCommit, staged_updates
from iceberg_ops.errors import ValidationError
from iceberg_ops.expressions.predicates import and_, eq, gt_eq, lt
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.spec.updates import LAST_ADDED, AddSchema, RemoveSnapshotRef, SetCurrentSchema
from iceberg_ops.table.table import Table
from tests.builders import (
    IDENTIFIER,
    SCHEMA,
    copied,
    data_file,
    deletion_vector,
    equality_deletes,
    make_catalog,
    make_table,
    position_deletes,
)

EU, US = ("eu",), ("us",)
A = data_file("a", partition=EU, ids=(0, 9))
A2 = data_file("a2", partition=EU, ids=(10, 19))
B = data_file("b", partition=US, ids=(0, 9))
NEW = data_file("new", partition=EU, ids=(0, 9))
FULL = replace(NEW, null_value_counts={1: 0, 2: 0})
LATE = data_file("late", partition=EU, ids=(0, 9))
LATE_FAR = data_file("late-far", partition=EU, ids=(100, 109))
LATE_US = data_file("late-us", partition=US, ids=(0, 9))
IN_EU, IN_US = eq("region", "eu"), eq("region", "us")
LOW_EU = and_(IN_EU, lt("id", 10))
OUTSIDE = gt_eq("id", 1000)


@dataclass(frozen=True)
class Scenario:
    """``operation`` is made from the starting snapshot's id; ``others`` are made from the head's before each. ``refused`` is how the
    message begins; None: it commits."""

    name: str
    operation: Callable[[int], Any]
    others: tuple[Callable[[int], Any], ...] = ()
    refused: str | None = None
    versions: tuple[int, ...] = (2, 3)
    since_others: bool = False
    """The operation starts after what the others did."""


def run(scenario: Scenario, version: int, on: Callable[[Any], object] | None = None) -> Table:
    """Play it; the table afterwards. ``on`` is called with the catalog first. Raises what the operation raises."""
    catalog = copied(_begun(version)) if on is None else _new(version, on)
    table = catalog.load_table(IDENTIFIER)
    start = _head(table)
    for other in scenario.others:
        table = catalog.load_table(IDENTIFIER)
        commit(catalog, table, other(_head(table)))
    if scenario.since_others:
        start = _head(catalog.load_table(IDENTIFIER))
    commit(catalog, table, scenario.operation(start), sleep=lambda _: None)
    return catalog.load_table(IDENTIFIER)


@cache
def _begun(version: int) -> MemoryCatalog:
    return _new(version, lambda catalog: None)


def _new(version: int, on: Callable[[Any], object]) -> MemoryCatalog:
    catalog = make_catalog()
    on(catalog)
    table = make_table(catalog, version=version, partitioned=True)
    commit(catalog, table, AppendFiles(added=(A, A2, B)))
    return catalog


def _head(table: Table) -> int:
    assert table.metadata.current_snapshot_id is not None
    return table.metadata.current_snapshot_id


def append(*files: DataFile) -> Callable[[int], Any]:
    return lambda start: AppendFiles(added=files)


def remove(*paths: str) -> Callable[[int], Any]:
    return lambda start: DeleteFiles(paths=paths)


def delta(start_isolation: Any = "serializable", **fields: Any) -> Callable[[int], Any]:
    return lambda start: RowDelta(starting_snapshot_id=start, isolation=start_isolation, **fields)


def overwrite(**fields: Any) -> Callable[[int], Any]:
    return lambda start: OverwriteFiles(starting_snapshot_id=start, **fields)


def rewrite(*removed: DataFile, number: int | None = None, **fields: Any) -> Callable[[int], Any]:
    return lambda start: RewriteFiles(
        removed_data=removed, added_data=(NEW,), starting_snapshot_id=start, data_sequence_number=number, **fields
    )


def replace_partitions(**fields: Any) -> Callable[[int], Any]:
    return lambda start: ReplacePartitions(added=(NEW,), starting_snapshot_id=start, **fields)


def deletes(version: int, of: str, name: str = "d") -> DataFile:
    return position_deletes(name, of, partition=EU) if version == 2 else deletion_vector(name, of, partition=EU)


def positions(of: str, name: str = "d") -> Callable[[int], Any]:
    return delta(None, added_deletes=(position_deletes(name, of, partition=EU),))


def vector(of: str, name: str = "v", partition: tuple[str, ...] = EU, **fields: Any) -> Callable[[int], Any]:
    return delta(None, added_deletes=(deletion_vector(name, of, partition=partition),), **fields)


def equality(partition: tuple[str, ...] = EU, ids: tuple[int, int] = (0, 9), name: str = "e") -> Callable[[int], Any]:
    return delta(None, added_deletes=(equality_deletes(name, partition=partition, ids=ids),))


@dataclass(frozen=True, kw_only=True)
class Foreign(RowDelta):
    """What another engine commits, which validates nothing."""

    def validate(self, table: Table, history: Any) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class SchemaSetBack(MetadataOperation):
    """An older schema is made current again, as REST allows."""

    schema_id: int = 0
    of: int | None = None
    """The schema that it takes the place of; None: whichever."""
    name: str = "set_current_schema"

    def stage(self, prepared: Any, table: Table) -> StagedCommit:
        if self.of is not None and table.metadata.current_schema_id not in (self.of, self.schema_id):
            raise ValidationError(f"Cannot set schema {self.schema_id}: the table has another one than {self.of} by now")
        if table.metadata.current_schema_id == self.schema_id:
            return StagedCommit()
        return staged_updates(table.metadata, SetCurrentSchema(self.schema_id), run=self.run)


@dataclass(frozen=True, kw_only=True)
class Replaced(MetadataOperation):
    """Another engine replaces the table (CREATE OR REPLACE TABLE): its uuid stays, columns have the ids of those of their names.
    ``is_empty``: main begins again, without a snapshot."""

    schema: Schema
    is_empty: bool = False
    name: str = "replace_table"

    def stage(self, prepared: Any, table: Table) -> StagedCommit:
        gone = (RemoveSnapshotRef("main"),) if self.is_empty and table.metadata.current_snapshot_id is not None else ()
        return staged_updates(table.metadata, AddSchema(self.schema), SetCurrentSchema(LAST_ADDED), *gone)


def foreign_equality(partition: tuple[str, ...] = EU, ids: tuple[int, int] = (0, 9)) -> Callable[[int], Any]:
    return lambda start: Foreign(added_deletes=(equality_deletes("e", partition=partition, ids=ids),), isolation=None)


V2, V3, ALL = (2,), (3,), (1, 2, 3)
DROP_ID = (lambda start: UpdateSchema(schema=Schema.of(*SCHEMA.fields[1:])),)
SET_BACK = (lambda start: SchemaSetBack(),)
MORE = (lambda start: UpdateSchema(schema=Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG))),)
RETYPED_SCHEMA = Schema.of(SCHEMA.fields[0], NestedField(2, "data", LONG), SCHEMA.fields[2])
RETYPED = (lambda start: Replaced(schema=RETYPED_SCHEMA),)
DEMANDING = (lambda start: Replaced(schema=Schema.of(*SCHEMA.fields, NestedField(4, "more", LONG, True))),)
STRICT = (lambda start: Replaced(schema=Schema.of(SCHEMA.fields[0], NestedField(2, "data", STRING, True), SCHEMA.fields[2])),)
OTHER_TYPE = (
    "Cannot commit, column 'data' (field 2) is of type long, and was string when files were written that this commit adds: new"
)
NOT_COPIED = "Cannot commit, found new equality delete by columns [1] that the copies of replaced data file lack: a"
CAME_BACK = "Cannot commit, column 'id' (field 1, long) came back by schema 0"
UPDATE_2 = {"added_deletes": (position_deletes("p", "a", partition=EU),), "added_data": (NEW,)}
UPDATE_3 = {"added_deletes": (deletion_vector("p", "a", partition=EU),), "added_data": (NEW,)}
GONE = "Missing required files to delete"
NEW_DELETE = "Cannot commit, found new delete for replaced data file"
NEW_POSITION_DELETE = "Cannot commit, found new position delete for replaced data file"
UNSEEN = "Found conflicting files that can contain records matching"
NEW_CONFLICTING = "Found new conflicting delete files"
VANISHED = "Found conflicting deleted files"
MISSING = "Cannot commit, missing data files"
OTHER_IDS = "Cannot commit, rows got their ids after they were read"
CONCURRENT_DV = "Found concurrently added DV for a"
UPGRADE = (lambda start: UpgradeFormatVersion(format_version=3),)
PLAIN_REWRITE = (lambda start: RewriteFiles(removed_data=(A,), added_data=(LATE,), starting_snapshot_id=start),)

TO_PLAIN = (lambda start: UpdateSpec(spec=PartitionSpec(1, ())),)
NEW_PLAIN = data_file("new", spec_id=1, ids=(0, 9))
LATE_PLAIN = data_file("late", spec_id=1, ids=(0, 9))
TO_DATA = (lambda start: UpdateSpec(spec=PartitionSpec(1, (PartitionField((2,), 1001, IDENTITY, "data"),))),)
ADDED_AGAIN = "Cannot commit, a data file that is deleted from by position was added again concurrently: a"
ADDED_MEANWHILE = "Cannot add a file that was added concurrently: new"
LEFT_BEHIND = "Cannot commit, found new equality delete that does not reach the new partition spec"
CAUGHT_UP = "Cannot commit, found new equality delete in the partition spec that rows are moved to"
OUT_OF_REACH = "Cannot commit equality deletes of partition specs [0]: the branch has rows of partition spec 1"
UPSERT = {"added_deletes": (equality_deletes("u", partition=EU),), "added_data": (NEW,), "upserts": True}


def rewrite_to_plain(**fields: Any) -> Callable[[int], Any]:
    return lambda start: RewriteFiles(removed_data=(A,), added_data=(NEW_PLAIN,), starting_snapshot_id=start, **fields)


def rewrite_by_data(**fields: Any) -> Callable[[int], Any]:
    moved = data_file("new", partition=("x",), spec_id=1, ids=(0, 9))
    return lambda start: RewriteFiles(removed_data=(A,), added_data=(moved,), starting_snapshot_id=start, **fields)


def equality_by_data(value: str) -> Callable[[int], Any]:
    return delta(None, added_deletes=(equality_deletes("e", partition=(value,), spec_id=1, ids=(0, 9)),))


READ = "Found a change of rows that the statement read"
READS: tuple[tuple[str, Callable[[Any], Callable[[int], Any]], tuple[int, ...]], ...] = (
    ("replace partitions by its own rows", lambda isolation: replace_partitions(reads_table=True, isolation=isolation), ALL),
    (
        "overwrite filter by its own rows",
        lambda isolation: overwrite(added=(NEW,), overwrite_filter=IN_EU, reads_table=True, isolation=isolation),
        ALL,
    ),
    (
        "overwrite files by other rows",
        lambda isolation: overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU, reads_table=True, isolation=isolation),
        ALL,
    ),
    (
        "delta, delete by other rows",
        lambda isolation: delta(
            isolation, added_deletes=(position_deletes("p", "a", partition=EU),), conflict_filter=IN_EU, reads_table=True
        ),
        V2,
    ),
    (
        "delta, delete by other rows, by a vector",
        lambda isolation: delta(
            isolation, added_deletes=(deletion_vector("p", "a", partition=EU),), conflict_filter=IN_EU, reads_table=True
        ),
        V3,
    ),
    ("upsert by its own rows", lambda isolation: delta(isolation, **UPSERT, reads_table=True), (2, 3)),
)


SCENARIOS: tuple[Scenario, ...] = (
    # imports
    Scenario("import: a file of it was added meanwhile", lambda s: AppendFiles(added=(NEW,), only_new=True, starting_snapshot_id=s), (append(NEW),), ADDED_MEANWHILE, ALL),
    Scenario("import: a file of it came and went meanwhile", lambda s: AppendFiles(added=(NEW,), only_new=True, starting_snapshot_id=s), (append(NEW), remove("new")), ADDED_MEANWHILE, ALL),
    Scenario("import: other files were added meanwhile", lambda s: AppendFiles(added=(NEW,), only_new=True, starting_snapshot_id=s), (append(LATE),), None, ALL),
    Scenario("import: a file of it was there before it started", lambda s: AppendFiles(added=(NEW,), only_new=True, starting_snapshot_id=s), (append(NEW), remove("new")), None, ALL, since_others=True),
    # partition specs that change meanwhile
    Scenario("rewrite to another spec: an equality delete of the old one", rewrite_to_plain(data_sequence_number=1), (*TO_PLAIN, equality()), LEFT_BEHIND),
    Scenario("rewrite to another spec: an equality delete of the old one beside one of every spec", rewrite_to_plain(data_sequence_number=1), (*TO_PLAIN, delta(None, added_deletes=(equality_deletes("g", spec_id=1, ids=(0, 9)),)), equality()), LEFT_BEHIND),
    Scenario("rewrite to another spec: an equality delete of another partition", rewrite_to_plain(data_sequence_number=1), (*TO_PLAIN, equality(US))),
    Scenario("rewrite to another spec: an equality delete of every spec", rewrite_to_plain(data_sequence_number=1), (*TO_PLAIN, delta(None, added_deletes=(equality_deletes("e", spec_id=1, ids=(0, 9)),)))),
    Scenario("rewrite to another spec: an equality delete of that one", rewrite_by_data(data_sequence_number=1), (*TO_DATA, equality_by_data("x")), CAUGHT_UP),
    Scenario("rewrite to another spec: an equality delete elsewhere in that one", rewrite_by_data(data_sequence_number=1), (*TO_DATA, equality_by_data("y"))),
    Scenario("rewrite to another spec: rows of its own number", rewrite_to_plain(), (*TO_PLAIN, equality()), NEW_DELETE),
    Scenario("upsert: rows came in another spec", delta(None, **UPSERT), (*TO_PLAIN, append(LATE_PLAIN)), OUT_OF_REACH),
    Scenario("upsert: rows of another spec came and went", delta(None, **UPSERT), (*TO_PLAIN, append(LATE_PLAIN), remove("late"))),
    Scenario("upsert: the spec changed, and no row is in it", delta(None, **UPSERT), TO_PLAIN),
    Scenario("upsert: its deletes reach every spec", lambda s: RowDelta(added_deletes=(equality_deletes("u", spec_id=1),), added_data=(NEW,), upserts=True, isolation=None), (*TO_PLAIN, append(LATE_PLAIN)), since_others=True),
    Scenario("delta: equality deletes of one spec are the caller's wish", delta(None, added_deletes=UPSERT["added_deletes"], added_data=(NEW,)), (*TO_PLAIN, append(LATE_PLAIN))),
    # rewrite files
    Scenario("rewrite: an append meanwhile is no conflict", rewrite(A, A2), (append(LATE),), versions=ALL),
    Scenario("rewrite: a file that was deleted cannot be replaced", rewrite(A, A2), (remove("a"),), GONE, ALL),
    Scenario("rewrite: a file that was rewritten cannot be replaced", rewrite(A, A2), PLAIN_REWRITE, GONE, ALL),
    Scenario("rewrite: new position delete for a replaced file", rewrite(A), (positions("a"),), NEW_DELETE, V2),
    Scenario("rewrite: new position delete for another file", rewrite(A), (positions("a2"),), None, V2),
    Scenario("rewrite: new vector for a replaced file", rewrite(A), (vector("a"),), NEW_DELETE, V3),
    Scenario("rewrite: new vector for another file", rewrite(A), (vector("a2"),), None, V3),
    Scenario("rewrite: new equality delete in the partition", rewrite(A), (equality(),), NEW_DELETE),
    Scenario("rewrite: new equality delete in another partition", rewrite(A), (equality(US),)),
    Scenario("rewrite: new equality delete of other values", rewrite(A), (equality(ids=(50, 60)),)),
    Scenario("rewrite: equality deletes stay valid at the old number", rewrite(A, number=1), (equality(),)),
    Scenario("rewrite: positions do not, whatever the number", rewrite(A, number=1), (positions("a"),), NEW_POSITION_DELETE, V2),
    Scenario("rewrite: an equality delete by a column that its copies lack", rewrite(A, number=1), (*DROP_ID, foreign_equality()), NOT_COPIED),
    Scenario("rewrite: an equality delete by such a column, whatever values its files hold", rewrite(A, number=1), (*DROP_ID, foreign_equality(ids=(50, 60))), NOT_COPIED),
    Scenario("rewrite: an equality delete by such a column, in another partition", rewrite(A, number=1), (*DROP_ID, foreign_equality(US))),
    Scenario("rewrite: an equality delete by a column that was dropped after its copies were written", rewrite(A, number=1), (equality(), *DROP_ID)),
    Scenario("rewrite: a column came back that its copies lack", rewrite(A), (*DROP_ID, *SET_BACK), CAME_BACK, ALL),
    Scenario("rewrite: a column came back before it started", rewrite(A), (*DROP_ID, *SET_BACK, append(LATE)), None, ALL),
    Scenario("rewrite: a new column", rewrite(A), MORE, None, ALL),
    Scenario("rewrite: a dropped column", rewrite(A), DROP_ID, None, ALL),
    Scenario(
        "rewrite: a partition-scoped position delete may be for any file of it",
        rewrite(A),
        (delta(None, added_deletes=(position_deletes("d", partition=EU),)),),
        NEW_DELETE,
        V2,
    ),
    Scenario(
        "rewrite: a replaced delete file that someone else replaced",
        lambda start: RewriteFiles(removed_deletes=(position_deletes("nope", "a", partition=EU),), starting_snapshot_id=start),
        (),
        GONE,
        V2,
    ),
    Scenario("rewrite: two vectors in the window for another file", rewrite(A), (vector("a2"), lambda s: RowDelta(
        starting_snapshot_id=s, isolation=None, removed_deletes=(deletion_vector("v", "a2", partition=EU),),
        added_deletes=(deletion_vector("w", "a2", partition=EU),))), None, V3),
    Scenario(
        "rewrite: more rows than were replaced",
        lambda start: RewriteFiles(removed_data=(A,), added_data=(data_file("new", rows=11, partition=EU),), starting_snapshot_id=start),
        (),
        "Invalid REPLACE operation: 11 added records > 10 replaced records",
        ALL,
    ),
    Scenario(
        "rewrite: its deletes were to go because of a commit that was rolled back",
        lambda s: RewriteFiles(
            removed_data=(A,), added_data=(LATE,), removed_deletes=(position_deletes("p", "a", partition=EU),), builds_on=(7,), starting_snapshot_id=s
        ),
        (),
        "Cannot commit, what was replaced was rolled back",
        V2,
    ),
    Scenario("rewrite: rows got their ids meanwhile", rewrite(A), (*UPGRADE, append(LATE_US)), OTHER_IDS, (1, 2)),
    Scenario("rewrite: the table became v3, and nothing has ids yet", rewrite(A), UPGRADE, None, (1, 2)),
    Scenario("rewrite: rows had their ids before it started", rewrite(A), (*UPGRADE, append(LATE_US)), None, (1, 2), since_others=True),
    # overwrite files
    Scenario("overwrite files: rows got their ids meanwhile", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (*UPGRADE, append(LATE_US)), OTHER_IDS, (1, 2)),
    Scenario("overwrite files: a column came back that its copies lack", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (*DROP_ID, *SET_BACK), CAME_BACK, ALL),
    Scenario("overwrite files: a column came back, and nothing was copied", overwrite(removed=(A,), conflict_filter=IN_EU), (*DROP_ID, *SET_BACK), None, ALL),
    Scenario("overwrite files: an append that may match", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (append(LATE),), UNSEEN, ALL),
    Scenario("overwrite files: an append elsewhere", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (append(LATE_US),), None, ALL),
    Scenario("overwrite files: an append of other values", overwrite(removed=(A,), added=(NEW,), conflict_filter=LOW_EU), (append(LATE_FAR),), None, ALL),
    Scenario("overwrite files: without a filter every append counts", overwrite(removed=(A,), added=(NEW,)), (append(LATE_US),), UNSEEN, ALL),
    Scenario("overwrite files, snapshot: appends do not matter", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (append(LATE),), None, ALL),
    Scenario("overwrite files: the file is gone", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (remove("a"),), GONE, ALL),
    Scenario("overwrite files: new delete of its rows", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (positions("a"),), NEW_DELETE, V2),
    Scenario("overwrite files: new vector of its rows", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (vector("a"),), NEW_DELETE, V3),
    Scenario("overwrite filter: an append that matches", overwrite(added=(NEW,), overwrite_filter=IN_EU), (append(LATE),), UNSEEN, ALL),
    Scenario("overwrite filter: an append elsewhere", overwrite(added=(NEW,), overwrite_filter=IN_EU), (append(LATE_US),), None, ALL),
    Scenario("overwrite filter: matching rows were deleted", overwrite(added=(NEW,), overwrite_filter=IN_EU), (equality(),), NEW_CONFLICTING),
    Scenario("overwrite filter: rows elsewhere were deleted", overwrite(added=(NEW,), overwrite_filter=IN_EU), (equality(US),)),
    Scenario("overwrite filter: a matching file was deleted", overwrite(added=(NEW,), overwrite_filter=IN_EU), (remove("a"),), VANISHED, ALL),
    Scenario("overwrite filter: another file was deleted", overwrite(added=(NEW,), overwrite_filter=IN_EU), (remove("b"),), None, ALL),
    Scenario("overwrite filter: a file that matches partly", overwrite(overwrite_filter=lt("id", 5)), (), "Cannot delete file where some", ALL),
    Scenario(
        "overwrite filter: a new file outside it",
        overwrite(added=(NEW,), overwrite_filter=IN_US, only_matching=True),
        (),
        "Cannot append file with rows that do not match filter",
        ALL,
    ),
    Scenario("overwrite filter: a new file inside it", overwrite(added=(NEW,), overwrite_filter=IN_EU, only_matching=True), (), None, ALL),
    # replace partitions
    Scenario("replace partitions: an append to one", replace_partitions(), (append(LATE),), UNSEEN, ALL),
    Scenario("replace partitions: an append to another", replace_partitions(), (append(LATE_US),), None, ALL),
    Scenario("replace partitions, snapshot: appends do not matter", replace_partitions(isolation="snapshot"), (append(LATE),), None, ALL),
    Scenario("replace partitions: a file of one was removed", replace_partitions(isolation="snapshot"), (remove("a"),), VANISHED, ALL),
    Scenario("replace partitions: a file of another was removed", replace_partitions(isolation="snapshot"), (remove("b"),), None, ALL),
    Scenario("replace partitions: rows of one were deleted", replace_partitions(isolation="snapshot"), (equality(),), NEW_CONFLICTING),
    Scenario("replace partitions: rows of another were deleted", replace_partitions(isolation="snapshot"), (equality(US),)),
    Scenario("replace partitions: it must be empty and is not", replace_partitions(append_only=True), (), "Cannot commit file that conflicts", ALL),
    # row delta
    Scenario("delta, delete: an append that may match", delta(added_deletes=(position_deletes("p", "a", partition=EU),), conflict_filter=IN_EU), (append(LATE),), UNSEEN, V2),
    Scenario("delta, delete: an append elsewhere", delta(added_deletes=(position_deletes("p", "a", partition=EU),), conflict_filter=IN_EU), (append(LATE_US),), None, V2),
    Scenario("delta, snapshot: appends do not matter", delta("snapshot", **UPDATE_2, conflict_filter=IN_EU), (append(LATE),), None, V2),
    Scenario("delta, delete: its file was rewritten", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), PLAIN_REWRITE, MISSING, V2),
    Scenario("delta, delete: its file was deleted with all rows", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (remove("a"),), None, V2),
    Scenario("delta, delete: its file was overwritten", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (overwrite(removed=(A,), added=(LATE,), isolation=None),), MISSING, V2),
    Scenario("delta, update: its file was deleted", delta("snapshot", **UPDATE_2, referenced_data_files=("a",)), (remove("a"),), MISSING, V2),
    Scenario("delta, update: its rows were deleted", delta("snapshot", **UPDATE_2, conflict_filter=IN_EU), (positions("a"),), NEW_CONFLICTING, V2),
    Scenario("delta, update: rows elsewhere were deleted", delta("snapshot", **UPDATE_2, conflict_filter=IN_EU), (equality(US),), None, V2),
    Scenario("delta, update: a vector's file was rewritten", delta("snapshot", **UPDATE_3), PLAIN_REWRITE, MISSING, V3),
    Scenario("delta: a vector for the same file", vector("a", "mine"), (vector("a"),), CONCURRENT_DV, V3),
    Scenario("delta: a vector for another file", vector("a", "mine"), (vector("a2"),), None, V3),
    Scenario("delta: a vector for the same file, outside the filter", vector("a", "mine", conflict_filter=IN_US), (vector("b", partition=US),), None, V3),
    Scenario("delta: a removed file is also deleted from", delta("snapshot", added_deletes=(deletion_vector("p", "a", partition=EU),), removed_data=(A,)), (), "Cannot delete data files", V3),
    Scenario("delta: a removed file got deletes", delta("snapshot", added_data=(NEW,), removed_data=(A,), conflict_filter=OUTSIDE), (positions("a"),), NEW_DELETE, V2),
    Scenario("delta: a vector where there was one already", vector("a", "mine"), (vector("a"),), "Cannot add a deletion vector for a", V3, since_others=True),
    Scenario("delta: a removed file is gone", delta("snapshot", added_data=(NEW,), removed_data=(A,), conflict_filter=OUTSIDE), (remove("a"),), GONE, ALL),
    Scenario("delta: position deletes on a table that became v3", positions("a"), (lambda s: UpgradeFormatVersion(format_version=3),), "Cannot commit, the table was upgraded from v2 to v3: Must use DVs for position deletes in V3: d", V2),
    Scenario("delta: position deletes on v3", positions("a"), (), "Must use DVs for position deletes in V3: d", V3),
    Scenario("delta: a vector on v2", vector("a"), (), "Must not use DVs for position deletes in V2", V2),
    Scenario("delta: deletes on v1", equality(), (), "Deletes are not supported in V1", (1,)),
    Scenario("delta: equality deletes by a dropped column", equality(), (lambda s: UpdateSchema(schema=Schema.of(*SCHEMA.fields[1:])),), "Cannot commit e: its equality field 1", V2),
    Scenario("delta, update: rows got their ids meanwhile", delta("snapshot", **UPDATE_3, referenced_data_files=("a",)), (*UPGRADE, append(LATE_US)), OTHER_IDS, V2),
    Scenario("delta, update: the table became v3, and nothing has ids yet", delta("snapshot", **UPDATE_3, referenced_data_files=("a",)), UPGRADE, None, V2),
    Scenario("delta, update: rows had their ids before it started", delta("snapshot", **UPDATE_3, referenced_data_files=("a",)), (*UPGRADE, append(LATE_US)), None, V2, since_others=True),
    Scenario("delta, update: a column came back that its rows lack", delta("snapshot", **UPDATE_2, referenced_data_files=("a",)), (*DROP_ID, *SET_BACK), CAME_BACK, V2),
    Scenario("delta, delete: a column came back, and no row was written again", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (*DROP_ID, *SET_BACK), None, V2),
    Scenario("delta, rows only: the start is not an ancestor", lambda s: RowDelta(added_data=(NEW,), isolation="snapshot", starting_snapshot_id=7), (), "Cannot determine history", ALL),
    Scenario("delta, rows only, nothing validated: the start is not an ancestor", lambda s: RowDelta(added_data=(NEW,), isolation=None, starting_snapshot_id=7), (), None, ALL),
    Scenario("delta, delete: its file was added again", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (append(A),), ADDED_AGAIN, V2),
    Scenario("delta, nothing validated: a vector's file was added again", vector("a"), (append(A),), ADDED_AGAIN, V3),
    # near misses of row deltas
    Scenario("delta, delete: its file was added again before it started", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (append(A),), None, V2, since_others=True),
    Scenario("delta, delete: another file was added again", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (append(A2),), None, V2),
    Scenario("delta, delete: its file's partition was replaced", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), (replace_partitions(isolation=None),), MISSING, V2),
    Scenario("delta, delete: its file was replaced before it started", delta("snapshot", added_deletes=(position_deletes("p", "a", partition=EU),), referenced_data_files=("a",)), PLAIN_REWRITE, None, V2, since_others=True),
    Scenario("delta, update: a referenced file was removed, wherever the filter looks", delta("snapshot", **UPDATE_2, referenced_data_files=("b",), conflict_filter=IN_EU), (remove("b"),), MISSING, V2),
    Scenario("delta, update: a referenced file inside the filter was removed", delta("snapshot", **UPDATE_2, referenced_data_files=("b",), conflict_filter=IN_US), (remove("b"),), MISSING, V2),
    Scenario("delta: a matching append before it started", delta(added_deletes=(position_deletes("p", "a", partition=EU),), conflict_filter=IN_EU), (append(LATE),), None, V2, since_others=True),
    Scenario("delta, nothing validated: a removed file is gone", delta(None, added_data=(NEW,), removed_data=(A,)), (remove("a"),), None, ALL),
    Scenario("delta: a vector for the same partition, inside the filter", vector("a", "mine", conflict_filter=IN_EU), (vector("a"),), CONCURRENT_DV, V3),
    Scenario("delta: a vector in another partition, with a filter", vector("a", "mine", conflict_filter=IN_EU), (vector("b", partition=US),), None, V3),
    Scenario("delta: a filter by a column in another case", delta(added_data=(NEW,), conflict_filter=eq("REGION", "eu"), case_sensitive=True), (append(LATE),), "no column named 'REGION'", ALL),
    Scenario("delta: a filter by a column whatever its case", delta(added_data=(NEW,), conflict_filter=eq("REGION", "us")), (append(LATE),), None, ALL),
    Scenario("overwrite files, rows only: the start is not an ancestor", lambda s: OverwriteFiles(added=(NEW,), isolation="snapshot", starting_snapshot_id=7), (), "Cannot determine history", ALL),
    # near misses of overwrites and rewrites
    Scenario("overwrite files, nothing validated: appends do not matter", overwrite(removed=(A,), added=(NEW,), isolation=None), (append(LATE),), None, ALL),
    Scenario("overwrite files: another file was deleted", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (remove("b"),), None, ALL),
    Scenario("overwrite files: an append before it started", overwrite(removed=(A,), added=(NEW,), conflict_filter=IN_EU), (append(LATE),), None, ALL, since_others=True),
    Scenario("overwrite files: rows elsewhere were deleted", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (equality(US),)),
    Scenario("overwrite files: rows of other values were deleted", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (equality(ids=(50, 60)),)),
    Scenario("overwrite files: equality deletes of its rows", overwrite(removed=(A,), added=(NEW,), isolation="snapshot"), (equality(),), NEW_DELETE),
    Scenario("overwrite filter: position deletes of matching rows", overwrite(added=(NEW,), overwrite_filter=IN_EU), (positions("a"),), NEW_CONFLICTING, V2),
    Scenario("overwrite filter: a column in another case", overwrite(added=(NEW,), overwrite_filter=eq("REGION", "eu"), case_sensitive=True), (), "no column named 'REGION'", ALL),
    Scenario("overwrite filter: a column whatever its case", overwrite(added=(NEW,), overwrite_filter=eq("REGION", "eu")), (), None, ALL),
    Scenario("rewrite: deletes from before it started", rewrite(A), (positions("a"),), None, V2, since_others=True),
    Scenario("rewrite: vectors from before it started", rewrite(A), (vector("a"),), None, V3, since_others=True),
    Scenario("replace partitions, nothing validated: whatever others do", replace_partitions(isolation=None), (append(LATE), remove("a")), None, ALL),
    Scenario("replace partitions: position deletes in one", replace_partitions(isolation="snapshot"), (positions("a"),), NEW_CONFLICTING, V2),
    Scenario("replace partitions: since the beginning of the table", lambda s: ReplacePartitions(added=(NEW,)), (), UNSEEN, ALL),
    Scenario("replace partitions: an empty one, append-only", lambda s: ReplacePartitions(added=(data_file("n", partition=("asia",)),), starting_snapshot_id=s, append_only=True), (append(LATE),), None, ALL),
    # a table that another engine replaces
    Scenario("append: a column has another type", append(NEW), RETYPED, OTHER_TYPE, ALL),
    Scenario("append: a column got another type before it started", append(NEW), (*RETYPED, append(LATE)), None, ALL),
    Scenario("append: a new column must have values", append(NEW), DEMANDING, "Cannot commit, column 'more' (field 4) is required, and was not there", ALL),
    Scenario("append: a column must have values", append(NEW), STRICT, "Cannot commit, column 'data' (field 2) is required, and was not when", ALL),
    Scenario("append: a column must have values, and has them", append(FULL), STRICT, None, ALL),
    Scenario("append: a new column", append(NEW), MORE, None, ALL),
    Scenario("append: a dropped column", append(NEW), DROP_ID, None, ALL),
    Scenario("overwrite, nothing validated: a column has another type", overwrite(added=(NEW,), isolation=None), RETYPED, OTHER_TYPE, ALL),
    Scenario("replace partitions, nothing validated: a column has another type", replace_partitions(isolation=None), RETYPED, OTHER_TYPE, ALL),
    Scenario("delta, nothing validated: a column has another type", delta(None, added_data=(NEW,)), RETYPED, OTHER_TYPE, ALL),
    Scenario("delta, equality deletes alone: a column that they do not compare has another type", equality(), RETYPED),
    Scenario("delta, equality deletes alone: their column has another type", equality(), (lambda s: Replaced(schema=Schema.of(NestedField(1, "id", STRING, True), *SCHEMA.fields[1:])),), "Cannot commit, column 'id' (field 1) is of type string, and was long"),
    # what was made of, or chosen by, any rows of the table
    *(scenario for kind, make, versions in READS for scenario in (
        Scenario(f"{kind}: rows that it read were added to", make("serializable"), (append(LATE_US),), READ, versions),
        Scenario(f"{kind}, snapshot: rows were added", make("snapshot"), (append(LATE_US),), None, versions),
        Scenario(f"{kind}: a file that it read was removed", make("serializable"), (remove("b"),), READ, versions),
        Scenario(f"{kind}, snapshot: a file that it read was removed", make("snapshot"), (remove("b"),), READ, versions),
        Scenario(f"{kind}: a file that it read was overwritten", make("snapshot"), (overwrite(removed=(B,), added=(LATE_US,), isolation=None),), READ, versions),
        Scenario(f"{kind}: rows that it read were deleted", make("serializable"), (equality(US),), READ, tuple(v for v in versions if v > 1)),
        Scenario(f"{kind}, snapshot: rows that it read were deleted by a vector", make("snapshot"), (vector("b", partition=US),), READ, V3 if 3 in versions else ()),
        Scenario(f"{kind}: a file that it read was rewritten", make("serializable"), (lambda s: RewriteFiles(removed_data=(B,), added_data=(LATE_US,), starting_snapshot_id=s),), None, versions),
        Scenario(f"{kind}: what came before it started", make("serializable"), (append(LATE_US), remove("b")), None, versions, since_others=True),
        Scenario(f"{kind}, nothing validated: whatever others do", make(None), (append(LATE_US), remove("b")), None, versions),
    )),
    # others
    Scenario("append: whatever others do", append(NEW), (remove("a"), append(LATE)), None, ALL),
    Scenario("delete: a file that is gone, required", lambda s: DeleteFiles(paths=("a",), must_exist=True), (remove("a"),), GONE, ALL),
    Scenario("delete: a file that is gone, not required", lambda s: DeleteFiles(paths=("a",)), (remove("a"),), None, ALL),
    Scenario("delete: a filter that matches partly", lambda s: DeleteFiles(filter=lt("id", 5)), (), "Cannot delete file where some", ALL),
    Scenario("delete: by value, required, gone", lambda s: DeleteFiles(files=(A,), must_exist=True), (remove("a"),), GONE, ALL),
    Scenario("delete: a filter by values alone", lambda s: DeleteFiles(filter=and_(gt_eq("id", 10), lt("id", 20))), (), None, ALL),
    Scenario("delete: a filter by partition and values", lambda s: DeleteFiles(filter=LOW_EU), (), None, ALL),
    Scenario("delete: a filter by a column in another case", lambda s: DeleteFiles(filter=eq("REGION", "eu"), case_sensitive=True), (), "no column named 'REGION'", ALL),
    Scenario("delete: a filter by a column whatever its case", lambda s: DeleteFiles(filter=eq("REGION", "eu")), (), None, ALL),
    Scenario("delete: whatever others append", lambda s: DeleteFiles(filter=IN_EU), (append(LATE),), None, ALL),
    Scenario("rewrite manifests: whatever others do", lambda s: RewriteManifests(), (append(LATE), remove("a")), None, ALL),
    Scenario("cherry-pick: an ancestor", lambda s: CherryPick(snapshot_id=s), (append(LATE),), "Cannot cherrypick snapshot", ALL),
    Scenario("history: the start is not an ancestor", lambda s: RewriteFiles(removed_data=(A,), added_data=(NEW,), starting_snapshot_id=7), (), "Cannot determine history", (2, 3)),
)  # fmt: skip
