"""Iceberg Java's JdbcCatalog, pyiceberg's SqlCatalog and this package on one PostgreSQL database at the same time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.errors import NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.interop.at_once import PROPERTIES, all_at_once
from tests.interop.lake import Java, Lake
from tests.servers.postgresql import PostgreSQL

pytestmark = [pytest.mark.oracle, pytest.mark.java]

_NAMES = itertools.count()


@pytest.fixture
def uri(postgresql_server: PostgreSQL) -> str:
    return postgresql_server.database()


@pytest.fixture
def lake(java_lake: tuple[Java, SqlCatalog], uri: str, tmp_path: Path) -> Lake:
    """A table's name in a database of the test's own. A catalog has one name on all sides: it is a column of the tables."""
    java, name = java_lake[0], f"pg{next(_NAMES)}"
    ours = SqlCatalog(name, uri, LocalFileIO(), warehouse=f"file:{tmp_path}/wh")
    ours.create_namespace(("ns",), {"team": "us"})
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": "jdbc:" + uri.replace("+psycopg2", "").replace("postgres@", ""),
        ".jdbc.user": "postgres",
        ".jdbc.schema-version": "V1",
        ".warehouse": f"file:{tmp_path}/wh",
        ".cache-enabled": "false",
    }
    for key, value in properties.items():
        java(f"SET `spark.sql.catalog.{name}{key}`=`{value}`")
    return Lake(java, ours, "t")


def pyiceberg_catalog(lake: Lake, uri: str) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog as Theirs

    return Theirs(lake.catalog.name, uri=uri, warehouse=lake.catalog._warehouse)


def test_three_writers_on_one_table_lose_nothing(lake: Lake, uri: str) -> None:
    lake.run_java(f"CREATE TABLE {{T}} (id BIGINT, who STRING) TBLPROPERTIES ({PROPERTIES})")
    all_at_once(lake, lambda: pyiceberg_catalog(lake, uri))


def test_views_of_java_are_no_tables(lake: Lake) -> None:
    lake.run_java("CREATE TABLE {T} (id BIGINT)")
    lake.java(f"CREATE VIEW {lake.catalog.name}.ns.v AS SELECT id FROM {lake.sql_name}")
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t")]
    assert not lake.catalog.table_exists(("ns", "v"))
    with pytest.raises(NoSuchTableError, match=r"ns\.v"):
        lake.catalog.load_table(("ns", "v"))


def test_namespaces_and_their_properties_are_the_same_on_all_sides(lake: Lake, uri: str) -> None:
    name = lake.catalog.name
    lake.java(f"CREATE NAMESPACE {name}.made WITH PROPERTIES ('team' = 'java')")
    theirs = pyiceberg_catalog(lake, uri)
    theirs.create_namespace("third", {"team": "pyiceberg"})
    assert lake.catalog.list_namespaces() == [("made",), ("ns",), ("third",)]
    assert lake.catalog.namespace_properties(("made",))["team"] == "java"
    assert lake.catalog.namespace_properties(("third",))["team"] == "pyiceberg"
    assert theirs.load_namespace_properties("ns")["team"] == "us"
    shown = lake.java.rows(f"DESCRIBE NAMESPACE EXTENDED {name}.ns").to_pylist()
    assert "us" in str(shown)
