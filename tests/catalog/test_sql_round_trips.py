"""What an SQL catalog asks of its database, counted on a PostgreSQL server: statements, and trials of connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from iceberg_ops.catalog import sql_schema
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.io.local import LocalFileIO
from tests.builders import IDENTIFIER, make_table
from tests.servers.postgresql import PostgreSQL


@pytest.fixture
def asked() -> Iterator[list[str]]:
    """Statements that any SQL catalog sends."""
    found: list[str] = []

    def note(*told: Any) -> None:
        found.append(told[2])

    event.listen(Engine, "before_cursor_execute", note)
    yield found
    event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture
def lake(postgresql_server: PostgreSQL, tmp_path: Path) -> Callable[[], SqlCatalog]:
    uri = postgresql_server.database()
    return lambda: SqlCatalog("c", uri, LocalFileIO(), warehouse=f"{tmp_path}/wh")


def trials(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Connections that are tried out before they are used again."""
    found: list[object] = []
    dialect = catalog._engine.dialect
    ping = dialect.do_ping

    def noted(connection: Any) -> bool:
        found.append(connection)
        return ping(connection)

    monkeypatch.setattr(dialect, "do_ping", noted)
    return found


def test_a_table_is_loaded_by_one_statement_and_idle_connections_are_tried_out_first(
    lake: Callable[[], SqlCatalog], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake()
    catalog.create_namespace(("ns",))
    make_table(catalog)
    tried = trials(catalog, monkeypatch)
    asked.clear()
    catalog.load_table(IDENTIFIER)
    assert (len(asked), len(tried)) == (1, 0)
    monkeypatch.setattr(sql_schema, "IDLE_SECONDS", -1)
    catalog.load_table(IDENTIFIER)
    assert (len(asked), len(tried)) == (2, 1)


def test_a_catalog_that_exists_is_opened_by_one_statement(lake: Callable[[], SqlCatalog], asked: list[str]) -> None:
    lake()
    asked.clear()
    lake()
    assert len(asked) == 1


@pytest.mark.parametrize("idle", [5, -1])
def test_a_connection_that_was_lost_since_its_last_use_is_replaced(
    lake: Callable[[], SqlCatalog], monkeypatch: pytest.MonkeyPatch, idle: int
) -> None:
    monkeypatch.setattr(sql_schema, "IDLE_SECONDS", idle)
    catalog = lake()
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    looks: list[Callable[[], bool]] = [
        lambda: catalog.load_table(IDENTIFIER).metadata.table_uuid == table.metadata.table_uuid,
        lambda: catalog.list_tables(("ns",)) == [IDENTIFIER],
        lambda: catalog.list_namespaces() == [("ns",)],
        lambda: catalog.commit_table(table, [], []).metadata_location == table.metadata_location,
    ]
    for look in looks:
        end_all_connections(catalog)
        assert look()


def test_a_swap_on_a_connection_that_was_lost_is_done_once(lake: Callable[[], SqlCatalog]) -> None:
    catalog = lake()
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    end_all_connections(catalog)
    catalog._swap(IDENTIFIER, table.metadata_location, "/elsewhere")
    assert catalog._current_location(IDENTIFIER) == "/elsewhere"


def end_all_connections(catalog: SqlCatalog) -> None:
    """As a server that is started again, or a firewall, does."""
    other = create_engine(catalog._engine.url, isolation_level="AUTOCOMMIT")
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    with other.connect() as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
    other.dispose()
