"""The reader reuses the state of the previous file; whatever that file was, rows and columns of the next one are correct."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.arrow import arrow_sources
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.parquet_reader import ParquetDataFile
from iceberg_ops.io.local import LocalFileIO

COUNT = 3_000
FEW, MANY = [f"v{i % 3}" for i in range(COUNT)], [f"value number {i}" for i in range(COUNT)]


def field(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


def table(columns: dict[str, list[object]], ids: dict[str, int]) -> pa.Table:
    types = {name: pa.string() if isinstance(values[0], str) else pa.int64() for name, values in columns.items()}
    return pa.table(columns, pa.schema([field(name, type_, ids[name]) for name, type_ in types.items()]))


IDS = {"a": 1, "b": 2, "c": 3}
TABLES = {
    "a repeats": table({"a": FEW, "b": MANY}, IDS),
    "b repeats": table({"a": MANY, "b": FEW}, IDS),
    "neither repeats": table({"a": MANY, "b": MANY}, IDS),
    "no a": table({"b": FEW, "c": list(range(COUNT))}, IDS),
    "a is a number": table({"a": list(range(COUNT)), "b": FEW}, IDS),
    "other ids": table({"a": FEW, "b": MANY}, {"a": 5, "b": 6}),
    "no rows": table({"a": FEW, "b": MANY}, IDS).slice(0, 0),
}


@pytest.mark.parametrize("at_once", [0, 1 << 30], ids=["mapped", "read at once"])
@pytest.mark.parametrize(("last", "this"), list(itertools.permutations(TABLES, 2)))
def test_a_file_after_another_is_read_as_if_it_were_alone(
    tmp_path: Path, last: str, this: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_sources, "_AT_ONCE", at_once)
    for name in (last, this):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(TABLES[name], path)
        opened = ParquetDataFile(LocalFileIO(), str(path), ColumnIds())
        try:
            expected = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in TABLES[name].schema}
            assert {c.name: c.field_id for c in opened.columns} == expected
            assert not any(pa.types.is_dictionary(c.type) for c in opened.columns)
            leaves = {leaf for c in opened.columns for leaf in c.leaves}
            found = [batch for _, batch, _ in opened.batches(leaves, 0, None, 1_000)]
            rows = [row for batch in found for row in batch.to_pylist()]
            assert rows == TABLES[name].to_pylist()
            in_dictionaries = {f.name for batch in found for f in batch.schema if pa.types.is_dictionary(f.type)}
            assert in_dictionaries == {n for n in TABLES[name].schema.names if rows and TABLES[name][n].to_pylist() == FEW}
        finally:
            opened.close()
