"""The column mapping of the previous file is reused for equal schemas only, including ids inside columns."""

from __future__ import annotations

import pyarrow as pa

from iceberg_ops.data.columns.file_columns import ColumnIds


def schema_with(outer: int, inner: int) -> pa.Schema:
    child = pa.field("b", pa.int32(), metadata={"PARQUET:field_id": str(inner)})
    return pa.schema([pa.field("a", pa.struct([child]), metadata={"PARQUET:field_id": str(outer)})])


def test_schemas_that_differ_in_an_id_alone_have_their_own_columns() -> None:
    for outer, inner in [(1, 2), (1, 2), (1, 3), (4, 3), (1, 2)]:
        (column,) = ColumnIds().columns(schema_with(outer, inner))
        assert (column.field_id, column.children[0].field_id) == (outer, inner)
