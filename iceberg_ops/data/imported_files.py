"""A Parquet file that someone else wrote, as a data file of a table: nothing is copied, only its footer is read.

Columns are found as a reader will find them (field ids, else the name mapping), and a file is refused where reading it could go
wrong: a column the table does not have or of a type that does not promote to the table's, a required column that is missing or may
hold nulls, field ids of another table. Bounds are taken from the footer only where its physical values mean what the table's type
means; a bound that is left out costs time, a wrong one rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow_schema import type_of_arrow
from iceberg_ops.data.file_columns import ColumnIds, FileColumn, child_arrow_fields, has_ids
from iceberg_ops.data.imported_partitions import check_partition_columns
from iceberg_ops.data.metrics import FileMetrics, Observer, file_metrics, leaves
from iceberg_ops.data.parquet_reader import group_offset
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.name_mapping import NameMapping
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    DOUBLE,
    FLOAT,
    INT,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from iceberg_ops.spec.values import from_bytes

_IGNORED = INT
"""Stands for a column of type unknown: the file has a leaf for it, of which no value is read."""


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """What a file is imported into. ``from_folders`` are ids of columns that may be missing from files, because their partition
    says their value."""

    schema: Schema
    spec: PartitionSpec
    mapping: NameMapping
    metrics: MetricsConfig
    format_version: int
    from_folders: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """``names``: what the file calls each field, by id; empty where it carries field ids of its own."""

    file: DataFile
    names: Mapping[int, str]


def footer_of(io: FileIO, location: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """A Parquet file's footer and Arrow schema. Raises DataError that names the file where it is none.

    Timestamps of the old type INT96 are instants in microseconds, which is how every engine writes and reads them.
    """
    path = io.local_path(location)
    try:
        source = path if path is not None else io.open_input(location)
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
            return file.metadata, _with_instants(file.schema_arrow, _int96_leaves(file.metadata))
    except (pa.ArrowException, OSError) as e:
        raise DataError(f"file {location} is not a whole Parquet file: {e}") from None


def _int96_leaves(footer: pq.FileMetaData) -> frozenset[int]:
    return frozenset(n for n in range(footer.num_columns) if footer.schema.column(n).physical_type == "INT96")


def _with_instants(schema: pa.Schema, leaves_: frozenset[int]) -> pa.Schema:
    if not leaves_:
        return schema
    leaf = itertools.count()

    def typed(f: pa.Field) -> pa.Field:
        inner = [typed(child) for child in child_arrow_fields(f.type)]
        if pa.types.is_struct(f.type):
            return f.with_type(pa.struct(inner))
        if pa.types.is_map(f.type):
            return f.with_type(pa.map_(*inner))
        if inner:
            return f.with_type(pa.list_(*inner))
        return f.with_type(pa.timestamp("us", "UTC")) if next(leaf) in leaves_ else f

    return pa.schema([typed(f) for f in schema])


def imported_file(io: FileIO, location: str, size: int, target: ImportTarget, partition: Sequence[Any]) -> ImportedFile:
    """The file as a data file of the table. Raises SchemaError, DataError."""
    footer, arrow = footer_of(io, location)
    columns = ColumnIds(target.mapping, target.schema).columns(arrow)
    instants = _int96_leaves(footer)
    stored = Schema(StructType(tuple(_stored(location, target, c, None, instants) for c in columns)), target.schema.schema_id)
    _check_required(location, target, stored)
    offsets = tuple(group_offset(footer.row_group(g)) for g in range(footer.num_row_groups))
    bounded = _same_in_the_file(columns, stored, instants)
    found = file_metrics(footer, stored, target.metrics, Observer(stored), offsets, bounded=bounded)
    _check_nulls(location, target, stored, footer)
    names = {f.field_id: c.name for f, c in zip(stored.fields, columns, strict=True)}
    check_partition_columns(io, location, names, target.schema, target.spec, partition)
    trusted = _trusted_bounds(stored, footer, found)
    file = DataFile(
        content=FileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        spec_id=target.spec.spec_id,
        partition=tuple(partition),
        record_count=found.record_count,
        file_size_in_bytes=size,
        column_sizes=_known(found.column_sizes, target.schema),
        value_counts=_known(found.value_counts, target.schema),
        null_value_counts=_known(found.null_value_counts, target.schema),
        nan_value_counts={},
        lower_bounds={i: b for i, b in found.lower_bounds.items() if i in trusted},
        upper_bounds={i: b for i, b in found.upper_bounds.items() if i in trusted},
        split_offsets=offsets,
    )
    return ImportedFile(file, {} if has_ids(arrow) else dict(_names_of(columns)))


def _known(counts: Mapping[int, int], schema: Schema) -> dict[int, int]:
    """Without columns of type unknown, which files do not have, whatever they hold under their ids."""
    return {i: n for i, n in counts.items() if schema.fields_by_id[i].type != UNKNOWN}


def _names_of(columns: Sequence[FileColumn]) -> Iterator[tuple[int, str]]:
    """Field ids and names of columns and of fields of structs; the parts of lists and maps go by their roles."""
    for c in columns:
        if c.field_id is not None:
            yield c.field_id, c.name
        if pa.types.is_struct(c.type):
            yield from _names_of(c.children)
        else:
            yield from (found for part in c.children for found in _names_of(part.children if pa.types.is_struct(part.type) else ()))


def _stored(location: str, target: ImportTarget, column: FileColumn, parent: int | None, instants: frozenset[int]) -> NestedField:
    """A file's column as a field of the table: the table's id and type, children in the file's order."""
    field = target.schema.fields_by_id.get(column.field_id) if column.field_id is not None else None
    if field is None or target.schema.parents[field.field_id] != parent:
        known = ", ".join(f.name for f in target.schema.fields)
        raise SchemaError(f"file {location}: column {column.name!r} is not a column of the table ({known})")
    role = isinstance(target.schema.fields_by_id[parent].type, ListType | MapType) if parent is not None else False
    entry = target.mapping.child(field.name) if parent is None else None
    names = {field.name.lower(), *(n.lower() for n in (entry.names if entry else ()))}
    if not role and parent is None and column.name.lower() not in names:
        raise SchemaError(
            f"file {location}: column {column.name!r} has field id {field.field_id}, which is {field.name!r} here: "
            "its ids are another table's"
        )
    return replace(field, type=_stored_type(location, target, column, field, instants))


