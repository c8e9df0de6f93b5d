"""A Parquet file of another writer as a data file of a table: nothing is copied, and mostly only its footer is read.

Columns are found as a reader will find them (field ids, else the name mapping). A file is refused if reading it could be wrong: a
column that the table does not have or whose type does not promote to the table's, a missing required column, field ids of another
table. The rows are read for questions that the footer does not answer (``data.imported_rows``). Bounds are taken from the footer if
a reader of the file would trust them (``data.footer_statistics``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_schema import type_of_arrow
from iceberg_ops.data.arrow.plain_types import plain_schema
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn, child_arrow_fields, has_ids
from iceberg_ops.data.formats.footer_statistics import TrustedStatistics, holds_nulls_only
from iceberg_ops.data.formats.metrics import BoundsOf, Observer, canonical_value, enclosing, file_metrics
from iceberg_ops.data.formats.parquet_encryption import has_encrypted_columns
from iceberg_ops.data.formats.parquet_reader import group_offset
from iceberg_ops.data.sources.imported_forms import misread_form
from iceberg_ops.data.sources.imported_rows import Footer, check_rows
from iceberg_ops.errors import CorruptTableError, DataError, SchemaError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.metrics_config import MetricsConfig
from iceberg_ops.spec.name_mapping import MappedField, NameMapping
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    INT,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    child_fields,
)

T = TypeVar("T")
_IGNORED = INT
"""Stands for a column of type unknown: the file has a leaf for it, whose values are never read."""


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The target of an import. ``from_folders`` are ids of columns that may be missing in files, because their partition
    gives the value."""

    schema: Schema
    spec: PartitionSpec
    mapping: NameMapping
    metrics: MetricsConfig
    format_version: int
    from_folders: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """``names``: the file's name for each field, by id; empty if it has its own field ids."""

    file: DataFile
    names: Mapping[int, str]


def read_parquet_footer(io: FileIO, location: str) -> tuple[pq.FileMetaData, pa.Schema]:
    """A Parquet file's footer and Arrow schema. Raises DataError that names the file if it is not a Parquet file.

    Timestamps of the old type INT96 are instants in microseconds; every engine writes and reads them so.
    """
    path = io.local_path(location)
    try:
        with io.open_input(location) as stored:
            with pq.ParquetFile(stored if path is None else path, coerce_int96_timestamp_unit="us") as file:
                footer, columns = file.metadata, plain_schema(file.schema_arrow)
            encrypted = has_encrypted_columns(footer, stored)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as e:
        raise DataError(f"file {location} is not a whole Parquet file: {e}") from None
    if encrypted:
        raise DataError(f"file {location} has columns that are encrypted: no reader of the table would have their key")
    return footer, _with_instants(columns, _int96_leaves(footer))


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
    footer, arrow = read_parquet_footer(io, location)
    try:
        columns = ColumnIds(target.mapping, target.schema).columns(arrow)
        of_table = _Columns(location, target, footer, _int96_leaves(footer), has_ids(arrow))
        stored = Schema(StructType(of_table.of_level(columns, None, target.mapping)), target.schema.schema_id)
        bounds = _footer_bounds(location, columns, footer.created_by)
    except (CorruptTableError, UnicodeDecodeError) as e:
        raise DataError(f"file {location}: {e}") from None
    except SchemaError as e:
        raise e if location in str(e) else SchemaError(f"file {location}: {e}") from None
    _check_required(location, target, stored)
    offsets = tuple(group_offset(footer.row_group(g)) for g in range(footer.num_row_groups))
    metrics = file_metrics(footer, stored, target.metrics, Observer(stored), offsets, bounds=bounds)
    file = DataFile(
        content=FileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        spec_id=target.spec.spec_id,
        partition=tuple(partition),
        record_count=metrics.record_count,
        file_size_in_bytes=size,
        column_sizes=_known(metrics.column_sizes, target.schema),
        value_counts=_known(metrics.value_counts, target.schema),
        null_value_counts=_known(metrics.null_value_counts, target.schema),
        nan_value_counts={},
        lower_bounds=_known(metrics.lower_bounds, target.schema),
        upper_bounds=_known(metrics.upper_bounds, target.schema),
        split_offsets=offsets,
    )
    check_rows(io, file, Footer(footer, columns, arrow), target.schema, target.spec, target.mapping)
    return ImportedFile(file, {} if of_table.own_ids else dict(_field_names(columns)))


