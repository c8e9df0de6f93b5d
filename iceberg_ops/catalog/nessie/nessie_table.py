"""Nessie's record of a table (Java: ``NessieIcebergClient``), and how a table of Nessie differs from its metadata file.

Other branches, tags and retained commits refer to older metadata files of a table, and to all files that these refer to. So a file
may not be deleted because the current state does not need it: ``gc.enabled`` and ``write.metadata.delete-after-commit.enabled`` are
false for every table of Nessie, whatever its metadata says. Nessie's own ``nessie-gc`` deletes files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iceberg_ops.config.properties import GC_ENABLED, METADATA_DELETE_AFTER_COMMIT
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.table_metadata import TableMetadata

TABLE = "ICEBERG_TABLE"
NAMESPACE = "NAMESPACE"
KEPT = {GC_ENABLED.name: "false", METADATA_DELETE_AFTER_COMMIT.name: "false"}
_NO_SNAPSHOT = -1
_SNAPSHOT = "snapshotId"


def location_in(content: Mapping[str, Any] | None) -> str | None:
    """The location of the table's metadata in Nessie; None if the content is not a table."""
    return str(content["metadataLocation"]) if content is not None and content.get("type") == TABLE else None


def table_content(location: str, metadata: TableMetadata, content_id: str | None) -> dict[str, Any]:
    """The content of a table whose current metadata is ``metadata``, at ``location``. ``content_id`` None: a new table."""
    return {
        "type": TABLE,
        **({} if content_id is None else {"id": content_id}),
        "metadataLocation": location,
        **_ids(metadata),
    }


def _ids(metadata: TableMetadata) -> dict[str, int]:
    current = metadata.current_snapshot_id
    return {
        _SNAPSHOT: _NO_SNAPSHOT if current is None else current,
        "schemaId": metadata.schema.schema_id,
        "specId": metadata.default_spec_id,
        "sortOrderId": metadata.default_sort_order_id,
    }


def kept(metadata: TableMetadata) -> TableMetadata:
    """The metadata of a table whose files are kept (see the module's docstring)."""
    if all(metadata.properties.get(name) == value for name, value in KEPT.items()):
        return metadata
    return replace(metadata, properties={**metadata.properties, **KEPT})


def check_agree(name: str, content: Mapping[str, Any], metadata: TableMetadata) -> None:
    """Raise UnsupportedError if Nessie has another snapshot, schema, partition spec or sort order as the current one than the
    metadata file: Iceberg Java uses Nessie's ids, so it would read other rows. If Nessie has no snapshot (-1), Java uses the
    file's."""
    for key, value in _ids(metadata).items():
        if content.get(key, value) not in (value, _NO_SNAPSHOT if key == _SNAPSHOT else value):
            raise UnsupportedError(
                f"not supported: table {name}, because Nessie has {key} {content[key]} for it, and its metadata file has {value}"
            )


def commit_message(name: str, metadata: TableMetadata, former: TableMetadata | None) -> tuple[str, dict[str, str]]:
    """Message and properties of the commit from ``former`` (None: the table is new) to ``metadata``, as Java writes them."""
    current = metadata.current_snapshot
    if current is not None and (former is None or former.current_snapshot_id != current.snapshot_id):
        operation = current.summary.get("operation") or "unknown"
        return f"Iceberg {operation} against {name}", {"iceberg.operation": operation}
    if former is None:
        return f"Iceberg table created/registered with name {name}", {}
    if former.schema.schema_id != metadata.schema.schema_id:
        return f"Iceberg schema change against table {name}", {}
    return f"Iceberg commit against table {name}", {}
