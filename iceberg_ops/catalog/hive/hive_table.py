"""The Hive Metastore's record of an Iceberg table (Java: ``HMSTablePropertyHelper``, ``HiveOperationsBase``).

Only ``metadata_location`` defines the table. All other parameters are for Hive and for people who look into the metastore:
the table's properties, its statistics, and its columns with Hive's types. Types that Hive does not have become ``string`` or
``binary``, as in Java; Java refuses some of them.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping

from pymetastore.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from pymetastore.hive_metastore.ttypes import Table as HiveTable

from iceberg_ops.catalog.hive_types import hive_type
from iceberg_ops.catalog.pointer import RefusedError
from iceberg_ops.serde.json.partition_json import spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_to_dict
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.table_metadata import TableMetadata

METADATA_LOCATION = "metadata_location"
PREVIOUS_METADATA_LOCATION = "previous_metadata_location"
TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
LOCK_ENABLED = "engine.hive.lock-enabled"
ENGINE_ENABLED = "engine.hive.enabled"
OWNER = "hive.metastore.table.owner"
DO_NOT_UPDATE_STATS = "DO_NOT_UPDATE_STATS"
EXTERNAL = "EXTERNAL"
_MOST_OF_KEY = _MOST_OF_COMMENT = 256
MOST_CHARACTERS = 32_672
"""The longest parameter value that the metastore's database accepts (Java: ``iceberg.hive.table-property-max-size``)."""

_TRANSLATED = {"gc.enabled": "external.table.purge"}
_STATISTICS = {
    summary_keys.TOTAL_DATA_FILES: "numFiles",
    summary_keys.TOTAL_RECORDS: "numRows",
    summary_keys.TOTAL_FILES_SIZE: "totalSize",
}
_STORAGE_HANDLER = "storage_handler"
_HANDLER = "org.apache.iceberg.mr.hive.HiveIceberg"


def new_hive_table(database: str, name: str, owner: str) -> HiveTable:
    """A table without columns and without its own parameters."""
    now = int(time.time())
    return HiveTable(
        tableName=name,
        dbName=database,
        owner=owner,
        createTime=now,
        lastAccessTime=now,
        retention=2**31 - 1,
        partitionKeys=[],
        parameters={EXTERNAL: "TRUE", DO_NOT_UPDATE_STATS: "true"},
        tableType="EXTERNAL_TABLE",
    )


def new_hive_view(database: str, name: str) -> HiveTable:
    """A view without columns: unlike a table it creates no folder."""
    view = new_hive_table(database, name, "iceberg-ops")
    view.tableType, view.viewOriginalText, view.viewExpandedText, view.parameters = (
        "VIRTUAL_VIEW",
        "select 1",
        "select 1",
        {METADATA_LOCATION: "none"},
    )
    view.sd = StorageDescriptor(cols=[], serdeInfo=SerDeInfo(parameters={}), parameters={}, bucketCols=[], sortCols=[])
    return view


def set_metadata(table: HiveTable, location: str, metadata: TableMetadata, before: Mapping[str, str], expected: str | None) -> None:
    """Record that the table's current metadata is ``metadata``, at ``location``. ``before`` are the table's former properties:
    those that it no longer has are removed. ``expected`` is its former location, None for a new table. A table that is set up for
    Hive stays so if its property does not decide: another engine may have it from its own configuration. Raises RefusedError."""
    parameters: dict[str, str] = dict(table.parameters or {})
    for key in before.keys() - metadata.properties.keys():
        parameters.pop(_TRANSLATED.get(key, key), None)
    for key, value in metadata.properties.items():
        if key.lower() != OWNER and len(key) <= _MOST_OF_KEY and len(value) <= MOST_CHARACTERS:
            parameters[_TRANSLATED.get(key, key)] = value
    if metadata.table_uuid:
        parameters["uuid"] = metadata.table_uuid
    parameters |= {TABLE_TYPE: ICEBERG, METADATA_LOCATION: location}
    if expected:
        parameters[PREVIOUS_METADATA_LOCATION] = expected
    handler = parameters.pop(_STORAGE_HANDLER, "")
    setting = metadata.properties.get(ENGINE_ENABLED)
    is_for_hive = ENGINE_ENABLED not in before and handler.startswith(_HANDLER) if setting is None else setting.lower() == "true"
    if is_for_hive:
        parameters[_STORAGE_HANDLER] = f"{_HANDLER}StorageHandler"
    parameters.pop("COLUMN_STATS_ACCURATE", None)  # Hive would answer queries from statistics of an earlier state.
    parameters[DO_NOT_UPDATE_STATS] = "true"
    for key in ("current-snapshot-id", "current-snapshot-timestamp-ms", "current-snapshot-summary"):
        parameters.pop(key, None)
    for key in ("current-schema", "default-partition-spec", "default-sort-order"):
        parameters.pop(key, None)
    parameters |= _shown(metadata)
    table.parameters = parameters
    table.sd = _storage(metadata, is_for_hive)


def _shown(metadata: TableMetadata) -> dict[str, str]:
    """The metadata's content in its displayed form, without values that are too long for the metastore."""
    parameters = {"snapshot-count": str(len(metadata.snapshots)), "current-schema": _json(schema_to_dict(metadata.schema))}
    if not metadata.spec.is_unpartitioned:
        parameters["default-partition-spec"] = _json(spec_to_dict(metadata.spec))
    if metadata.sort_order.fields:
        parameters["default-sort-order"] = _json(sort_order_to_dict(metadata.sort_order))
    if (snapshot := metadata.current_snapshot) is not None:
        parameters["current-snapshot-id"] = str(snapshot.snapshot_id)
        parameters["current-snapshot-timestamp-ms"] = str(snapshot.timestamp_ms)
        parameters["current-snapshot-summary"] = _json({k: v for k, v in snapshot.summary.items() if k != "operation"})
        parameters |= {name: snapshot.summary[key] for key, name in _STATISTICS.items() if key in snapshot.summary}
    return {key: value for key, value in parameters.items() if len(value) <= MOST_CHARACTERS}


def _storage(metadata: TableMetadata, is_for_hive: bool) -> StorageDescriptor:
    if is_for_hive:
        classes = (f"{_HANDLER}InputFormat", f"{_HANDLER}OutputFormat", f"{_HANDLER}SerDe")
    else:
        formats = "org.apache.hadoop.mapred.File"
        classes = (f"{formats}InputFormat", f"{formats}OutputFormat", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe")
    fields = metadata.schema.fields
    if twice := next((name for name, n in Counter(f.name.lower() for f in fields).items() if n > 1), None):
        raise RefusedError(f"a Hive Metastore does not take two columns {twice!r} that differ only in case; nothing was changed")
    return StorageDescriptor(
        cols=[FieldSchema(name=f.name, type=hive_type(f.type), comment=f.doc and f.doc[:_MOST_OF_COMMENT]) for f in fields],
        location=metadata.location,
        inputFormat=classes[0],
        outputFormat=classes[1],
        serdeInfo=SerDeInfo(serializationLib=classes[2], parameters={}),
        parameters={},
        bucketCols=[],
        sortCols=[],
        compressed=False,
        numBuckets=0,
    )


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
