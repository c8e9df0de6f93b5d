"""The two tables of Iceberg's JDBC catalog, schema V1, as Iceberg Java and pyiceberg make them.

A database made by an older Java (V0) has no ``iceberg_type`` column; it is used as it is and never altered.
"""

from __future__ import annotations

from sqlalchemy import Column, Engine, MetaData, String, Table, create_engine, event, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateTable

from iceberg_ops.errors import OptionError

TABLE_TYPE = "TABLE"
BUSY_TIMEOUT_SECONDS = 60

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


def open_engine(uri: str) -> Engine:
    """An engine in autocommit: every statement of this catalog is atomic by itself. Raises OptionError for a bad URI.

    sqlite waits for a lock instead of failing, and gets a connection per use, so that processes and threads never share one.
    """
    try:
        url = make_url(uri)
    except Exception as e:  # noqa: BLE001 - SQLAlchemy has no common class for this
        raise OptionError(f"catalog property uri = {uri!r}: {e}") from None
    if url.get_backend_name() != "sqlite":
        return create_engine(url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})

    @event.listens_for(engine, "connect")
    def _wait_for_locks(connection: object, _record: object) -> None:
        cursor = connection.cursor()  # type: ignore[attr-defined]
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_SECONDS * 1000}")
        cursor.close()

    return engine


def create_missing_tables(engine: Engine) -> bool:
    """Create what is missing (safe against another process doing the same); whether tables have a type column (V1)."""
    with engine.connect() as connection:
        for table in (TABLES, NAMESPACE_PROPERTIES):
            connection.execute(CreateTable(table, if_not_exists=True))
        columns = {column["name"] for column in inspect(connection).get_columns(TABLES.name)}
    return "iceberg_type" in columns
