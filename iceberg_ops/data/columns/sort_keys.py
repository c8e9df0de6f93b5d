"""Converts sort orders to integer and text columns that Arrow sorts (spec: "Sorting").

Every sort field becomes at most two key columns: whether the value is null, if that matters, and the value in a comparable form.
Floats become integers in their total order (-0.0 before 0.0, NaN last, as the spec requires), so that the order of NaN and null
does not depend on the sort kernel. Text in a dictionary stays in it: rows are compared by the rank of their value in the
dictionary, because the decoded text of many rows can be far larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.partition_values import sortable
from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortOrder
from iceberg_ops.spec.types import IcebergType, StructType

Keys = list[tuple[pa.Array, str]]
"""Key columns, each "ascending" or "descending", the most significant first. Text may be in a dictionary."""
KeyMaker = Callable[[pa.RecordBatch], Keys]
_PACKED_BITS, _MASK = 64, (1 << 64) - 1


def extract_column(batch: pa.RecordBatch, schema: Schema, field_id: int) -> tuple[pa.Array, IcebergType]:
    """A column of a canonical batch of ``schema`` by field id, through structs, with its type. Raises SchemaError."""
    chain = [field_id]
    while (parent := schema.parents.get(chain[0])) is not None:
        chain.insert(0, parent)
    array: pa.Array | None = None
    type_: IcebergType = schema.struct
    for step in chain:
        if not isinstance(type_, StructType):
            raise SchemaError(f"column {schema.name_of(field_id)} lies inside a list or map: rows cannot be ordered by it")
        place = next(i for i, f in enumerate(type_.fields) if f.field_id == step)
        array = batch.column(place) if array is None else array.flatten()[place]
        type_ = type_.fields[place].type
    assert array is not None
    return array, type_


def order_keys(schema: Schema, order: SortOrder) -> KeyMaker:
    """Key columns of a sort order for canonical batches of ``schema``."""

    def make(batch: pa.RecordBatch) -> Keys:
        keys: Keys = []
        for f in order.fields:
            array, type_ = extract_column(batch, schema, f.source_id)
            array = sortable(f.transform, type_, array)
            direction = "ascending" if f.direction is SortDirection.ASC else "descending"
            nulls_first = f.null_order is NullOrder.NULLS_FIRST
            keys.append((pc.cast(array.is_null(), pa.int8()), "descending" if nulls_first else "ascending"))
            keys.append((comparable(array), direction))
        return keys

    return make


def comparable(array: pa.Array) -> pa.Array:
    """The values in a form whose natural order is the format's; nulls become some value (their flag decides)."""
    if isinstance(array, pa.DictionaryArray):
        return _comparable_dictionary(array)
    type_ = array.type
    if pa.types.is_floating(type_):
        return pa.array(total_order(np.asarray(array.cast(pa.float64()).fill_null(0.0))))
    if pa.types.is_boolean(type_):
        return array.fill_null(False).cast(pa.int8())
    if pa.types.is_null(type_):
        return pa.array(np.zeros(len(array), np.int8))
    if pa.types.is_fixed_size_binary(type_):
        return array.cast(pa.binary()).fill_null(b"")
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return array.fill_null("" if pa.types.is_string(type_) else b"")
    if pa.types.is_decimal(type_):
        return array.fill_null(0)
    if pa.types.is_date32(type_):
        return array.view(pa.int32()).fill_null(0)
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return array.view(pa.int64()).fill_null(0)
    return array.fill_null(0)


def _comparable_dictionary(array: pa.DictionaryArray) -> pa.Array:
    """The same dictionary with comparable values, and one more for null rows: the same in every batch."""
    nothing = pa.nulls(1, array.dictionary.type)
    values = comparable(pa.concat_arrays([array.dictionary, nothing]))
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int64()).fill_null(len(array.dictionary)), values)


def ranked(array: pa.Array) -> pa.Array:
    """A comparable column whose dictionary, if it has one, is replaced by the ranks of its values. Ranks of different columns
    cannot be compared."""
    if not isinstance(array, pa.DictionaryArray):
        return array
    encoded = array.dictionary.dictionary_encode()
    order = np.asarray(pc.array_sort_indices(encoded.dictionary), np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return pa.array(rank[np.asarray(encoded.indices)][np.asarray(array.indices)])


def joined(array: pa.Array, more: pa.Array) -> pa.Array:
    """One key column followed by the other; ``more`` is small."""
    if isinstance(more, pa.DictionaryArray):
        more = more.dictionary_decode()
    if not isinstance(array, pa.DictionaryArray):
        return pa.concat_arrays([array, more.cast(array.type)])
    values = pa.concat_arrays([array.dictionary, more.cast(array.dictionary.type)])
    places = pa.array(np.arange(len(more)) + len(array.dictionary), pa.int64())
    return pa.DictionaryArray.from_arrays(pa.concat_arrays([array.indices.cast(pa.int64()), places]), values)


def total_order(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Doubles as integers of the same order: -Infinity < ... < -0.0 < 0.0 < ... < Infinity < NaN (every NaN equal)."""
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))


def sorted_indices(keys: Keys) -> pa.Array:
    """Row numbers in key order; rows of equal keys keep their order.

    Integer keys that fit into 64 bits together are sorted as one number: this is four times as fast, and concatenated sorted runs
    are merged instead of sorted.
    """
    keys = [(ranked(array), direction) for array, direction in keys]
    packed = packed_keys(keys)
    if packed is not None:
        return pa.array(np.argsort(packed, kind="stable"))
    names = [str(i) for i in range(len(keys))]
    table = pa.table(dict(zip(names, (array for array, _ in keys), strict=True)))
    order = [(name, direction) for name, (_, direction) in zip(names, keys, strict=True)]
    return pc.sort_indices(table, sort_keys=order)


def packed_keys(keys: Keys) -> npt.NDArray[np.uint64] | None:
    """One number per row with the order of the keys; None if they are not integers or take more than 64 bits.

    Only comparable among the given rows: every key is counted from its least value.
    """
    if any(not pa.types.is_integer(array.type) for array, _ in keys):
        return None
    columns = [np.asarray(array) for array, _ in keys]
    if not len(columns[0]):
        return np.zeros(0, np.uint64)
    bounds = [(int(c.min()), int(c.max())) for c in columns]
    widths = [(high - low).bit_length() for low, high in bounds]
    if sum(widths) > _PACKED_BITS:
        return None
    packed = np.zeros(len(columns[0]), np.uint64)
    for column, (low, high), width, (_, direction) in zip(columns, bounds, widths, keys, strict=True):
        if width == 0:
            continue
        # Differences modulo 2**64 are exact: none exceeds the width.
        values = column.astype(np.uint64, copy=False)
        low_, high_ = np.uint64(low & _MASK), np.uint64(high & _MASK)
        counted = values - low_ if direction == "ascending" else high_ - values
        packed = counted if width == _PACKED_BITS else (packed << np.uint64(width)) | counted
    return packed
