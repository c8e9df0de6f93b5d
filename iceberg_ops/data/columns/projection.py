"""Converts a file's batch to the read schema (spec: "Column Projection").

Columns are matched by id at every depth, so renames, moves and drops cost nothing. Missing columns are filled at the top level and
inside structs in the same way (``missing_values``): with the file's identity partition value, then with the field's default, then
null. If a required field has none of these, the file cannot be read. A null struct, list or map stays null. A struct without any of
its fields in the file keeps its own nulls (in Java it becomes null), because its presence is data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_field, arrow_type
from iceberg_ops.data.arrow.arrow_values import bare_batch, repeated
from iceberg_ops.data.arrow.plain_types import as_lists, is_list, list_elements, list_offsets
from iceberg_ops.data.arrow.variant import read_variant
from iceberg_ops.data.columns.file_columns import FileColumn, find_column
from iceberg_ops.data.columns.missing_values import OF_NO_PARTITION, MissingValues
from iceberg_ops.data.columns.promotion import promote
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.types import UNKNOWN, VARIANT, ListType, MapType, NestedField, StructType

_NEEDED: dict[str, tuple[Sequence[NestedField], Sequence[FileColumn], set[int]]] = {}
"""The last result: consecutive files mostly have the same columns."""


def needed_leaves(fields: Sequence[NestedField], columns: Sequence[FileColumn]) -> set[int]:
    """Numbers of the file's leaves to read for those fields. For a struct without a wanted leaf one leaf is read to find its
    nulls."""
    last = _NEEDED.get("last")
    if last is not None and last[0] is fields and last[1] is columns:
        return set(last[2])
    leaf_ids: set[int] = set()
    for f in fields:
        column = find_column(columns, f.field_id)
        if column is None or f.type == UNKNOWN:
            continue
        leaf_ids |= _leaf_ids_to_read(f, column)
    if isinstance(fields, tuple) and isinstance(columns, tuple):  # a list may change
        _NEEDED["last"] = (fields, columns, leaf_ids)
    return set(leaf_ids)


def _leaf_ids_to_read(f: NestedField, column: FileColumn) -> set[int]:
    if f.type == VARIANT or not _has_shape(column, f):
        return set(column.leaves)
    if isinstance(f.type, StructType):
        return needed_leaves(f.type.fields, column.children) or set(_cheapest(column))
    if isinstance(f.type, ListType):
        return _leaf_ids_to_read(f.type.element, column.children[0])
    assert isinstance(f.type, MapType)
    return set(column.children[0].leaves) | _leaf_ids_to_read(f.type.value, column.children[1])


def _cheapest(column: FileColumn) -> Sequence[int]:
    """A leaf that shows the nulls of the column. For a map both sides: Arrow reads one side alone as another type."""
    if pa.types.is_map(column.type):
        return [*column.children[0].leaves, *_cheapest(column.children[1])]
    flat = [c for c in column.children if not c.children]
    return _cheapest((flat or column.children)[0]) if column.children else column.leaves[:1]


def project(
    batch: pa.RecordBatch,
    columns: Sequence[FileColumn],
    fields: Sequence[NestedField],
    missing: MissingValues = OF_NO_PARTITION,
    *,
    keep_dictionaries: bool = False,
) -> pa.RecordBatch:
    """``batch`` (whose columns are ``columns``) as ``fields``; ``missing`` has the values of missing fields, at any depth.

    Raises CorruptTableError for a type that cannot be read as the field's type, and the errors of ``missing`` for a required field.
    """
    same = _same_values(columns, fields, keep_dictionaries)
    if same is not None and same.places is not None:
        return pa.RecordBatch.from_arrays([batch.column(place) for place in same.places], schema=same.schema)
    arrays, out = [], []
    for f in fields:
        column = find_column(columns, f.field_id)
        array = None if column is None else batch.column(column.index)
        made = _field(array, column, f, batch.num_rows, missing, keep_dictionaries)
        arrays.append(made)
        target = arrow_field(f)
        out.append(target if made.type.equals(target.type) else target.with_type(made.type))
    if not arrays:
        return bare_batch(batch.num_rows)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(out))


@dataclass(frozen=True, slots=True)
class _SameValues:
    """Columns of a file that need no conversion: their positions (None: some need it), and their schema."""

    columns: Sequence[FileColumn]
    fields: Sequence[NestedField]
    keep: bool
    places: tuple[int, ...] | None
    schema: pa.Schema

    def applies_to(self, columns: Sequence[FileColumn], fields: Sequence[NestedField], keep: bool) -> bool:
        return self.columns is columns and self.fields is fields and self.keep is keep


_LAST: dict[bool, _SameValues] = {}
"""The last result: consecutive batches mostly have the same columns."""


def _same_values(columns: Sequence[FileColumn], fields: Sequence[NestedField], keep: bool) -> _SameValues | None:
    """The cache is only used for tuples, which do not change."""
    if not isinstance(columns, tuple) or not isinstance(fields, tuple) or not fields:
        return None
    last = _LAST.get(keep)
    if last is None or not last.applies_to(columns, fields, keep):
        plain_columns = [_as_it_is(columns, f, keep) for f in fields]
        places = None if None in plain_columns else tuple(column.index for column in plain_columns if column is not None)
        schema = pa.schema([arrow_field(f).with_type(c.type) for f, c in zip(fields, plain_columns, strict=True) if c is not None])
        _LAST[keep] = last = _SameValues(columns, fields, keep, places, schema)
    return last


def _as_it_is(columns: Sequence[FileColumn], f: NestedField, keep: bool) -> FileColumn | None:
    column = find_column(columns, f.field_id)
    if column is None or f.type.is_nested or f.type in (UNKNOWN, VARIANT):
        return None
    expected_type = arrow_type(f.type)
    in_dictionary = keep and isinstance(column.type, pa.DictionaryType) and column.type.value_type == expected_type
    return column if in_dictionary or column.type == expected_type else None


def _field(
    array: pa.Array | None,
    column: FileColumn | None,
    f: NestedField,
    rows: int,
    missing: MissingValues,
    keep: bool = False,
) -> pa.Array:
    if f.type == UNKNOWN:
        return pa.nulls(rows)
    if array is None or column is None:
        return repeated(f.type, missing.value_for(f) if rows else None, rows)
    if keep and isinstance(column.type, pa.DictionaryType) and column.type.value_type == arrow_type(f.type):
        return array
    return _convert(array, column, f, missing)


def _convert(array: pa.Array, column: FileColumn, f: NestedField, missing: MissingValues) -> pa.Array:
    if pa.types.is_null(column.type):  # the stored form of type unknown, which promotes to any type
        return repeated(f.type, None, len(array))
    if f.type == VARIANT:
        return read_variant(array, f.name)
    if not f.type.is_nested:
        if column.children:
            raise _unreadable(column, f)
        return promote(array, arrow_type(f.type), f.name)
    if not _has_shape(column, f):
        raise _unreadable(column, f)
    if isinstance(f.type, StructType):
        return _struct(array, column, f.type, missing)
    if isinstance(f.type, ListType):
        return _list(array, column, f.type, missing)
    assert isinstance(f.type, MapType)
    return _map(array, column, f.type, missing)


def _unreadable(column: FileColumn, f: NestedField) -> CorruptTableError:
    return CorruptTableError(f"column {f.name}: the file stores {column.type}, which cannot be read as {f.type}")


def _has_shape(column: FileColumn, f: NestedField) -> bool:
    """Whether the file stores a struct, list or map for a field of that kind."""
    if isinstance(f.type, StructType):
        return bool(pa.types.is_struct(column.type))
    if isinstance(f.type, MapType):
        return bool(pa.types.is_map(column.type))
    return isinstance(f.type, ListType) and is_list(column.type)


def _struct(array: pa.Array, column: FileColumn, type_: StructType, missing: MissingValues) -> pa.Array:
    # Below a null struct, Arrow may hold any value: ``flatten`` shows it as null.
    parts = array.flatten() if array.null_count else [array.field(i) for i in range(array.type.num_fields)]
    children = []
    for f in type_.fields:
        child = find_column(column.children, f.field_id)
        if child is None and array.null_count == len(array):  # no row shows it, so it needs no value
            children.append(repeated(f.type, None, len(array)))
        else:
            children.append(_field(None if child is None else parts[child.index], child, f, len(array), missing))
    if not children:
        return pa.array([None if n else {} for n in array.is_null().to_pylist()], pa.struct([]))
    if array.null_count:
        children = [_hidden(child, array) if f.required else child for f, child in zip(type_.fields, children, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(type_)), mask=mask)


def _hidden(child: pa.Array, parent: pa.Array) -> pa.Array:
    """A required field, with some value where its struct is null: Parquet's writer refuses a null there, although it is not
    visible."""
    if not child.null_count:
        return child
    if parent.null_count < len(parent):
        places = np.arange(len(parent))
        present = parent.is_valid().to_numpy(zero_copy_only=False)
        return child.take(pa.array(np.where(present, places, places[present][0])))
    extended = isinstance(child, pa.ExtensionArray)
    stored = child.type.storage_type if extended else child.type
    zeros = pa.array([None] * len(child), pa.struct([pa.field("zero", stored)])).field(0)
    return pa.ExtensionArray.from_storage(child.type, zeros) if extended else zeros


def _list(array: pa.Array, column: FileColumn, type_: ListType, missing: MissingValues) -> pa.Array:
    element = column.children[0]
    values = _convert(list_elements(array), element, type_.element, missing)
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(list_offsets(array), values, type=arrow_type(type_), mask=mask)


def _map(array: pa.Array, column: FileColumn, type_: MapType, missing: MissingValues) -> pa.Array:
    lists = as_lists(array)
    pairs = list_elements(lists)
    keys = _convert(pairs.field(0), column.children[0], type_.key, missing)
    values = _convert(pairs.field(1), column.children[1], type_.value, missing)
    mask = array.is_null() if array.null_count else None
    return pa.MapArray.from_arrays(list_offsets(lists), keys, values, type=arrow_type(type_), mask=mask)
