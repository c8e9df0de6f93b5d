"""Reads the same table with several readers, and compares their results by a fingerprint.

``iceberg-ops scan`` in a separate process, pyiceberg and DuckDB; each for the current rows or for one snapshot. A reader returns
an Arrow table; the fingerprint does not depend on the order of rows or on the type names of a reader.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from demo.stack import CATALOG, Stack
from iceberg_ops.errors import IcebergOpsError


class ReaderError(IcebergOpsError):
    """A reader could not read a table; names both."""

    code = "READER"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """How many rows, and a checksum over all values."""

    rows: int
    checksum: str

    def __str__(self) -> str:
        return f"{self.rows:,} rows, {self.checksum[:12]}"


def fingerprint(table: pa.Table, columns: list[str]) -> Fingerprint:
    """SHA-256 over the sorted texts of all rows, ``columns`` in order."""
    values = [table.column(name).to_pylist() for name in columns]
    rows = sorted("\x1f".join(map(_text, row)) for row in zip(*values, strict=True))
    digest = hashlib.sha256("\x1e".join(rows).encode()).hexdigest()
    return Fingerprint(table.num_rows, digest)


def read_with_iceberg_ops(stack: Stack, table: str, snapshot_id: int | None = None) -> pa.Table:
    """``iceberg-ops scan`` to a Parquet file. Raises ReaderError with the command's one line."""
    out = stack.places.root / "scans" / f"{table}-{snapshot_id or 'current'}.parquet"
    out.parent.mkdir(parents=True, exist_ok=True)
    chosen = [] if snapshot_id is None else ["--snapshot-id", str(snapshot_id)]
    command = [
        sys.executable,
        "-m",
        "iceberg_ops.cli.main",
        "scan",
        f"{CATALOG}.{table}",
        *chosen,
        "--format",
        "parquet",
        "-o",
        str(out),
        "--overwrite",
    ]
    environment = {**os.environ, "ICEBERG_OPS_CATALOGS": str(stack.places.catalogs_file)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReaderError(f"iceberg-ops scan of {table}: {done.stderr.strip()}")
    return pq.read_table(out)


def read_with_pyiceberg(stack: Stack, table: str, snapshot_id: int | None = None) -> pa.Table:
    """pyiceberg on the same SQL catalog."""
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - one reader is loaded at a time

    found = SqlCatalog(CATALOG, **stack.catalog_properties()).load_table(table)
    return found.scan(snapshot_id=snapshot_id).to_arrow()


def read_with_duckdb(stack: Stack, table: str, snapshot_id: int | None = None) -> pa.Table:
    """DuckDB's iceberg extension on the table's current metadata file."""
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - one reader is loaded at a time

    properties = stack.catalog_properties()
    location = SqlCatalog(CATALOG, **properties).load_table(table).metadata_location
    chosen = "" if snapshot_id is None else f", snapshot_from_id={snapshot_id}"
    remote = location.startswith("s3://")
    with duckdb_with_iceberg(*(["httpfs"] if remote else [])) as connection:
        if remote:
            connection.execute(_duckdb_secret(properties))
        return connection.sql(f"SELECT * FROM iceberg_scan('{location.removeprefix('file://')}'{chosen})").to_arrow_table()


def duckdb_with_iceberg(*others: str) -> Any:
    """A DuckDB connection with the iceberg extension, and others, from their wheels, instants in UTC."""
    import duckdb  # noqa: PLC0415 - one reader is loaded at a time
    import duckdb_extensions  # noqa: PLC0415 - one reader is loaded at a time

    connection = duckdb.connect()
    for name in (*others, "avro", "iceberg"):
        duckdb_extensions.import_extension(name, con=connection)
        connection.load_extension(name)
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _duckdb_secret(properties: Mapping[str, str]) -> str:
    """The statement that tells DuckDB the store and the keys of a catalog."""
    scheme, _, endpoint = properties["s3.endpoint"].partition("://")
    parts = {
        "KEY_ID": properties["s3.access-key-id"],
        "SECRET": properties["s3.secret-access-key"],
        "REGION": properties["client.region"],
        "ENDPOINT": endpoint,
        "URL_STYLE": "path",
    }
    told = ", ".join(f"{name} '{value}'" for name, value in parts.items())
    return f"CREATE SECRET lake (TYPE s3, USE_SSL {str(scheme == 'https').lower()}, {told})"


Reader = Callable[[Stack, str, int | None], pa.Table]
READERS: Mapping[str, Reader] = {
    "iceberg-ops": read_with_iceberg_ops,
    "pyiceberg": read_with_pyiceberg,
    "DuckDB": read_with_duckdb,
}


def _text(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return repr(value) if isinstance(value, float) else str(value)
