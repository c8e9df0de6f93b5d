"""Text and bytes that a file's Arrow note calls views, as arrow-rs and DataFusion write them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BINARY, LONG, STRING, IcebergType, NestedField, StructType, list_of
from tests.builders import IDENTIFIER, make_catalog


def field(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, True, {"PARQUET:field_id": str(field_id)})


CASES: list[tuple[IcebergType, pa.DataType, list[Any]]] = [
    (STRING, pa.string_view(), ["a", None, "c" * 50]),
    (BINARY, pa.binary_view(), [b"\xff", None, b"c" * 50]),
    (StructType((NestedField(3, "u", STRING),)), pa.struct([field("u", pa.string_view(), 3)]), [{"u": "a"}, None, {"u": "c" * 50}]),
    (list_of(3, BINARY), pa.list_(field("element", pa.binary_view(), 3)), [[b"a", None], None, [b"c" * 50]]),
]


@pytest.mark.parametrize(("type_", "stored", "values"), CASES, ids=[str(stored) for _, stored, _ in CASES])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_views_are_filtered_and_their_rows_deleted(type_: IcebergType, stored: pa.DataType, values: list[Any], mode: Any) -> None:
    """Arrow has no kernel that filters a view: a scan with a filter, and any scan after a delete, ended as INTERNAL."""
    catalog = make_catalog()
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_))
    table = catalog.create_table(IDENTIFIER, schema, properties={"format-version": "2"})
    rows = pa.Table.from_arrays(
        [pa.array([1, 2, 3]), pa.array(values, stored)], schema=pa.schema([field("id", pa.int64(), 1), field("x", stored, 2)])
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink, use_dictionary=False)
    assert pq.read_schema(io.BytesIO(sink.getvalue())).field("x").type == stored
    path, size = f"{table.location}/data/f.parquet", len(sink.getvalue())
    table.io.write(path, sink.getvalue())
    file = DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=3, file_size_in_bytes=size)
    commit(catalog, table, AppendFiles(added=(file,)))

    def shown(where: str = "true") -> list[Any]:
        found = scan_table(catalog.load_table(IDENTIFIER), Scan(where=parse_where(where)))
        return [(row["id"], row["x"]) for row in found.to_pylist()]

    assert shown() == list(zip([1, 2, 3], values, strict=True))
    assert shown("id > 1 AND x IS NOT NULL") == [(3, values[2])]
    DeleteRows(where="id = 1", mode=mode).run(catalog, catalog.load_table(IDENTIFIER))
    assert shown() == [(2, None), (3, values[2])]
