"""The first metadata of a table (Java: TableMetadata.newTableMetadata).

Field ids are assigned from 1, partition field ids from 1000, so a schema read from a data file can be passed unchanged.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import replace

from iceberg_ops.config.properties import FORMAT_VERSION, RESERVED
from iceberg_ops.errors import OptionError, SchemaError, UnsupportedError
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.nesting import check_nesting
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.table_metadata import SUPPORTED_FORMAT_VERSIONS, TableMetadata
from iceberg_ops.spec.types import StructType
from iceberg_ops.spec.validity import check_new_spec, check_schema, check_sort_order


def new_table_metadata(
    schema: Schema,
    spec: PartitionSpec,
    sort_order: SortOrder,
    location: str,
    properties: Mapping[str, str],
    *,
    now_ms: int,
    table_uuid: str | None = None,
    format_version: int | None = None,
) -> TableMetadata:
    """Metadata of an empty table. ``spec`` and ``sort_order`` refer to columns by ``schema``'s ids.

    ``format_version`` None: the property ``format-version``, else 2. Raises SchemaError, OptionError (a reserved property),
    UnsupportedError (an unknown format version or transform).
    """
    version = FORMAT_VERSION.of(properties) if format_version is None else format_version
    if version not in SUPPORTED_FORMAT_VERSIONS:
        raise UnsupportedError(f"not supported: format-version {version}, because only {SUPPORTED_FORMAT_VERSIONS} are known")
    kept = {key: value for key, value in properties.items() if key != FORMAT_VERSION.name}
    if reserved := sorted(RESERVED & kept.keys()):
        raise OptionError(f"table properties must not contain reserved properties, but got {', '.join(reserved)}")
    check_nesting(schema)
    fresh, new_ids = _fresh_schema(schema)
    fresh_spec, fresh_order = _fresh_spec(spec, new_ids), _fresh_order(sort_order, new_ids)
    check_schema(fresh, version)
    check_new_spec(fresh_spec, fresh, version)
    check_sort_order(fresh_order, fresh)
    return TableMetadata(
        format_version=version,
        table_uuid=table_uuid or str(uuid.uuid4()),
        location=stripped_location(location),
        last_updated_ms=now_ms,
        last_column_id=fresh.highest_field_id,
        current_schema_id=0,
        schemas=(fresh,),
        default_spec_id=0,
        partition_specs=(fresh_spec,),
        last_partition_id=fresh_spec.last_assigned_field_id,
        default_sort_order_id=fresh_order.order_id,
        sort_orders=(fresh_order,),
        properties=kept,
        next_row_id=0 if version >= 3 else None,
    )


def stripped_location(location: str) -> str:
    """The location without trailing slashes, unless only a scheme would remain."""
    stripped = location.rstrip("/")
    return stripped if stripped and not stripped.endswith(":") else location


def _fresh_schema(schema: Schema) -> tuple[Schema, dict[int, int]]:
    counter = itertools.count(1)
    struct = with_fresh_ids(schema.struct, lambda: next(counter))
    assert isinstance(struct, StructType)
    fresh = Schema(struct, 0, (), schema.extra)
    new_ids = dict(zip(schema.fields_by_id, fresh.fields_by_id, strict=True))
    identifiers = tuple(_new_id(new_ids, i, "an identifier field") for i in schema.identifier_field_ids)
    return replace(fresh, identifier_field_ids=identifiers), new_ids


def _new_id(new_ids: Mapping[int, int], old: int, what: str) -> int:
    if old not in new_ids:
        raise SchemaError(f"{what}: its source column {old} is not in the schema")
    return new_ids[old]


def _fresh_spec(spec: PartitionSpec, new_ids: Mapping[int, int]) -> PartitionSpec:
    fields = tuple(
        replace(
            f,
            source_ids=tuple(_new_id(new_ids, i, f"partition field {f.name!r}") for i in f.source_ids),
            field_id=FIRST_PARTITION_FIELD_ID + position,
        )
        for position, f in enumerate(spec.fields)
    )
    return replace(spec, spec_id=0, fields=fields)


def _fresh_order(order: SortOrder, new_ids: Mapping[int, int]) -> SortOrder:
    fields = tuple(replace(f, source_ids=tuple(_new_id(new_ids, i, "a sort field") for i in f.source_ids)) for f in order.fields)
    return replace(order, order_id=1 if fields else 0, fields=fields)
