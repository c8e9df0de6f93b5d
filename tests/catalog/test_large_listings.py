"""A namespace with many tables is listed page by page, and its first tables are there before the last page is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from iceberg_airflow.discovery import discover
from iceberg_airflow.work import Request
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.hive import hive_catalog
from iceberg_ops.catalog.near_tables import load_named
from iceberg_ops.cli.table_choice import expand_targets
from iceberg_ops.cli.table_names import names_that_begin
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.policy import Policy
from iceberg_ops.errors import BadInputError, NoSuchTableError
from iceberg_ops.io.local import LocalFileIO
from tests.builders import SCHEMA
from tests.catalog.watched import Watched, opened

MANY = 10_000
NAMES = [f"t{n:05}" for n in range(MANY)]
_ROW = "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) VALUES "


def _by_sql(there: Watched) -> None:
    with there.server.begin() as connection:
        connection.exec_driver_sql(_ROW + ", ".join(f"('c', 'ns', '{name}', 'm', 'TABLE')" for name in NAMES))


def _by_sqlite(there: Watched) -> None:
    """Into the database of the reference server."""
    with closing(sqlite3.connect(there.server)) as database, database:
        database.executemany(f"{_ROW} ('rest_backend', 'ns', ?, 'm', 'TABLE')", [(name,) for name in NAMES])


def _by_commits(there: Watched) -> None:
    server, branch = there.server
    content = {"type": "ICEBERG_TABLE", "metadataLocation": "m", "snapshotId": -1, "schemaId": 0, "specId": 0, "sortOrderId": 0}
    server.commit(branch, *({"type": "PUT", "key": {"elements": ["ns", name]}, "content": content} for name in NAMES[:2_500]))


def _by_glue(there: Watched) -> None:
    parameters = {"table_type": "ICEBERG", "metadata_location": "m"}
    for name in NAMES[:250]:
        there.server.change("CreateTable", DatabaseName=there.namespace, TableInput={"Name": name, "Parameters": parameters})


def _by_create(count: int) -> Callable[[Watched], None]:
    def fill(there: Watched) -> None:
        for name in NAMES[:count]:
            there.catalog.create_table((there.namespace, name), SCHEMA)

    return fill


def _by_objects(there: Watched) -> None:
    for name in NAMES[:40]:
        there.catalog.io.write(f"{there.catalog._root}/ns/{name}/metadata/v1.metadata.json", b"{}")


CASES: dict[str, tuple[Callable[[Watched], None], int, int, int]] = {
    "sqlite": (_by_sql, MANY, 1, 11),
    "postgresql": (_by_sql, MANY, 1, 11),
    "rest": (_by_sqlite, MANY, 1, 10),
    "nessie": (_by_commits, 2_500, 2, 4),
    "glue": (_by_glue, 250, 2, 4),
    "hive without locks": (_by_create(12), 12, 3, 5),
    "filesystem on S3": (_by_objects, 40, 37, 85),
}
"""How it is filled; how many tables; requests until the first table, and for all of them. Besides the pages: the namespace is
looked for first (a SQL catalog looks only where it finds no table), the metastore gives all names by one call and the records in
pages, a store gives the names of all folders, and two requests look into each."""


@pytest.fixture(params=[pytest.param(kind, marks=pytest.mark.oracle) if kind in ("rest", "nessie") else kind for kind in CASES])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def there(kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(hive_catalog, "_TABLES_AT_ONCE", 5)
    with opened(kind, request, tmp_path, **{"rest-page-size": "1000"}) as found:
        found.catalog.create_namespace((found.namespace,))
        CASES[kind][0](found)
        found.forget()
        yield found


def test_many_tables_are_listed_in_pages_and_the_first_comes_before_the_last_page(there: Watched, kind: str) -> None:
    _, count, until_first, in_all = CASES[kind]
    expected = [(there.namespace, name) for name in NAMES[:count]]
    tables = there.catalog.each_table((there.namespace,))
    found = [next(tables)]
    assert len(there.asked()) <= until_first, there.asked()
    found += tables
    assert len(there.asked()) == in_all, there.asked()
    assert sorted(found) == expected
    assert there.catalog.list_tables((there.namespace,)) == expected

    there.forget()
    with pytest.raises(BadInputError, match=rf"is not empty: it holds {there.namespace}\.t0"):
        there.catalog.drop_namespace((there.namespace,))
    assert len(there.asked()) <= until_first + 5


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    with opened("sqlite", request, tmp_path) as found:
        found.catalog.create_namespace(("ns",))
        found.catalog.create_namespace(("other",))
        _by_sql(found)
        found.forget()
        yield found


def test_a_wrong_name_in_a_large_namespace_costs_one_page(lake: Watched) -> None:
    with pytest.raises(NoSuchTableError, match=r"did you mean 'ns.t00042'.*: namespace ns has ns.t00000, .* and at least 990 more"):
        load_named(lake.catalog, ("ns", "t00042x"))
    assert len(lake.asked()) == 2


def test_a_policys_tables_are_found_by_pages_and_no_request_for_a_table(lake: Watched) -> None:
    policy = from_json(b'{"version": 1, "catalogs": {"c": {"type": "sql"}}}', Policy, "policy")
    answer = discover(Request(catalog=CatalogConfig(name="c", type="sql"), policy="p.yml"), lake.catalog, policy)
    assert [work.table for work in answer.tables] == [f"c.ns.{name}" for name in NAMES]
    assert len(lake.asked()) == 11 + 5, "and the namespaces"


def test_a_shell_offers_the_first_names_after_a_few_pages(lake: Watched) -> None:
    offered = list(islice(names_that_begin(lake.catalog, "c.ns."), 1_000))
    assert offered == [f"c.ns.{name}" for name in NAMES[:1_000]]
    assert len(lake.asked()) == 3


@pytest.mark.parametrize("name", ["ns.t*", "ns.t0000?", "ns.[t]*"])
def test_a_glob_lists_the_namespaces_that_it_can_match(lake: Watched, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Health and the tables of ``remove_orphan_files`` and the like are chosen by globs."""
    listed: list[tuple[str, ...]] = []
    each_table = lake.catalog.each_table

    def noted(namespace: tuple[str, ...]) -> Iterator[Identifier]:
        listed.append(namespace)
        return each_table(namespace)  # type: ignore[no-any-return]

    monkeypatch.setattr(lake.catalog, "each_table", noted)
    config = CatalogConfig(name="c", type="sql")
    monkeypatch.setattr("iceberg_ops.catalog.configuration.read_catalogs", lambda: [config])
    monkeypatch.setattr("iceberg_ops.catalog.configuration.find_catalog", lambda _: config)
    monkeypatch.setattr("iceberg_ops.catalog.load.load_catalog", lambda _: lake.catalog)
    found = expand_targets([f"c.{name}"])
    assert found == [f"c.ns.{table}" for table in (NAMES[:10] if "?" in name else NAMES)]
    assert listed == [("ns",)]


def test_a_look_into_a_near_folder_is_made_when_its_turn_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = FileSystemCatalog("fs", LocalFileIO(), warehouse=str(tmp_path))
    for name in NAMES[:20]:
        (tmp_path / "ns" / name / "metadata").mkdir(parents=True)
        (tmp_path / "ns" / name / "metadata" / "v1.metadata.json").write_text("{}")
    looks: list[Identifier] = []
    exists = catalog.table_exists

    def noted(identifier: Identifier) -> bool:
        looks.append(identifier)
        return exists(identifier)

    monkeypatch.setattr(catalog, "table_exists", noted)
    assert next(catalog.each_table(("ns",))) == ("ns", "t00000")
    assert [look for look in looks if len(look) == 2] == [("ns", "t00000")]
