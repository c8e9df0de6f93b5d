"""Option ``merge-schema``: the additions of a source to the table's schema.

New columns, at any level, are added as optional ones, and a column gets the source's type if the format allows the promotion
and it changes no partition value. Otherwise the source must fit the existing column (``assignment``), so that a
source never changes existing columns.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from iceberg_ops.spec.promotion import can_promote, changed_partition_field
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import IcebergType, ListType, MapType, NestedField, StructType
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN
from spark_jobs.runners.spark_schema import iceberg_struct


def merged_schema(metadata: TableMetadata, rows: DataFrame) -> Schema:
    """The table's schema with the additions of ``rows``; the same schema if they add nothing.

    Raises SchemaError for changes that the format forbids, UnsupportedError for a Spark type that Iceberg does not have.
    """
    current = metadata.schema
    source = iceberg_struct(rows.drop(CORRUPT_RECORD_COLUMN).schema)
    united = _within(current.struct, source, metadata)
    merged = SchemaEvolution.of_table(metadata, case_sensitive=False).union_by_name(united).apply()
    return current if current.same_columns(merged) else merged


def _within(have: StructType, source: StructType, metadata: TableMetadata) -> StructType:
    """``source`` without parts that ``have`` cannot add, with the names of ``have``."""
    known = {f.name.lower(): f for f in have.fields}
    return StructType(tuple(_field(known.get(f.name.lower()), f, metadata) for f in source.fields))


def _field(have: NestedField | None, source: NestedField, metadata: TableMetadata) -> NestedField:
    if have is None:
        return replace(source, required=False)
    return replace(source, name=have.name, required=have.required, type=_type(have, source.type, metadata), doc=have.doc)


def _type(field: NestedField, source: IcebergType, metadata: TableMetadata) -> IcebergType:
    have = field.type
    if isinstance(have, StructType) and isinstance(source, StructType):
        return _within(have, source, metadata)
    if isinstance(have, ListType) and isinstance(source, ListType):
        return ListType(_field(have.element, replace(source.element, name=have.element.name), metadata))
    if isinstance(have, MapType) and isinstance(source, MapType):
        return MapType(have.key, _field(have.value, replace(source.value, name=have.value.name), metadata))
    moved = changed_partition_field(field.field_id, have, source, metadata.partition_specs)
    return source if moved is None and can_promote(have, source, metadata.format_version) else have
