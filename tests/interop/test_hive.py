"""Iceberg Java's HiveCatalog, pyiceberg's and this package on one Hive Metastore at the same time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.hive.hive_catalog import HiveCatalog
from iceberg_ops.catalog.hive.metastore import Metastore
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.io.local import LocalFileIO
from tests.interop.at_once import PROPERTIES, all_at_once
from tests.interop.lake import Java, Lake
from tests.servers.hive_metastore import HiveMetastore

pytestmark = [pytest.mark.oracle, pytest.mark.java]

_NAMES = itertools.count()
ASKS_OFTEN = {"lock-check-min-wait-time": "0.05", "lock-check-max-wait-time": "0.2", "lock-check-retries": "500"}
"""pyiceberg waits two seconds before it asks for a lock again, then four, and no other writer gets the lock in the meantime."""


@pytest.fixture
def lake(java_lake: tuple[Java, SqlCatalog], hive_metastore: HiveMetastore, tmp_path: Path) -> Lake:
    """A table's name in the metastore, whose database ``ns`` is created again; Java calls the catalog by the same name."""
    java, name = java_lake[0], f"hms{next(_NAMES)}"
    metastore = Metastore(name, hive_metastore.uri)
    ours = HiveCatalog(name, metastore, LocalFileIO(), warehouse=f"file:{tmp_path}/wh")
    if ("ns",) in ours.list_namespaces():
        metastore.call(lambda client: client.drop_database("ns", False, True))
    ours.create_namespace(("ns",))
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hive",
        ".uri": hive_metastore.uri,
        ".warehouse": f"file:{tmp_path}/wh",
        ".cache-enabled": "false",
        ".hadoop.iceberg.hive.lock-check-max-wait-ms": "200",
    }
    for key, value in properties.items():
        java(f"SET `spark.sql.catalog.{name}{key}`=`{value}`")
    return Lake(java, ours, "t")  # type: ignore[arg-type]


def pyiceberg_catalog(server: HiveMetastore) -> Any:
    from pyiceberg.catalog.hive import HiveCatalog as Theirs

    return Theirs("hms", uri=server.uri, **ASKS_OFTEN)


@pytest.mark.parametrize("locks", [True, False], ids=["with locks", "without locks"])
def test_writers_at_once_on_one_table_lose_nothing(lake: Lake, hive_metastore: HiveMetastore, locks: bool) -> None:
    """pyiceberg always takes the metastore's lock, so it writes only where all do."""
    more = f"'engine.hive.lock-enabled'='{str(locks).lower()}'"
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES}, {more})")
    all_at_once(lake, lambda: pyiceberg_catalog(hive_metastore), with_pyiceberg=locks)


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
