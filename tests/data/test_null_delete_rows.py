"""Position delete files of broken writers contain rows without path or position: they delete no row (Impala treats them the
same)."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.deletes.position_deletes import read_positions
from tests.builders import position_deletes
from tests.data.files import new_io


def test_delete_rows_without_path_or_position_are_left_out() -> None:
    store, sink = new_io(), io.BytesIO()
    fields = [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
    pq.write_table(pa.Table.from_arrays([pa.array(["/a", None, "/a"]), pa.array([1, None, None])], schema=pa.schema(fields)), sink)
    store.write("/d.parquet", sink.getvalue())
    found = read_positions(store, position_deletes("/d.parquet"))
    assert [positions.tolist() for positions in found.values()] == [[1]]
