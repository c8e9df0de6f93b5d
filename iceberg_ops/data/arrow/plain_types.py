"""Converts Arrow types that no table has to the types that hold the same values.

A Parquet file stores lists, text and bytes in one form, whatever Arrow type its writer used. From a note in the file Arrow restores
that type: a list view, a view of text or bytes, or an extension type over a struct or list. Here they become lists, text, bytes and
structs before other code sees them: Arrow has no kernels that filter views.

Arrow's own casts of nested values are not used: for a slice of a list view they give wrong values, and for anything with a column
of type null a truncated result, which may end the process when it is sliced (pyarrow 26).
"""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa


def is_list(type_: pa.DataType) -> bool:
    """Whether the type is a list in any of Arrow's forms; a map is not."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def _is_view(type_: pa.DataType) -> bool:
    """Whether the type is a view of text or bytes."""
    return bool(pa.types.is_string_view(type_) or pa.types.is_binary_view(type_))


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without views, and without extension types over nested ones; the same object if it has none. Extension types
    over primitive ones (uuid) stay."""
    if _is_view(type_):
        return pa.string() if pa.types.is_string_view(type_) else pa.binary()
    if isinstance(type_, pa.BaseExtensionType):
        stored = type_.storage_type
        return plain_type(stored) if pa.types.is_nested(stored) or _is_view(stored) else type_
    if pa.types.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        made = [_plain_field(f) for f in fields]
        return type_ if all(a is b for a, b in zip(fields, made, strict=True)) else pa.struct(made)
    if pa.types.is_map(type_):
        key, item = _plain_field(type_.key_field), _plain_field(type_.item_field)
        return type_ if key.type is type_.key_type and item.type is type_.item_type else pa.map_(key, item)
    if is_list(type_):
        element = _plain_field(type_.value_field)
        is_view = pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_)
        return pa.list_(element) if is_view or element.type != type_.value_type else type_
    return type_


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with plain types; the same object if all are plain."""
    made = [_plain_field(f) for f in schema]
    return schema if all(f.type == m.type for f, m in zip(schema, made, strict=True)) else pa.schema(made, schema.metadata)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in plain types."""
    given = batch.schema
    schema = plain_schema(given)
    if schema is given:
        return batch
    return pa.RecordBatch.from_arrays([plain_array(c, f.type) for c, f in zip(batch.columns, schema, strict=True)], schema=schema)


def plain_array(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """The same values as ``wanted``, which is the ``plain_type`` of the array's."""
    if array.type.equals(target_type):
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, target_type)
    if _is_view(array.type):
        return array.cast(target_type)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(target_type):
        parts = [plain_array(array.field(i), target_type.field(i).type) for i in range(target_type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(target_type), mask=mask)
    if pa.types.is_map(target_type):
        lists = as_lists(array)
        entries = list_elements(lists)
        key, item = plain_array(entries.field(0), target_type.key_type), plain_array(entries.field(1), target_type.item_type)
        return pa.MapArray.from_arrays(list_offsets(lists), key, item, type=target_type, mask=mask)
    return pa.ListArray.from_arrays(
        list_offsets(array), plain_array(list_elements(array), target_type.value_type), type=target_type, mask=mask
    )


def read_whole(schema: pa.Schema) -> tuple[frozenset[int], ...]:
    """For each extension type over a nested one in a file's schema: the numbers of the leaves that Arrow can only read together."""
    leaf_sets: list[frozenset[int]] = []
    count = itertools.count()

    def leaves(type_: pa.DataType) -> list[int]:
        if isinstance(type_, pa.BaseExtensionType) and pa.types.is_nested(type_.storage_type):
            leaf_sets.append(frozenset(inner_leaves := leaves(type_.storage_type)))
            return inner_leaves
        if not pa.types.is_nested(type_):
            return [next(count)]
        # A map's one field is the struct of its entries.
        return [n for i in range(type_.num_fields) for n in leaves(type_.field(i).type)]

    for f in schema:
        leaves(f.type)
    return tuple(leaf_sets)


def as_lists(array: pa.MapArray) -> pa.ListArray:
    """The same maps as lists of their entries, without a copy and without a cast (see above)."""
    entries = array.values
    return pa.Array.from_buffers(
        pa.list_(entries.type), len(array), array.buffers()[:2], array.null_count, array.offset, children=[entries]
    )


def list_elements(array: pa.Array) -> pa.Array:
    """The elements of lists, one list after the other. If every list is null, Arrow's ``flatten`` builds a new array, which fails
    for an extension type inside a struct or map (uuid)."""
    return array.values.slice(0, 0) if array.null_count == len(array) else array.flatten()


def list_offsets(array: pa.Array) -> pa.Array:
    """Offsets from 0 of the elements of lists, null ones empty."""
    lengths = np.asarray(array.value_lengths().fill_null(0))
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _plain_field(f: pa.Field) -> pa.Field:
    made = plain_type(f.type)
    return f if made is f.type or made.equals(f.type) else f.with_type(made)
