"""Iceberg Java's JdbcCatalog, pyiceberg's SqlCatalog and this package on one PostgreSQL database at the same time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.errors import NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.interop.lake import Java, Lake, same
from tests.interop.test_concurrent_java import until_committed
from tests.servers.postgresql import PostgreSQL

pytestmark = [pytest.mark.oracle, pytest.mark.java]

COMMITS = 25
"""Of each writer."""
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
    """Java appends and deletes, pyiceberg appends, we append and compact, all at once."""
    lake.run_java(
        "CREATE TABLE {T} (id BIGINT, who STRING) TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', "
        "'commit.retry.num-retries'='100', 'commit.retry.min-wait-ms'='5', 'commit.retry.max-wait-ms'='500')"
    )
    rows, errors = set[int](), list[BaseException]()

    def java() -> None:
        for n in range(COMMITS):
            if n % 5 == 4:
                until_committed(lake, f"DELETE FROM {{T}} WHERE id = {n - 1}")
                rows.discard(n - 1)
            else:
                lake.run_java(f"INSERT INTO {{T}} VALUES ({n}, 'java')")
                rows.add(n)

    def pyiceberg() -> None:
        table = pyiceberg_catalog(lake, uri).load_table("ns.t")
        for n in range(1000, 1000 + COMMITS):
            table.append(pa.table({"id": pa.array([n], pa.int64()), "who": ["pyiceberg"]}))
            rows.add(n)

    def we() -> None:
        for n in range(2000, 2000 + COMMITS):
            lake.append([(n, "we")])
            rows.add(n)

    def compact() -> None:
        for _ in range(COMMITS // 5):
            lake.maintain("rewrite_data_files", min_input_files=2)

    def kept(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as e:  # noqa: BLE001 - raised in the test
            errors.append(e)

    threads = [threading.Thread(target=kept, args=(work,)) for work in (java, pyiceberg, we, compact)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    ids = sorted(int(text.split("'id': ")[1].split(",")[0]) for text in lake.our_rows())
    assert ids == sorted(rows)
    same(lake.java_rows(), lake.our_rows(), "at the end")
    theirs = pyiceberg_catalog(lake, uri).load_table("ns.t").scan().to_arrow()
    assert sorted(theirs.column("id").to_pylist()) == ids


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
