"""A writer that fails leaves no file, wherever it failed; invisible values under a null struct do not make it fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.data.writing import parquet_writer
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import INT, LONG, STRING, UUID, NestedField, StructType

POINT = StructType(
    (NestedField(11, "x", INT, required=True), NestedField(12, "y", STRING), NestedField(13, "u", UUID, required=True))
)
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", POINT))
BY_ID = PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "id"),))
STORED = pa.struct([("x", pa.int32()), ("y", pa.string()), ("u", pa.binary(16))])


def writer_in(folder: Path, form: str = "parquet") -> PartitionedWriter:
    catalog = MemoryCatalog("m", LocalFileIO(), warehouse=str(folder))
    catalog.create_namespace(("db",))
    table = catalog.create_table(("db", "t"), SCHEMA, spec=BY_ID, properties={"write.format.default": form})
    return PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id="o")


def data_files(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and "data" in p.parts]


def failing_step(writer: PartitionedWriter, *, closing: bool) -> None:
    if closing:
        writer.close()
    for rolling in writer._writers.values():
        rolling.flush()


def points(*nulls: bool) -> pa.RecordBatch:
    ids = [None if n else bytes([i]) * 16 for i, n in enumerate(nulls)]
    numbers = pa.array([None if n else i for i, n in enumerate(nulls)], pa.int32())
    parts = [numbers, pa.array(["y"] * len(nulls)), pa.array(ids, pa.binary(16))]
    column = pa.StructArray.from_arrays(parts, fields=list(STORED), mask=pa.array(list(nulls)))
    return pa.record_batch({"id": pa.array([1] * len(nulls), pa.int64()), "v": column})


@pytest.mark.parametrize("nulls", [(False, True), (True, False, True), (True, True), (False,)])
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_null_struct_hides_what_its_required_fields_hold(tmp_path: Path, form: str, nulls: tuple[bool, ...]) -> None:
    writer = writer_in(tmp_path, form)
    writer.write(points(*nulls))
    (written,) = writer.close()
    assert written.record_count == len(nulls)
    if form == "parquet":
        found = pq.read_table(written.file_path.removeprefix("file://"), partitioning=None)["v"].to_pylist()
        assert [p and (p["x"], p["y"]) for p in found] == [None if n else (i, "y") for i, n in enumerate(nulls)]


@pytest.mark.parametrize("closed", [False, True], ids=["while-writing", "while-closing"])
def test_what_was_begun_is_gone_after_a_write_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    writer = writer_in(tmp_path)
    for id_ in range(3):
        writer.write(pa.record_batch({"id": pa.array([id_], pa.int64())}))
    failing = [False, True, True]

    class Fails(pq.ParquetWriter):
        def write_table(self, *args: object, **kwargs: object) -> None:
            if failing.pop(0):
                raise pa.ArrowInvalid("no")
            super().write_table(*args, **kwargs)

    monkeypatch.setattr(parquet_writer.pq, "ParquetWriter", Fails)
    with pytest.raises(pa.ArrowInvalid, match="no"):
        failing_step(writer, closing=closed)
    writer.abort()
    assert data_files(tmp_path) == []
