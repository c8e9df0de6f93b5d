"""Two commits at the same time leave the table as they do one after another, in one of the two orders, whatever parts of it they
change.

One is committed between the stage and the swap of the other. So every value that an operation computes from the loaded table must
be a requirement of its swap, or must not matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.metadata_updates import (
    UpdateLocation,
    UpdateProperties,
    UpdateSchema,
    UpdateSortOrder,
    UpdateSpec,
    UpdateStatistics,
    UpgradeFormatVersion,
)
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.validation.mapped_names import AddMappedNames
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.errors import IcebergOpsError, NoSuchSnapshotError, ValidationError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, SCHEMA, copied, data_file, equality_deletes, live_files, make_catalog, make_table
from tests.catalog.wrappers import Meddles
from tests.commit.scenarios import RETYPED_SCHEMA, Replaced

WIDER = Schema.of(*SCHEMA.fields, NestedField(4, "more", INT))
RENAMED = Schema.of(NestedField(1, "number", LONG, True), *SCHEMA.fields[1:])
KEYLESS = Schema.of(*SCHEMA.fields[1:])
NARROWER = Schema.of(SCHEMA.fields[0], NestedField(3, "region", STRING))
BY_REGION = PartitionSpec(1, (PartitionField((3,), 1000, IDENTITY, "region"),))
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
SETTINGS = {"write.metadata.metrics.column.data": "full", "write.metadata.metrics.column.id": "counts"}


@dataclass(frozen=True)
class Begun:
    """The table, and ids of snapshots: the first and the head of main, one that is staged, and the head of branch ``ahead``."""

    table: Table
    first: int
    head: int
    staged: int
    ahead: int


def begun() -> tuple[MemoryCatalog, Begun]:
    """A catalog of its own for whoever asks; the table in it was written once, for all of them."""
    catalog, at = _begun()
    made = copied(catalog)
    return made, replace(at, table=made.load_table(IDENTIFIER))


@cache
def _begun() -> tuple[MemoryCatalog, Begun]:
    catalog = make_catalog()
    table = make_table(catalog)
    ids: list[int] = []
    for name, fields in (
        ("a", {}),
        ("b", {}),
        ("staged", {"staged": True, "summary": {"wap.id": "w"}}),
        ("ahead", {"branch": "ahead"}),
    ):
        append = AppendFiles(added=(data_file(name),), merge=False, **fields)
        table = commit(catalog, table, append).table
        ids.append(table.metadata.snapshots[-1].snapshot_id)
    table = commit(catalog, table, SetRef(ref="old", snapshot_id=ids[0], type="tag")).table
    table = commit(catalog, table, UpdateProperties(updates={"write.metadata.metrics.column.data": "none"})).table
    return catalog, Begun(table, *ids)


def statistics(name: str, snapshot_id: int) -> PartitionStatisticsFile:
    return PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path=name, file_size_in_bytes=1)


def added(name: str, at: Begun) -> dict[str, Any]:
    return {"added": (data_file(name),), "starting_snapshot_id": at.head}


OPERATIONS: dict[str, Callable[[str, Begun], Operation]] = {
    "append": lambda name, at: AppendFiles(**added(name, at)),
    "append ahead": lambda name, at: AppendFiles(added=(data_file(name),), branch="ahead"),
    "append to a new branch": lambda name, at: AppendFiles(branch="new", **added(name, at)),
    "staged append": lambda name, at: AppendFiles(staged=True, **added(name, at)),
    "append under a key": lambda name, at: AppendFiles(run_key="key", **added("keyed", at)),
    "delete": lambda name, at: DeleteFiles(paths=("a",)),
    "overwrite": lambda name, at: OverwriteFiles(removed=(data_file("a"),), isolation="snapshot", **added(name, at)),
    "row delta": lambda name, at: RowDelta(
        removed_data=(data_file("b"),), added_data=(data_file(name),), isolation="snapshot", starting_snapshot_id=at.head
    ),
    "compaction": lambda name, at: RewriteFiles(
        removed_data=(data_file("a"),), added_data=(data_file(name),), starting_snapshot_id=at.head
    ),
    "rewrite of manifests": lambda name, at: RewriteManifests(),
    "publication": lambda name, at: CherryPick(wap_id="w"),
    "publication under a key": lambda name, at: CherryPick(snapshot_id=at.staged, run_key="key"),
    "expiry": lambda name, at: ExpireSnapshots(older_than_ms=2**60, clean_expired_metadata=True),
    "expiry of one": lambda name, at: ExpireSnapshots(snapshot_ids=(at.staged,), older_than_ms=0, run_key="expiry"),
    "rollback": lambda name, at: RollBack(snapshot_id=at.first),
    "set current": lambda name, at: SetCurrentSnapshot(ref="ahead"),
    "fast-forward": lambda name, at: FastForward(branch="main", to="ahead"),
    "tag": lambda name, at: SetRef(ref="tag", snapshot_id=at.head, type="tag"),
    "move of a branch": lambda name, at: SetRef(ref="ahead", snapshot_id=at.first, replace_existing=True),
    "retention of main": lambda name, at: SetRef(ref="main", min_snapshots_to_keep=7, replace_existing=True),
    "retention of main's head": lambda name, at: SetRef(
        ref="main", snapshot_id=at.head, min_snapshots_to_keep=9, replace_existing=True
    ),
    "ages of main": lambda name, at: SetRef(ref="main", max_snapshot_age_ms=10**12, replace_existing=True),
    "retention ahead": lambda name, at: SetRef(ref="ahead", min_snapshots_to_keep=7, replace_existing=True),
    "rename": lambda name, at: RenameBranch(old="ahead", new="renamed"),
    "removal of a branch": lambda name, at: RemoveRef(ref="ahead"),
    "removal of a tag": lambda name, at: RemoveRef(ref="old"),
    "settings": lambda name, at: UpdateProperties(updates=SETTINGS, removals=("gone",)),
    "settings under a key": lambda name, at: UpdateProperties(updates={"k": "v"}, run_key="key"),
    "gc off": lambda name, at: UpdateProperties(updates={"gc.enabled": "false"}),
    "move": lambda name, at: UpdateLocation(location=f"{at.table.location}-{name}"),
    "upgrade": lambda name, at: UpgradeFormatVersion(format_version=3),
    "new column": lambda name, at: UpdateSchema(schema=WIDER),
    "renamed column": lambda name, at: UpdateSchema(schema=RENAMED),
    "dropped column": lambda name, at: UpdateSchema(schema=NARROWER, keep_delete_keys=True),
    "dropped key": lambda name, at: UpdateSchema(schema=KEYLESS, keep_delete_keys=True),
    "deletes by key": lambda name, at: RowDelta(added_deletes=(equality_deletes(name),), starting_snapshot_id=at.head),
    "deletes by key on a new branch": lambda name, at: RowDelta(
        added_deletes=(equality_deletes(name),), branch="new", starting_snapshot_id=at.head
    ),
    "partitioning": lambda name, at: UpdateSpec(spec=BY_REGION),
    "replacement by another engine": lambda name, at: Replaced(schema=RETYPED_SCHEMA),
    "replacement without rows": lambda name, at: Replaced(schema=RETYPED_SCHEMA, is_empty=True),
    "sort order": lambda name, at: UpdateSortOrder(sort_order=BY_ID),
    "statistics": lambda name, at: UpdateStatistics(added_partition=(statistics(name, at.head),)),
    "statistics of the staged": lambda name, at: UpdateStatistics(added_partition=(statistics(name, at.staged),)),
    "names": lambda name, at: AddMappedNames(names={1: frozenset({name})}),
    "import": lambda name, at: Transaction(
        operations=(
            UpdateProperties(updates={name: name}),
            AddMappedNames(names={2: frozenset({name})}),
            AppendFiles(**added(name, at)),
        )
    ),
    "evolution": lambda name, at: Transaction(
        operations=(UpdateSchema(schema=WIDER), UpdateSpec(spec=BY_REGION), UpdateProperties(updates=SETTINGS))
    ),
    "tag and append": lambda name, at: Transaction(
        operations=(SetRef(ref="before", snapshot_id=at.head, type="tag"), AppendFiles(**added(name, at)))
    ),
}


def tried(catalog: Any, table: Table, operation: Operation, raised: list[str]) -> None:
    """Commit it; its error is recorded. A snapshot that is gone is a refusal, whether the operation or the catalog notices it."""
    try:
        commit(catalog, table, operation, sleep=lambda _: None)
    except IcebergOpsError as e:
        raised.append("refused" if isinstance(e, ValidationError | NoSuchSnapshotError) else type(e).__name__)


def outcome(first: str, late: str, how: str) -> tuple[list[str], dict[str, Any]]:
    """What the two raised, and what the table is like after them. ``how``: at once, or in which order."""
    catalog, at = begun()
    raised: list[str] = []
    one, two = OPERATIONS[first]("first", at), OPERATIONS[late]("late", at)
    meddling = Meddles(catalog, *([lambda: tried(catalog, at.table, one, raised)] if how == "at once" else []))
    if how == "the first, then the late one":
        tried(catalog, at.table, one, raised)
    tried(meddling, at.table, two, raised)
    if how == "the late one, then the first" or meddling.others:  # the late one may have had nothing to commit
        tried(catalog, at.table, one, raised)
    return sorted(raised), state(catalog.load_table(IDENTIFIER), at)


def state(table: Table, at: Begun) -> dict[str, Any]:
    """Whatever of a table may be compared: of ids that are drawn, only whose they are."""
    metadata = table.metadata
    known = {getattr(at, name): name for name in ("first", "head", "staged", "ahead")}
    return {
        "version": metadata.format_version,
        "location": metadata.location,
        "schema": (metadata.schema.struct, len(metadata.schemas)),
        "specs": {spec.fields for spec in metadata.partition_specs},
        "spec": metadata.spec.fields,
        "order": metadata.sort_order.fields,
        "properties": {k: v for k, v in metadata.properties.items() if not k.startswith(LEDGER_PREFIX)},
        "ledger": {k for k in metadata.properties if k.startswith(LEDGER_PREFIX) and not any(str(i) in k for i in known)},
        "statistics": sorted(s.statistics_path for s in metadata.partition_statistics),
        "snapshots": sorted(known.get(s.snapshot_id, "new") for s in metadata.snapshots),
        "refs": {
            name: (r.type, r.min_snapshots_to_keep, r.max_snapshot_age_ms, r.max_ref_age_ms, sorted(live_files(table, name)))
            for name, r in metadata.refs.items()
        },
    }


@pytest.mark.parametrize("first", OPERATIONS)
def test_two_commits_at_once_do_what_they_do_one_after_another(first: str) -> None:
    different = {}
    for late in OPERATIONS:
        together = outcome(first, late, "at once")
        for order in ("the first, then the late one", "the late one, then the first"):
            apart = outcome(first, late, order)
            if together == apart:
                break
            if together[1] == apart[1] and first.startswith("publication") and late.startswith("publication"):
                break  # A fast-forward that somebody else has made is not an error where it was under way.
        else:
            different[late] = [(key, together[1][key], apart[1][key]) for key in apart[1] if together[1][key] != apart[1][key]]
            different[late] += [("raised", together[0], apart[0])] if together[0] != apart[0] else []
    assert different == {}


def test_the_operations_of_this_test_are_each_committed_alone() -> None:
    for name, operation in OPERATIONS.items():
        catalog, at = begun()
        before = at.table.metadata_location
        assert commit(catalog, at.table, operation("x", at)).table.metadata_location != before, name