def _known(by_id: Mapping[int, T], schema: Schema) -> dict[int, T]:
    """Without columns of type unknown, which files do not have, whatever values are stored under their ids."""
    return {i: n for i, n in by_id.items() if schema.fields_by_id[i].type != UNKNOWN}


def _field_names(columns: Sequence[FileColumn]) -> Iterator[tuple[int, str]]:
    """Field ids and names of columns and of fields of structs; the parts of lists and maps are named by their roles."""
    for c in columns:
        if c.field_id is not None:
            yield c.field_id, c.name
        if pa.types.is_struct(c.type):
            yield from _field_names(c.children)
        else:
            yield from (
                name for part in c.children for name in _field_names(part.children if pa.types.is_struct(part.type) else ())
            )


@dataclass(frozen=True, slots=True)
class _Columns:
    """A file's columns as the table's fields. ``instants`` are the leaves of type INT96; ``own_ids``: the file has field ids,
    so the name mapping is not used."""

    location: str
    target: ImportTarget
    footer: pq.FileMetaData
    instants: frozenset[int]
    own_ids: bool

    def of_level(
        self, columns: Sequence[FileColumn], parent: int | None, mapped: NameMapping | MappedField | None
    ) -> tuple[NestedField, ...]:
        """Sibling columns as fields of the table. Raises SchemaError, also if two are the same field."""
        owners: dict[int, str] = {}
        level = []
        for column in columns:
            field = self.stored(column, parent, mapped)
            if field.field_id in owners:
                both = f"columns {owners[field.field_id]!r} and {column.name!r}"
                raise SchemaError(f"file {self.location}: {both} are both {field.name!r} of the table")
            owners[field.field_id] = column.name
            level.append(field)
        return tuple(level)

    def stored(self, column: FileColumn, parent: int | None, mapped: NameMapping | MappedField | None) -> NestedField:
        """A column as a field of the table: the table's id and type, children in the file's order. ``mapped`` is the part of the
        name mapping that holds the column's names. Raises SchemaError."""
        schema = self.target.schema
        field = schema.fields_by_id.get(column.field_id) if column.field_id is not None else None
        holder = None if parent is None else schema.fields_by_id[parent].type
        siblings = schema.fields if holder is None else child_fields(holder)
        if field is None or schema.parents[field.field_id] != parent:
            raise SchemaError(f"file {self.location}: column {column.name!r} {self._why_unknown(column, siblings)}")
        if isinstance(holder, ListType | MapType):
            entry = mapped.child(field.name) if mapped is not None else None
        else:
            entry = next((m for m in mapped.fields if m.field_id == field.field_id), None) if mapped is not None else None
            self._check_name(column, field, entry, siblings)
        return replace(field, type=self._type(column, field, entry))

    def _why_unknown(self, column: FileColumn, siblings: Sequence[NestedField]) -> str:
        if all(f.name != column.name for f in siblings):
            return f"is not a column of the table ({', '.join(f.name for f in siblings)})"
        if self.own_ids:
            return f"has field id {column.field_id}, which is another column here or none: its ids are another table's"
        return (
            "has a name that the table's name mapping gives to a column that is gone, because files that were imported before have "
            "it. Write the rows with append instead of importing the file"
        )

    def _check_name(
        self, column: FileColumn, field: NestedField, entry: MappedField | None, siblings: Sequence[NestedField]
    ) -> None:
        """Prevents reading a column as another one: by another table's ids, or by a name that was another column's."""
        names = {field.name.lower(), *(n.lower() for n in (entry.names if entry else ()))}
        if column.name.lower() not in names:
            raise SchemaError(
                f"file {self.location}: column {column.name!r} has field id {field.field_id}, which is {field.name!r} here: "
                "its ids are another table's"
            )
        if field.name != column.name and any(f.name == column.name for f in siblings):
            raise SchemaError(
                f"file {self.location}: column {column.name!r} was the name of column {field.name!r} before, and is another "
                "column's now: it is not known which of them the file means. Write the rows with append instead of importing the "
                "file"
            )

    def _type(self, column: FileColumn, field: NestedField, entry: MappedField | None) -> IcebergType:
        target_type, name = field.type, self.target.schema.names_by_id[field.field_id]
        if not column.children:
            file_type = type_of_arrow(column.type, itertools.count(1), name)
            is_instant = target_type == TIMESTAMP and self.instants.issuperset(column.leaves)
            if target_type.is_nested or not (can_promote(file_type, target_type, self.target.format_version) or is_instant):
                raise SchemaError(
                    f"file {self.location}: column {name!r} is {file_type}, which does not fit the table's {target_type}"
                )
            if target_type != UNKNOWN:
                self._check_form(column, field, name)
            return _IGNORED if target_type == UNKNOWN else target_type
        children = self.of_level(column.children, field.field_id, entry)
        if isinstance(target_type, StructType) and pa.types.is_struct(column.type):
            return StructType(children)
        if isinstance(target_type, ListType) and len(children) == 1:
            return ListType(children[0])
        if isinstance(target_type, MapType) and pa.types.is_map(column.type):
            return MapType(children[0], children[1])
        raise SchemaError(f"file {self.location}: column {name!r} is {column.type}, which does not fit the table's {target_type}")

    def _check_form(self, column: FileColumn, field: NestedField, name: str) -> None:
        """Prevents a table that other engines cannot read, or read with other values."""
        is_inside = self.target.schema.parents[field.field_id] is not None
        for leaf in column.leaves:
            if (form := misread_form(self.footer, leaf, field.type, is_inside=is_inside)) is not None:
                raise SchemaError(
                    f"file {self.location}: column {name!r} holds {form}: Iceberg Java, and Spark with it, fails on these or "
                    "reads other values. Write the rows with append instead of importing the file"
                )


