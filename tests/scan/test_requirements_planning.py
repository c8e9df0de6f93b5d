"""Planning rule by rule, end to end over real manifests: DEFAULT-12, PART-10, PART-11, SCAN-01, SCAN-02, SCAN-12, SCAN-14, SEQ-07,
SNAP-26, SNAP-27, MANIFEST-55, GEN-11."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import NoSuchSnapshotError
from iceberg_ops.expressions.predicates import Expression, eq, gt, in_, is_null, lt, not_eq, not_null
from iceberg_ops.io.locations import location_identity
from iceberg_ops.scan.delete_index import DeleteIndex
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import Transform, bucket
from iceberg_ops.spec.types import INT
from iceberg_ops.table.table import Table
from tests.builders import SCHEMA, data_file, equality_deletes, live_files, make_catalog, make_table, position_deletes

EU, US = data_file("/eu", partition=("eu",)), data_file("/us", partition=("us",))
MANY = 60
"""Files enough for the planner to judge them by whole columns."""


def planned(table: Table, where: Expression | None = None) -> dict[str, list[str]]:
    scan = Scan() if where is None else Scan(where=where)
    return {t.file_path: [d.file_path for d in t.deletes] for t in plan(table, scan).tasks}


def add(catalog: Any, table: Table, *files: Any) -> Table:
    return commit(catalog, table, AppendFiles(added=files)).table


def delete(catalog: Any, table: Table, *files: Any) -> Table:
    return commit(catalog, table, RowDelta(added_deletes=files, isolation=None)).table


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize("where", [eq("x", 7), not_null("x"), gt("x", 6), in_("x", [1, 7]), is_null("x"), lt("x", 0)], ids=str)
def test_files_older_than_a_column_are_never_pruned_by_it(where: Expression, count: int) -> None:
    """DEFAULT-12: metrics lack the column, which says nothing; its default is 7 for all their rows."""
    catalog = make_catalog()
    table = make_table(catalog, version=3)
    table = add(catalog, table, *(data_file(f"/old{i}", ids=(1, 5)) for i in range(count)))
    schema = SchemaEvolution.of_table(table.metadata).add_column("x", INT, default=7).apply()
    table = commit(catalog, table, UpdateSchema(schema=schema)).table
    assert len(planned(table, where)) == count
    assert planned(table, gt("id", 5)) == {}, "columns that the file has still prune"


def two_specs(catalog: Any) -> Table:
    """A file of spec 0 (by region), and files of spec 1 (by a bucket of id)."""
    table = add(catalog, make_table(catalog, partitioned=True), EU, US)
    evolution = SpecEvolution.of_table(table.metadata).remove_field("region").add_field("id", bucket(4))
    table = commit(catalog, table, UpdateSpec(spec=evolution.apply())).table
    spec_id = table.metadata.default_spec_id
    return add(catalog, table, *(data_file(f"/b{n}", partition=(n,), spec_id=spec_id) for n in range(4)))


def test_each_manifest_is_pruned_by_the_spec_that_wrote_it() -> None:
    """PART-11, SCAN-14"""
    catalog = make_catalog()
    table = two_specs(catalog)
    assert set(planned(table)) == {"/eu", "/us", "/b0", "/b1", "/b2", "/b3"}
    assert set(planned(table, eq("region", "eu"))) == {"/eu", "/b0", "/b1", "/b2", "/b3"}
    found = set(planned(table, eq("id", 34)))
    assert {"/eu", "/us"} < found
    assert len(found) == 3


def test_deletes_of_another_spec_meet_their_data_whatever_the_filter_prunes() -> None:
    """SCAN-12, SCAN-14: a global delete is never excluded by partition, one of another partition always."""
    catalog = make_catalog()
    table = add(catalog, make_table(catalog, partitioned=True), EU, US)
    table = commit(catalog, table, UpdateSpec(spec=PartitionSpec(0, ()))).table
    unpartitioned = table.metadata.default_spec_id
    table = delete(
        catalog,
        table,
        equality_deletes("/global", spec_id=unpartitioned),
        equality_deletes("/of-eu", partition=("eu",)),
        position_deletes("/no-data-there", spec_id=unpartitioned),
    )
    assert planned(table) == {"/eu": ["/global", "/of-eu"], "/us": ["/global"]}
    assert planned(table, eq("region", "us")) == {"/us": ["/global"]}


def test_values_of_an_unknown_transform_still_tell_partitions_apart() -> None:
    """PART-10, PART-09: nothing is pruned by them, and deletes keep to their partition."""
    spec = PartitionSpec(4, (PartitionField((1,), 1000, Transform("zorder[3]"), "z"),))
    mine, other = (
        DeleteFile(equality_deletes(f"/{name}", partition=(name,), spec_id=4), 9) for name in ("p", "q")
    )  # fmt: skip
    index = DeleteIndex([mine, other], specs_by_id={4: spec}, fields_by_id=SCHEMA.fields_by_id, identity=location_identity)
    assert index.for_data_file(data_file("/a", partition=("p",), spec_id=4), 1) == (mine,)


def test_a_table_partitioned_by_an_unknown_transform_is_read_whole() -> None:
    """PART-09"""
    catalog = make_catalog()
    table = add(catalog, make_table(catalog, partitioned=True), EU, US)
    odd = PartitionSpec(0, (PartitionField((3,), 1000, Transform("zorder[3]"), "region"),))
    table = replace(table, metadata=replace(table.metadata, partition_specs=(odd,)))
    assert set(planned(table, eq("region", "eu"))) == {"/eu", "/us"}


def test_deletes_go_by_data_sequence_numbers_not_by_those_of_the_file() -> None:
    """SEQ-07, SEQ-06: rewritten rows are as old as what they were, and the delete in between still applies."""
    catalog = make_catalog()
    table = add(catalog, make_table(catalog), data_file("/a"))
    start = table.metadata.current_snapshot_id
    table = delete(catalog, table, equality_deletes("/e"))
    rewrite = RewriteFiles(
        removed_data=(data_file("/a"),), added_data=(data_file("/n"),), starting_snapshot_id=start, data_sequence_number=1
    )
    table = commit(catalog, table, rewrite).table
    assert live_files(table)["/n"] == (1, 3)
    assert planned(table) == {"/n": ["/e"]}


@pytest.mark.parametrize("version", [1, 2])
def test_a_table_keeps_manifests_of_every_version_it_had(version: int) -> None:
    """GEN-11, UPG-02"""
    catalog = make_catalog()
    table = add(catalog, make_table(catalog, version=version), data_file("/old"))
    table = commit(catalog, table, UpgradeFormatVersion(format_version=version + 1)).table
    table = commit(catalog, table, AppendFiles(added=(data_file("/new"),), merge=False)).table
    assert set(planned(table)) == {"/old", "/new"}


def test_a_time_needs_a_snapshot_log() -> None:
    """SNAP-26"""
    catalog = make_catalog()
    table = add(catalog, make_table(catalog), data_file("/a"))
    table = replace(table, metadata=replace(table.metadata, snapshot_log=()))
    with pytest.raises(NoSuchSnapshotError, match="its snapshot log begins later or is empty"):
        plan(table, Scan(as_of_ms=2**60))


def test_a_null_partition_value_under_in_is_no_trouble() -> None:
    """XFORM-10; Iceberg Java's planning fails with a NullPointerException here."""
    catalog = make_catalog()
    table = make_table(catalog, partitioned=True)
    table = add(catalog, table, data_file("/null", partition=(None,)), data_file("/eu", partition=("eu",)))
    assert set(planned(table, in_("region", ["eu", "us"]))) == {"/eu"}
    assert set(planned(table, not_eq("region", "us"))) == {"/eu"}
    assert set(planned(table, is_null("region"))) == {"/null"}