def _stored_type(
    location: str, target: ImportTarget, column: FileColumn, field: NestedField, instants: frozenset[int]
) -> IcebergType:
    wanted, name = field.type, target.schema.names_by_id[field.field_id]
    if not column.children:
        found = type_of_arrow(column.type, itertools.count(1), name)
        fits = can_promote(found, wanted, target.format_version) or (wanted == TIMESTAMP and instants.issuperset(column.leaves))
        if wanted.is_nested or not fits:
            raise SchemaError(f"file {location}: column {name!r} is {found}, which does not fit the table's {wanted}")
        return _IGNORED if wanted == UNKNOWN else wanted
    children = [_stored(location, target, c, field.field_id, instants) for c in column.children]
    if isinstance(wanted, StructType) and pa.types.is_struct(column.type):
        return StructType(tuple(children))
    if isinstance(wanted, ListType) and len(children) == 1:
        return ListType(children[0])
    if isinstance(wanted, MapType) and pa.types.is_map(column.type):
        return MapType(children[0], children[1])
    raise SchemaError(f"file {location}: column {name!r} is {column.type}, which does not fit the table's {wanted}")


def _check_required(location: str, target: ImportTarget, stored: Schema) -> None:
    for field_id, f in target.schema.fields_by_id.items():
        parent = target.schema.parents[field_id]
        held = parent is None or parent in stored.fields_by_id
        if f.required and held and field_id not in stored.fields_by_id and field_id not in target.from_folders:
            raise SchemaError(f"file {location} has no column {target.schema.names_by_id[field_id]!r}, which is required")


def _check_nulls(location: str, target: ImportTarget, stored: Schema, footer: pq.FileMetaData) -> None:
    for place, leaf in enumerate(leaves(stored)):
        if not leaf.field.required or leaf.repeated or target.schema.parents[leaf.field.field_id] is not None:
            continue
        chunks = [footer.row_group(g).column(place) for g in range(footer.num_row_groups)]
        if footer.schema.column(place).max_definition_level == 0:
            continue
        if any(k.statistics is None or not k.statistics.has_null_count or k.statistics.null_count for k in chunks):
            name = target.schema.names_by_id[leaf.field.field_id]
            raise DataError(f"file {location}: column {name!r} is required, and the file holds nulls there or does not say")


def _same_in_the_file(columns: Sequence[FileColumn], stored: Schema, instants: frozenset[int]) -> set[int]:
    """Ids of leaves whose physical values mean what values of the table's type mean."""
    types = [t for c in columns for t in _leaf_types(c)]
    pairs = enumerate(zip(leaves(stored), types, strict=True))
    return {leaf.field.field_id for n, (leaf, type_) in pairs if n not in instants and _means_the_same(type_, leaf.field.type)}


def _trusted_bounds(stored: Schema, footer: pq.FileMetaData, found: FileMetrics) -> set[int]:
    """Ids of leaves whose footer statistics can be taken as bounds."""
    trusted = set()
    for place, leaf in enumerate(leaves(stored)):
        field_id = leaf.field.field_id
        if field_id not in found.lower_bounds:
            continue
        chunks = [footer.row_group(g).column(place).statistics for g in range(footer.num_row_groups)]
        known = all(s is not None and (s.has_min_max or s.null_count == s.num_values + s.null_count) for s in chunks)
        if leaf.field.type in (FLOAT, DOUBLE) and not (known and _are_numbers(leaf.field.type, field_id, found)):
            continue
        trusted.add(field_id)
    return trusted


def _are_numbers(type_: IcebergType, field_id: int, found: FileMetrics) -> bool:
    """No NaN: some writers took it for a least or greatest value. Zeros of either sign are one value to them."""
    bounds = (found.lower_bounds[field_id], found.upper_bounds.get(field_id))
    values = [from_bytes(type_, b) for b in bounds if b is not None]
    return not any(math.isnan(v) or v == 0 for v in values)


def _leaf_types(column: FileColumn) -> list[pa.DataType]:
    return [t for c in column.children for t in _leaf_types(c)] if column.children else [column.type]


def _means_the_same(type_: pa.DataType, wanted: IcebergType) -> bool:
    """Statistics in the unit and sign the table has them in: no milliseconds, no unsigned numbers, no half floats."""
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return str(type_.unit) == ("ns" if wanted in (TIMESTAMP_NS, TIMESTAMPTZ_NS) else "us")
    return bool(
        pa.types.is_signed_integer(type_)
        or pa.types.is_float32(type_)
        or pa.types.is_float64(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_fixed_size_binary(type_)
    )
