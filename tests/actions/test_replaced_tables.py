"""After another engine replaced a table (CREATE OR REPLACE TABLE), the former state is read correctly and is deleted when it
expires: partition values of former snapshots have the types of former columns, whose ids the present columns have."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.refs import RemoveRef, SetRef
from iceberg_ops.data.rewriting.changelog import changelog_batches
from iceberg_ops.errors import FormerColumnsError, SchemaError
from iceberg_ops.expressions.predicates import eq, gt, not_null
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, TIMESTAMP, DecimalType, IcebergType, NestedField
from iceberg_ops.spec.updates import LAST_ADDED, AddPartitionSpec, SetDefaultSpec
from iceberg_ops.table import manifests
from iceberg_ops.table.entry_cache import EntryCache
from iceberg_ops.table.integrity import IntegrityCheck
from iceberg_ops.table.manifests import live_paths, manifests_of
from iceberg_ops.table.stored_files import read_stored
from tests.actions.lake import Lake
from tests.builders import BY_REGION, IDENTIFIER, data_file, live_files, make_catalog
from tests.commit.scenarios import Replaced

CENTS, MILLS = DecimalType(9, 2), DecimalType(9, 3)
TYPES: dict[str, tuple[IcebergType, IcebergType, list[Any]]] = {
    "text to number": (STRING, LONG, ["eu", "us"]),
    "number to text": (LONG, STRING, [1, 2]),
    "another scale": (CENTS, MILLS, [Decimal("1.23"), Decimal("4.56")]),
}


def schema(region: IcebergType) -> Schema:
    return Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "data", STRING), NestedField(3, "region", region))


def replaced_lake(
    version: int, former: IcebergType, now: IcebergType, regions: list[Any], more: int = 0, deleted: tuple[int, ...] = ()
) -> Lake:
    """A table with a row in each of the regions, and ``more`` files that do not exist, tagged; then replaced. Rows of the ids
    ``deleted`` are deleted from the first region."""
    catalog = make_catalog()
    catalog.create_table(IDENTIFIER, schema(former), spec=BY_REGION, properties={"format-version": str(version)})
    lake = Lake(catalog)
    lake.append([(1, "a", regions[0])], [(2, "b", regions[1])])
    if deleted:
        lake.delete_ids(*deleted, partition=(regions[0],))
    if more:
        added = tuple(data_file(f"{lake.table.location}/data/f{n}", partition=(regions[0],)) for n in range(more))
        commit(catalog, lake.table, AppendFiles(added=added, merge=False))
    commit(catalog, lake.table, SetRef(ref="before", type="tag"))
    commit(catalog, lake.table, Replaced(schema=schema(now), is_empty=True))
    catalog.commit_table(lake.table, (), (AddPartitionSpec(UNPARTITIONED), SetDefaultSpec(LAST_ADDED)))
    lake.append([(9, "z", None)])
    return lake


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("types", TYPES)
def test_a_former_snapshot_is_read_by_its_own_partitions(types: str, version: int) -> None:
    former, now, regions = TYPES[types]
    lake = replaced_lake(version, former, now, regions)
    assert lake.rows() == [(9, "z", None)]
    assert lake.rows(Scan(ref="before")) == [(1, "a", regions[0]), (2, "b", regions[1])]
    assert lake.rows(Scan(ref="before", where=eq("region", regions[1]))) == [(2, "b", regions[1])]
    assert lake.rows(Scan(ref="before", where=gt("region", regions[0]))) == [(2, "b", regions[1])]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_of_a_former_snapshot_are_kept_while_it_stays_and_go_when_it_expires(version: int) -> None:
    """Manifests of many files are read by columns, those of few record by record."""
    lake = replaced_lake(version, STRING, LONG, ["eu", "us"], more=100)
    expiry = ExpireSnapshots(older_than_ms=2**60, retain_last=1)
    expire(lake.catalog, lake.table, expiry)
    head = lake.table.metadata.snapshots_by_id[lake.table.metadata.refs["before"].snapshot_id]
    paths = {path for m in manifests_of(lake.table, head) for path, _ in live_paths(lake.table, m)}
    assert len(paths) == 102
    commit(lake.catalog, lake.table, RemoveRef(ref="before"))
    found = expire(lake.catalog, lake.table, expiry)
    assert (set(found.files.data), found.files.damaged) == (paths, ())
    assert lake.rows() == [(9, "z", None)]
    assert {path for path in lake.paths() if path.endswith(".parquet")} == set(live_files(lake.table))


@pytest.mark.parametrize("types", TYPES)
def test_a_former_snapshot_is_no_damage_and_in_nobodys_way(types: str) -> None:
    former, now, regions = TYPES[types]
    lake = replaced_lake(2, former, now, regions, deleted=(1,))
    table = lake.table
    before = table.metadata.refs["before"].snapshot_id
    assert list(IntegrityCheck(table).findings()) == []
    assert [n for batch in changelog_batches(table, None, before) for n in batch.column("id").to_pylist()] == [1, 2, 1]
    expire(lake.catalog, table, ExpireSnapshots(older_than_ms=0, clean_expired_metadata=True))
    keyless = Schema.of(*schema(now).fields[1:])
    with pytest.raises(SchemaError, match="live in tag 'before', compares it"):
        commit(lake.catalog, lake.table, UpdateSchema(schema=keyless, keep_delete_keys=True))
    commit(lake.catalog, lake.table, RemoveRef(ref="before"))
    commit(lake.catalog, lake.table, UpdateSchema(schema=keyless, keep_delete_keys=True))


@pytest.mark.parametrize("types", TYPES)
def test_former_snapshots_are_read_where_the_table_lacks_their_partition_column_by_now(types: str) -> None:
    former, now, regions = TYPES[types]
    lake = replaced_lake(2, former, now, regions)
    commit(lake.catalog, lake.table, SetRef(ref="between", type="tag"))
    commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*schema(now).fields[:2])))
    assert lake.rows(Scan(ref="before")) == [(1, "a", regions[0]), (2, "b", regions[1])]
    assert lake.rows(Scan(ref="before", where=eq("region", regions[1]))) == [(2, "b", regions[1])]
    assert lake.rows(Scan(ref="between")) == [(9, "z", None)]
    assert len(lake.rows()) == 1
    assert list(IntegrityCheck(lake.table).findings()) == []


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("types", TYPES)
def test_manifests_of_former_columns_are_not_merged(types: str, version: int) -> None:
    """Their partition values cannot be written by the present columns. The branch is written to all the same."""
    former, now, regions = TYPES[types]
    lake = replaced_lake(version, former, now, regions, more=3)
    start = lake.table.metadata.refs["before"].snapshot_id
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=start))
    before = [m.manifest_path for m in manifests_of(lake.table, lake.table.metadata.branch_head("audit"))]
    assert len(before) > 1
    late = data_file("late", spec_id=lake.table.metadata.default_spec_id)
    commit(lake.catalog, lake.table, AppendFiles(added=(late,), branch="audit"))
    listed = manifests_of(lake.table, lake.table.metadata.branch_head("audit"))
    assert [m.manifest_path for m in listed][1:] == before
    assert "late" in {path for m in listed for path, _ in live_paths(lake.table, m)}
    assert lake.rows(Scan(ref="before", where=eq("region", regions[1]))) == [(2, "b", regions[1])]


@pytest.mark.parametrize("is_there", [True, False], ids=["with its history", "without"])
@pytest.mark.parametrize("types", TYPES)
def test_a_branch_of_the_former_table_that_is_written_to_is_in_nobodys_way(types: str, is_there: bool) -> None:
    """Its manifests are read by the columns of the snapshot that made them, not of one that carries them on."""
    former, now, regions = TYPES[types]
    lake = replaced_lake(2, former, now, regions, deleted=(1,))
    start = lake.table.metadata.refs["before"].snapshot_id
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=start))
    late = data_file("late", spec_id=lake.table.metadata.default_spec_id)
    commit(lake.catalog, lake.table, AppendFiles(added=(late,), branch="audit", merge=False))
    commit(lake.catalog, lake.table, RemoveRef(ref="before"))
    for older_than in (0, 0) if is_there else (2**60, 2**60):
        expiry = ExpireSnapshots(older_than_ms=older_than, retain_last=1, clean_expired_metadata=True)
        expire(lake.catalog, lake.table, expiry)
    assert (len(lake.table.metadata.snapshots) > 2) is is_there
    keyless = Schema.of(*schema(now).fields[1:])
    with pytest.raises(SchemaError, match="live in branch 'audit', compares it"):
        commit(lake.catalog, lake.table, UpdateSchema(schema=keyless, keep_delete_keys=True))
    commit(lake.catalog, lake.table, RemoveRef(ref="audit"))
    commit(lake.catalog, lake.table, UpdateSchema(schema=keyless, keep_delete_keys=True))


@pytest.mark.parametrize("types", TYPES)
def test_a_branch_of_the_former_table_is_read_where_the_table_lacks_the_partition_column_by_now(types: str) -> None:
    """No snapshot has the former schema any more: it stays because partition values of that branch have its types."""
    former, now, regions = TYPES[types]
    lake = replaced_lake(2, former, now, regions, deleted=(1,))
    start = lake.table.metadata.refs["before"].snapshot_id
    commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*schema(now).fields[:2])))
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=start))
    late = data_file("late", spec_id=lake.table.metadata.default_spec_id)
    commit(lake.catalog, lake.table, AppendFiles(added=(late,), branch="audit", merge=False))
    commit(lake.catalog, lake.table, RemoveRef(ref="before"))
    for _ in range(2):
        expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60, retain_last=1, clean_expired_metadata=True))
    assert {f.rule for f in IntegrityCheck(lake.table).findings()} == {"data-file-exists"}
    commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(schema(now).fields[0]), keep_delete_keys=True))


def test_a_branch_with_former_files_keeps_their_schema() -> None:
    """No partition value has the former type. Without the schema the former number would be read as a moment."""
    catalog = make_catalog()
    catalog.create_table(IDENTIFIER, schema(LONG))
    lake = Lake(catalog)
    lake.append([(1, "a", 5)])
    commit(catalog, lake.table, SetRef(ref="audit", snapshot_id=lake.table.metadata.current_snapshot_id or 0))
    commit(catalog, lake.table, Replaced(schema=schema(TIMESTAMP), is_empty=True))
    lake.append([(9, "z", None)])
    commit(catalog, lake.table, AppendFiles(added=lake.written([(8, "x", None)]), branch="audit", merge=False))
    expiry = ExpireSnapshots(older_than_ms=2**60, retain_last=1, clean_expired_metadata=True)
    expire(catalog, lake.table, expiry)
    assert len(lake.table.metadata.schemas) == 2
    with pytest.raises(FormerColumnsError):
        lake.rows(Scan(ref="audit"))
    with pytest.raises(FormerColumnsError):
        lake.rows(Scan(ref="audit", where=not_null("region")))
    commit(catalog, lake.table, RemoveRef(ref="audit"))
    lake.append([(10, "y", None)])
    expire(catalog, lake.table, expiry)
    assert len(lake.table.metadata.schemas) == 1


@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_REGION], ids=["unpartitioned", "by region"])
def test_a_manifest_that_is_gone_is_not_asked_for_by_every_schema(spec: PartitionSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = make_catalog()
    table = catalog.create_table(IDENTIFIER, schema(STRING), spec=spec)
    table = commit(catalog, table, AppendFiles(added=(data_file("a", partition=("eu",) if spec.fields else ()),))).table
    for n in range(20):
        more = (NestedField(10 + i, f"c{i}", LONG) for i in range(n + 1))
        table = commit(catalog, table, UpdateSchema(schema=Schema.of(*schema(STRING).fields, *more))).table
    (manifest,) = manifests_of(table, table.metadata.current_snapshot)
    table.io.delete(manifest.manifest_path)
    asked: list[str] = []

    def counted(io: Any, location: str, what: str) -> bytes:
        asked.append(location)
        return read_stored(io, location, what)

    monkeypatch.setattr(manifests, "read_stored", counted)
    monkeypatch.setattr(manifests, "CACHE", EntryCache())
    assert [f.rule for f in IntegrityCheck(table).findings()] == ["manifest-reads"]
    assert asked.count(manifest.manifest_path) <= 2
