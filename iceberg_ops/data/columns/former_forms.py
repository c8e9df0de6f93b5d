"""Detects columns of a file that are stored in the form of a former column of the table.

Another engine may have replaced the table (CREATE OR REPLACE TABLE) and left its branches: then a column has the id of the former
one with its name. Many types are stored in a form that can be read as another type: a long is a timestamp without its annotation,
bytes are a decimal's digits. Rows of the former column would be read with other values. So a file is refused if its column has the
form of a former type, and of no type from which the current column may have been promoted. Integers among each other and decimals
among each other keep their values, or do not fit: these are read. No file is read for a column of type unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.columns.file_columns import FileColumn, find_column
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.errors import CorruptTableError, FormerColumnsError
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.types import (
    INT,
    LONG,
    TIME,
    UNKNOWN,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)


def forbid_former(
    location: str, file_format: FileFormat, columns: Sequence[FileColumn], fields: Sequence[NestedField], context: ReadContext
) -> None:
    """Prevents reading columns of a file as ``fields`` that they were not written for. Raises FormerColumnsError."""
    if context.types_had:
        _Forms(location, file_format, context).check(columns, fields)


class _Forms:
    def __init__(self, location: str, file_format: FileFormat, context: ReadContext) -> None:
        self._location, self._context, self._is_orc = location, context, file_format is FileFormat.ORC

    def check(self, columns: Sequence[FileColumn], fields: Sequence[NestedField]) -> None:
        for f in fields:
            if (column := find_column(columns, f.field_id)) is not None:
                self._check(column, f)

    def _check(self, column: FileColumn, f: NestedField) -> None:
        if isinstance(f.type, StructType):
            self.check(column.children, f.type.fields)
        elif isinstance(f.type, ListType) and len(column.children) == 1:
            self._check(column.children[0], f.type.element)
        elif isinstance(f.type, MapType) and len(column.children) == 2:
            self._check(column.children[0], f.type.key)
            self._check(column.children[1], f.type.value)
        elif f.type != UNKNOWN and not column.children and (former := self._former(column.type, f)) is not None:
            message = f"file {self._location}: column {f.name} is stored as {former}, which cannot be read as {f.type}"
            raise FormerColumnsError.from_error(CorruptTableError(message))

    def _former(self, stored: pa.DataType, f: NestedField) -> IcebergType | None:
        """The former type in which a file's column is stored; None: it is stored as the current type, or in a form of neither."""
        had = self._context.types_had.get(f.field_id, frozenset())
        version = self._context.format_version
        readable = {f.type, *(t for t in had if can_promote(t, f.type, version))}
        form = _plain(stored)
        if form in {self._form(t) for t in readable}:
            return None
        return next((t for t in had - readable if self._form(t) == form and not _keep_values(t, f.type)), None)

    def _form(self, type_: IcebergType) -> pa.DataType:
        """The stored form of the type. ORC has no times and no values of fixed length, and all its timestamps are nanoseconds."""
        form = arrow_type(type_)
        if self._is_orc and pa.types.is_timestamp(form):
            return pa.timestamp("ns", form.tz)
        if self._is_orc and type_ == TIME:
            return pa.int64()
        return pa.binary() if self._is_orc and (type_ == UUID or isinstance(type_, FixedType)) else form


def _plain(stored: pa.DataType) -> pa.DataType:
    if isinstance(stored, pa.DictionaryType):
        return _plain(stored.value_type)
    if pa.types.is_large_string(stored) or pa.types.is_string_view(stored):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(stored) or pa.types.is_binary_view(stored) else stored


def _keep_values(former: IcebergType, now: IcebergType) -> bool:
    return {former, now} == {INT, LONG} or (isinstance(former, DecimalType) and isinstance(now, DecimalType))
