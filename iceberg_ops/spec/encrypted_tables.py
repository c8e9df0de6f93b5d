"""Refuses to write files of a table that its owner wants encrypted (spec: "Table Metadata", encryption-keys)."""

from __future__ import annotations

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.table_metadata import TableMetadata

KEY_ID = "encryption.key-id"
"""The table property that asks for encryption (Java: TableProperties.ENCRYPTION_TABLE_KEY)."""


def forbid_plain_files(metadata: TableMetadata) -> None:
    """Prevents rows and statistics that anybody with access to the store can read, beside encrypted ones: this package has no keys,
    so it would write them plain. Raises UnsupportedError."""
    if metadata.properties.get(KEY_ID):
        raise UnsupportedError(
            f"not supported: writing files of table {metadata.location}, because it is encrypted (table property {KEY_ID}), and "
            "files are only written plain"
        )
