"""The two tables of Iceberg's JDBC catalog, schema V1, as Iceberg Java and pyiceberg create them.

A database created by an older Java (V0) has no ``iceberg_type`` column; it is used as it is and never altered.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any
from weakref import WeakSet

from sqlalchemy import URL, Column, Connection, Engine, MetaData, String, Table, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, InvalidatePoolError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool
from sqlalchemy.schema import CreateTable

from iceberg_ops.errors import OptionError, RuntimeMissingError

TABLE_TYPE = "TABLE"
BUSY_TIMEOUT_SECONDS = 60
IDLE_SECONDS = 5
_FORM = (
    "catalog property uri (not shown, it may hold a password) must be dialect+driver://user:password@host:port/database: "
    "the port a number, and special characters of user and password percent-encoded (@ is %40, / is %2F, : is %3A)"
)
_PACKAGES = {"psycopg2": "psycopg2-binary", "psycopg": "'psycopg[binary]'", "MySQLdb": "mysqlclient", "pymysql": "PyMySQL"}
"""Modules of database drivers whose package has another name."""

_METADATA = MetaData()

TABLES = Table(
    "iceberg_tables",
    _METADATA,
    Column("catalog_name", String(255), primary_key=True, nullable=False),
    Column("table_namespace", String(255), primary_key=True, nullable=False),
    Column("table_name", String(255), primary_key=True, nullable=False),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)

NAMESPACE_PROPERTIES = Table(
    "iceberg_namespace_properties",
    _METADATA,
    Column("catalog_name", String(255), primary_key=True, nullable=False),
    Column("namespace", String(255), primary_key=True, nullable=False),
    Column("property_key", String(255), primary_key=True, nullable=False),
    Column("property_value", String(1000)),
)


_engines = WeakSet[Engine]()


def _forget_connections() -> None:
    for engine in _engines:
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections)
"""Prevents that two processes use one connection: each would read answers to the other's questions."""


def open_engine(uri: str) -> Engine:
    """An engine in autocommit: every statement of this catalog is atomic by itself.

    sqlite waits for a lock instead of failing, and gets one connection per use, so that processes and threads never share one. For
    other databases, a connection that was idle for ``IDLE_SECONDS`` is tested before it is used again. Raises OptionError for a
    wrong URI, RuntimeMissingError for a database driver that is not installed. Neither shows the URI, because it may hold a
    password.
    """
    url = _parse(uri)
    if url.get_backend_name() != "sqlite":
        # psycopg2 asks the database for a type that is not used here, at each new connection.
        is_psycopg2 = url.drivername in ("postgresql", "postgresql+psycopg2")
        engine = _create(url, **({"use_native_hstore": False} if is_psycopg2 else {}))
        _engines.add(engine)
        _try_out_idle_connections(engine)
        return engine
    engine = _create(url, poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})

    @event.listens_for(engine, "connect")
    def _wait_for_locks(connection: object, _record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
        cursor.close()

    return engine


def _try_out_idle_connections(engine: Engine) -> None:
    """A test of a connection is a round trip, as is loading a table; most connections are used again at once."""

    @event.listens_for(engine, "checkin")
    def _note(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info["used"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _try_out(connection: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        if time.monotonic() - record.info.get("used", math.inf) > IDLE_SECONDS:
            try:
                engine.dialect.do_ping(connection)
            except Exception as e:
                raise InvalidatePoolError from e


def _parse(uri: str) -> URL:
    try:
        url = make_url(uri)
    except Exception:  # noqa: BLE001 - SQLAlchemy has no common class for this, and its messages quote the URI
        raise OptionError(_FORM) from None
    if url.get_backend_name() != "sqlite" and "@" in f"{url.host or ''}{url.database or ''}":
        # The password contains an @: the driver's error would print its end as an unknown host or database.
        raise OptionError(_FORM)
    return url


def _create(url: URL, **options: Any) -> Engine:
    try:
        return create_engine(url, isolation_level="AUTOCOMMIT", **options)
    except NoSuchModuleError:
        raise OptionError(
            f"catalog property uri: SQLAlchemy has no dialect {url.drivername!r}, or its package is missing"
        ) from None
    except ImportError as e:
        package = _PACKAGES.get(e.name or "", e.name or "a package that it needs")
        raise RuntimeMissingError(
            f"catalog property uri: the database driver of {url.drivername} is not installed: pip install {package}"
        ) from None
    except (SQLAlchemyError, TypeError, ValueError):
        raise OptionError(f"catalog property uri: {url.drivername} refuses its host, database or query (not shown)") from None


def create_missing_tables(engine: Engine) -> bool:
    """Create the missing tables; returns whether they have a type column (V1). If both tables exist, the database is only read, by
    one statement: this works for a role without the right to create tables, and on a read-only server. Several processes may do
    this at once: if two create one table, some databases refuse the slower one, which then finds the table."""
    with engine.connect() as connection:
        if (existing := _columns_if_both_exist(connection)) is not None:
            return "iceberg_type" in existing
        for table in (TABLES, NAMESPACE_PROPERTIES):
            if inspect(connection).has_table(table.name):
                continue
            try:
                connection.execute(CreateTable(table, if_not_exists=True))
            except DBAPIError:
                if not inspect(connection).has_table(table.name):
                    raise
        columns = {column["name"] for column in inspect(connection).get_columns(TABLES.name)}
    return "iceberg_type" in columns


def _columns_if_both_exist(connection: Connection) -> frozenset[str] | None:
    """Column names of the table of tables; None if this statement fails for any reason: the queries that follow show it."""
    both = f"SELECT {TABLES.name}.* FROM {TABLES.name}, {NAMESPACE_PROPERTIES.name} WHERE 1 = 0"
    try:
        return frozenset(map(str.lower, connection.execute(text(both)).keys()))
    except DBAPIError as e:
        if e.connection_invalidated:
            raise
        return None
