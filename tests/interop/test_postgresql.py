"""Iceberg Java's JdbcCatalog, pyiceberg's SqlCatalog and this package on one PostgreSQL database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_ops.errors import NoSuchTableError
from tests.interop.catalogs import Shared, shared_catalog
from tests.interop.lake import Lake

pytestmark = [pytest.mark.oracle, pytest.mark.java]


@pytest.fixture
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    return shared_catalog("postgresql", request.getfixturevalue, tmp_path)


@pytest.fixture
def lake(shared: Shared) -> Lake:
    """A table's name in a database of the test's own. A catalog has one name on all sides: it is a column of the tables."""
    return Lake(shared.java, shared.catalog, "t")


def test_views_of_java_are_no_tables(lake: Lake) -> None:
    lake.run_java("CREATE TABLE {T} (id BIGINT)")
    lake.java(f"CREATE VIEW {lake.catalog.name}.ns.v AS SELECT id FROM {lake.sql_name}")
    assert lake.catalog.list_tables(("ns",)) == [("ns", "t")]
    assert not lake.catalog.table_exists(("ns", "v"))
    with pytest.raises(NoSuchTableError, match=r"ns\.v"):
        lake.catalog.load_table(("ns", "v"))


def test_namespaces_and_their_properties_are_the_same_on_all_sides(shared: Shared, lake: Lake) -> None:
    name = lake.catalog.name
    lake.catalog.create_namespace(("ours",), {"team": "us"})
    lake.java(f"CREATE NAMESPACE {name}.made WITH PROPERTIES ('team' = 'java')")
    theirs = SqlCatalog(name, **shared.config.properties)
    theirs.create_namespace("third", {"team": "pyiceberg"})
    assert lake.catalog.list_namespaces() == [("made",), ("ns",), ("ours",), ("third",)]
    assert lake.catalog.namespace_properties(("made",))["team"] == "java"
    assert lake.catalog.namespace_properties(("third",))["team"] == "pyiceberg"
    assert theirs.load_namespace_properties("ours")["team"] == "us"
    shown = lake.java.rows(f"DESCRIBE NAMESPACE EXTENDED {name}.ours").to_pylist()
    assert "us" in str(shown)
