"""Damage that Arrow reports with an unspecific error ("Unknown error" of a codec, a name that is not UTF-8) is still corrupt
data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.errors import CorruptTableError, DataError, UnsupportedError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.name_mapping import create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "bb", STRING))
ROWS = pa.table({"id": pa.array(range(50), pa.int64()), "bb": [f"x{i % 5}" for i in range(50)]})


def read(path: Path, file_format: FileFormat, where: Expression = ALWAYS_TRUE) -> int:
    opened = open_file(LocalFileIO(), str(path), file_format, ColumnIds(create_name_mapping(SCHEMA), SCHEMA))
    try:
        leaves = {leaf for column in opened.columns for leaf in column.leaves}
        return sum(batch.num_rows for _, batch, _ in opened.batches(leaves, 0, None, 1000, where))
    finally:
        opened.close()


@pytest.mark.parametrize("compression", ["zlib", "zstd"])
def test_damaged_parts_of_an_orc_file_are_a_corrupt_table(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.orc"
    texts = [f"row {i * 7919 % 5000}" for i in range(5000)]
    orc.write_table(pa.table({"id": range(5000), "bb": texts}), path, compression=compression)
    whole, found = path.read_bytes(), Counter[str]()
    for at in range(len(whole) // 4, len(whole) // 2, len(whole) // 200):  # rows
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            read(path, FileFormat.ORC)
        except CorruptTableError as e:
            found["corrupt"] += str(path) in str(e)
        except UnsupportedError:
            found["unsupported"] += 1
    assert found["corrupt"] > 10


def without_utf_8(path: Path, name: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, path, store_schema=False)
    data = path.read_bytes()
    path.write_bytes(data.replace(name, name[:-1] + b"\xff"))
    assert path.read_bytes() != data
    return path


NAMES = {"of a column": b"\x02bb", "of the writer": b"parquet-cpp-arrow"}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_utf_8_is_a_corrupt_table(tmp_path: Path, name: str) -> None:
    path = without_utf_8(tmp_path / "a.parquet", NAMES[name])
    with pytest.raises(CorruptTableError, match=r"a\.parquet (is not a readable parquet file|cannot be decoded): .*utf-8"):
        read(path, FileFormat.PARQUET, bind(SCHEMA, parse_where("id < 7")))


@pytest.mark.parametrize("job", ["append", "upsert", "add_files"])
@pytest.mark.parametrize("name", NAMES)
def test_such_a_file_is_not_imported_and_no_source_where_the_name_is_read(tmp_path: Path, job: str, name: str) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(SCHEMA)
    folder = str(without_utf_8(tmp_path / "in" / "a.parquet", NAMES[name]).parent)
    parts = {} if job == "add_files" else {"source": Source(format="parquet", paths=[folder])}
    options = {"append": {}, "upsert": {"upsert-keys": "id"}, "add_files": {"source-path": folder}}[job]
    if name == "of the writer" and job != "add_files":  # nothing depends on it
        assert place.run(job, options=options, **parts).status == "committed"
        return
    with pytest.raises(DataError, match=r"a\.parquet"):
        place.run(job, options=options, **parts)