def _check_required(location: str, target: ImportTarget, stored: Schema) -> None:
    for field_id, f in target.schema.fields_by_id.items():
        parent = target.schema.parents[field_id]
        held = parent is None or parent in stored.fields_by_id
        if f.required and held and field_id not in stored.fields_by_id and field_id not in target.from_folders:
            raise SchemaError(f"file {location} has no column {target.schema.names_by_id[field_id]!r}, which is required")


def _footer_bounds(location: str, columns: Sequence[FileColumn], created_by: str | None) -> BoundsOf:
    """Bounds from the footer, if a reader of the file would trust those of every row group. Raises DataError for text that is not
    UTF-8."""
    types = [t for c in columns for t in _leaf_types(c)]
    trusted = TrustedStatistics.of(created_by)

    def bounds(place: int, f: NestedField, chunks: Sequence[pq.ColumnChunkMetaData]) -> tuple[Any, Any] | None:
        chunk_bounds = []
        for chunk in chunks:
            if f.type == STRING:
                _check_text(location, f, chunk)
            if (one := trusted.bounds(chunk, types[place], f.type)) is not None:
                chunk_bounds.append(one)
            elif not holds_nulls_only(chunk):
                return None
        return enclosing(f.type, chunk_bounds)

    return bounds


def _check_text(location: str, f: NestedField, chunk: pq.ColumnChunkMetaData) -> None:
    """Prevents importing a file that cannot be read."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return
    try:
        for raw in (statistics.min_raw, statistics.max_raw):
            canonical_value(f.type, raw)
    except UnicodeDecodeError as e:
        raise DataError(f"file {location}: column {f.name!r} is a string, and holds bytes that are not UTF-8: {e}") from None


def _leaf_types(column: FileColumn) -> list[pa.DataType]:
    return [t for c in column.children for t in _leaf_types(c)] if column.children else [column.type]
