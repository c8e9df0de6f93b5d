"""Converts given rows to the canonical batch of a schema.

Columns are matched by name (exact, then ignoring case), never by field ids: a batch may have another table's ids. A missing column
or field of a struct gets its write default, else null; a required one without default is an error (DEFAULT-02). Other errors are a
null in a required column, a column or a field of a struct that the table does not have, and a type of another kind (an
integer is not a valid decimal, date or timestamp). Numbers and times are converted within their kind.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_schema, arrow_type
from iceberg_ops.data.arrow.nested_nulls import map_entries
from iceberg_ops.data.arrow.plain_types import plain_batch
from iceberg_ops.data.arrow.stored_texts import with_checked_texts
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn
from iceberg_ops.data.columns.missing_values import write_defaults
from iceberg_ops.data.columns.projection import project
from iceberg_ops.data.columns.promotion import family
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.spec.name_mapping import create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import UNKNOWN, VARIANT, ListType, MapType, NestedField, StructType, child_fields

_SAME_BYTES = frozenset({("binary", "fixed"), ("fixed", "binary"), ("string", "binary"), ("binary", "string")})


def conform(
    batch: pa.RecordBatch, schema: Schema, *, keep_dictionaries: bool = False, of_structs_some: bool = False
) -> pa.RecordBatch:
    """``batch`` as the canonical batch of ``schema``. Raises DataError.

    ``of_structs_some``: structs may have more fields than the schema; these are left out."""
    batch = _without_null_entries(plain_batch(batch))
    columns = ColumnIds(mapping=create_name_mapping(schema), trust_ids=False).columns(batch.schema)
    known = {f.field_id for f in schema.fields}
    if extra := [c.name for c in columns if c.field_id not in known]:
        raise DataError(f"column {extra[0]!r} is not in the table: its columns are {', '.join(f.name for f in schema.fields)}")
    _check_kinds(columns, schema.fields, "", of_structs_some)
    try:
        made = project(batch, columns, schema.fields, write_defaults(schema), keep_dictionaries=keep_dictionaries)
    except (CorruptTableError, pa.ArrowInvalid) as e:
        raise DataError(str(e).replace("the file stores", "the rows hold")) from None
    _check_values(made)
    check_required(made, schema)
    return made


def _without_null_entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries with null among their values become plain columns: Arrow's null counts do not include such a null."""
    for place, column in enumerate(batch.columns):
        if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
            plain = column.dictionary_decode()
            batch = batch.set_column(place, batch.schema.field(place).with_type(plain.type), plain)
    return batch


def _check_values(batch: pa.RecordBatch) -> None:
    """Raise DataError for text that is not UTF-8, and for any other value that Arrow finds invalid for its type."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as e:
            raise DataError(f"column {name}: the rows hold a value that is not a valid {column.type}: {e}") from None


def _check_kinds(columns: Sequence[FileColumn], fields: Sequence[NestedField], path: str, some: bool) -> None:
    """Prevents forms that are allowed in files but not in given rows: integers for unscaled decimals, days or microseconds. Fields
    of structs that the table does not have are refused as well."""
    by_id = {f.field_id: f for f in fields}
    for c in columns:
        f = by_id.get(c.field_id) if c.field_id is not None else None
        if f is None and some:
            continue
        if f is None:
            raise DataError(
                f"column {path + c.name!r} is not in the table: its columns are {', '.join(path + f.name for f in fields)}"
            )
        if f.type in (VARIANT, UNKNOWN):
            continue
        if isinstance(f.type, StructType) and pa.types.is_struct(c.type):
            _check_kinds(c.children, f.type.fields, f"{path}{f.name}.", some)
        elif isinstance(f.type, ListType | MapType):
            inner = child_fields(f.type)
            if len(inner) == len(c.children):
                _check_kinds(c.children, inner, f"{path}{f.name}.", some)
        elif f.type.is_primitive and not c.children and not _is_of_kind(c.type, arrow_type(f.type)):
            raise DataError(f"column {path}{f.name}: the rows hold {c.type}, which is not {f.type}")


def _is_of_kind(given: pa.DataType, target: pa.DataType) -> bool:
    while isinstance(given, pa.DictionaryType | pa.BaseExtensionType):
        given = given.value_type if isinstance(given, pa.DictionaryType) else given.storage_type
    have, want = family(given), family(target)
    return have in (want, "null") or (have, want) in _SAME_BYTES


def check_required(batch: pa.RecordBatch, schema: Schema) -> None:
    """Raise DataError for a null in a required column; inside structs, lists and maps, for a null if these are present."""
    for f, array in zip(schema.fields, batch.columns, strict=True):
        _check(f, array, f.name)


def check_stored(batch: pa.RecordBatch, schema: Schema, location: str) -> pa.RecordBatch:
    """Checks rows of a table's file that are rewritten unchanged. Raises CorruptTableError, with file and column, for a
    null in a required column, which no file can hold (Parquet would store an empty value), and for text that is not UTF-8."""
    try:
        check_required(batch, schema)
    except DataError as e:
        raise CorruptTableError(
            f"file {location}: {e}. Give these rows a value, delete them, or make the column optional (DROP NOT NULL)"
        ) from None
    return with_checked_texts(batch, schema.fields, location)


def _check(f: NestedField, array: pa.Array, name: str) -> None:
    if not _requires(f):
        return
    if isinstance(array, pa.DictionaryArray) and array.dictionary.null_count:
        array = array.dictionary_decode()
    if f.required and array.null_count:
        raise DataError(f"column {name} is required, but {array.null_count} of {len(array)} rows have no value")
    if isinstance(f.type, StructType):
        present = array.drop_null() if array.null_count else array
        for child, part in zip(f.type.fields, present.flatten(), strict=True):
            _check(child, part, f"{name}.{child.name}")
    elif isinstance(f.type, ListType):
        _check(f.type.element, array.flatten(), f"{name}.element")
    elif isinstance(f.type, MapType):
        _check(f.type.value, map_entries(array).field(1), f"{name}.value")


def _requires(f: NestedField) -> bool:
    """Whether the field, or a part of it, must have a value. Map keys always must: Arrow has no null keys."""
    parts = (f.type.value,) if isinstance(f.type, MapType) else child_fields(f.type)
    return f.required or any(map(_requires, parts))


def empty(schema: Schema) -> pa.Table:
    """No rows of that schema."""
    return arrow_schema(schema).empty_table()
