"""Iceberg Java's HiveCatalog and this package on one Hive Metastore."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.catalogs import shared_catalog
from tests.interop.lake import Lake

pytestmark = [pytest.mark.oracle, pytest.mark.java]


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A table's name in the metastore, whose database ``ns`` is created again."""
    shared = shared_catalog("hive", request.getfixturevalue, tmp_path)
    return Lake(shared.java, shared.catalog, "t")


def test_the_metastore_records_of_our_commit_what_it_records_of_javas(lake: Lake) -> None:
    """One table is made and appended to by Java, one by us: their records differ in what must differ only."""
    lake.run_java(
        "CREATE TABLE {T} (id BIGINT NOT NULL COMMENT 'the key', m MAP<STRING, ARRAY<INT>>, "
        "s STRUCT<a: DECIMAL(9,2), b: TIMESTAMP>, region STRING) PARTITIONED BY (region) "
        "TBLPROPERTIES ('owner.team'='us', 'gc.enabled'='false')"
    )
    lake.run_java("ALTER TABLE {T} WRITE ORDERED BY id")
    table = lake.table
    ours = Lake(lake.java, lake.catalog, "u")
    ours.create(table.schema, table.metadata.spec, table.metadata.sort_order)
    ours.catalog.drop_table(("ns", "u"), purge=True)
    ours.catalog.create_table(
        ("ns", "u"), table.schema, spec=table.metadata.spec, sort_order=table.metadata.sort_order, properties=table.properties
    )
    lake.run_java("INSERT INTO {T} VALUES (1, map('k', array(1)), named_struct('a', 1.5, 'b', timestamp '2024-01-01'), 'eu')")
    ours.append([(1, [("k", [1])], (None, None), "eu")])
    theirs, found = (lake.catalog._hive_table(("ns", name)) for name in ("t", "u"))  # type: ignore[attr-defined]
    assert theirs.parameters.keys() == found.parameters.keys()
    same_values = {
        "EXTERNAL",
        "external.table.purge",
        "current-schema",
        "default-partition-spec",
        "table_type",
        "snapshot-count",
        "numRows",
    }
    for key in same_values:
        assert theirs.parameters[key] == found.parameters[key], key
    assert theirs.sd.cols == found.sd.cols
    assert (theirs.sd.inputFormat, theirs.sd.outputFormat) == (found.sd.inputFormat, found.sd.outputFormat)
    assert theirs.sd.serdeInfo.serializationLib == found.sd.serdeInfo.serializationLib
    assert (theirs.tableType, theirs.partitionKeys, theirs.retention) == (found.tableType, found.partitionKeys, found.retention)


def test_tables_of_hive_and_views_are_no_tables(lake: Lake) -> None:
    lake.run_java("CREATE TABLE {T} (id BIGINT)")
    lake.java(f"CREATE VIEW {lake.catalog.name}.ns.v AS SELECT id FROM {lake.sql_name}")
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t")]
    assert not lake.catalog.table_exists(("ns", "v"))
    assert not lake.catalog.table_exists(("ns", "T"))
