"""Lists and maps that are NULL in every row of a batch, as PyIceberg and other writers on Arrow store them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, UUID, IcebergType, NestedField, StructType, list_of, map_of
from tests.data.files import new_io, read

IN_STRUCT = StructType((NestedField(4, "u", UUID),))
TYPES = [
    list_of(3, UUID),
    list_of(3, IN_STRUCT),
    map_of(3, STRING, 5, UUID),
    map_of(3, UUID, 5, LONG),
    map_of(3, STRING, 5, IN_STRUCT),
]


def null_lists(type_: pa.DataType, rows: int) -> pa.Array:
    """Built of parts, because Arrow makes no array of uuids inside another type."""
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.nulls(rows, type_.storage_type))
    if pa.types.is_struct(type_):
        return pa.StructArray.from_arrays([null_lists(f.type, rows) for f in type_], fields=list(type_))
    starts, mask = pa.array([0] * (rows + 1), pa.int32()), pa.array([True] * rows)
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(starts, null_lists(type_.key_type, 0), null_lists(type_.item_type, 0), type=type_, mask=mask)
    if pa.types.is_list(type_):
        return pa.ListArray.from_arrays(starts, null_lists(type_.value_type, 0), type=type_, mask=mask)
    return pa.nulls(rows, type_)


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_uuids_inside_lists_that_are_null_in_every_row_are_read_and_written(type_: IcebergType) -> None:
    """Arrow's ``flatten`` failed (MakeBuilder: cannot construct builder for type extension<arrow.uuid>): INTERNAL."""
    schema, store = Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_)), new_io()
    stored = stored_schema(schema)
    batch: Any = pa.RecordBatch.from_arrays([pa.array([1, 2]), null_lists(stored.field("x").type, 2)], schema=stored)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), sink)
    store.write("memory://wh/f.parquet", sink.getvalue())
    file = DataFile(
        file_path="memory://wh/f.parquet", file_format=FileFormat.PARQUET, record_count=2, file_size_in_bytes=len(sink.getvalue())
    )
    assert read([file], schema, store) == [(1, None), (2, None)]
    assert conform(batch, schema).column(1).null_count == 2
