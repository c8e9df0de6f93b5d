"""Variants: read, written and shown as JSON (TYPE-21, TYPE-38); shredded ones are in ``test_variant_shredding``."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.data.arrow.arrow_schema import VARIANT_STORAGE
from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.arrow.variant import read_variant
from iceberg_ops.data.arrow.variant_values import Variant, decode, variant_to_json
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.io.mapped import MappedFileIO
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, VOID
from iceberg_ops.spec.types import INT, VARIANT, NestedField, StructType, list_of
from iceberg_ops.table.metadata_files import table_from_path
from tests.data.files import new_io, read, write, write_context
from tests.fixture_paths import FIXTURES, requires_fixtures

SCHEMA = Schema.of(NestedField(1, "id", INT), NestedField(2, "var", VARIANT))
NO_NAMES = b"\x01\x00\x00"
NAMES = b"\x11\x02\x00\x01\x02ab"
CASES = [
    (NO_NAMES, b"\x00", None),
    (NO_NAMES, b"\x04", True),
    (NO_NAMES, b"\x08", False),
    (NO_NAMES, b"\x0c\xff", -1),
    (NO_NAMES, b"\x14\x00\x00\x00\x80", -(2**31)),
    (NO_NAMES, b"\x20\x02\x3a\x01\x00\x00", Decimal("3.14")),
    (NO_NAMES, b"\x0dabc", "abc"),
    (NO_NAMES, b"\x03\x02\x00\x02\x04\x0c\x01\x0c\x02", [1, 2]),
    (NAMES, b"\x02\x02\x00\x01\x00\x02\x03\x0c\x01\x00", {"a": 1, "b": None}),
]


@pytest.mark.parametrize(("metadata", "value", "shown"), CASES)
def test_values_are_decoded(metadata: bytes, value: bytes, shown: object) -> None:
    assert decode(Variant(metadata, value)) == shown


@pytest.mark.parametrize("value", [b"", b"\x14\x00", b"\x0dab"[:2], b"\x02\x7f\x00", b"\x03\xff\x00", b"\xfc"])
def test_damaged_values_are_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptTableError):
        variant_to_json(Variant(NO_NAMES, value))


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_variants_come_back_byte_for_byte(form: str) -> None:
    io = new_io()
    rows = [(i, Variant(m, v)) for i, (m, v, _) in enumerate(CASES)] + [(99, None)]
    files = write(write_context(SCHEMA, properties={"write.format.default": form}), io, rows)
    assert read(files, SCHEMA, io) == rows


STORED = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
WITH_NULL = pa.array([None, {"metadata": NO_NAMES, "value": b"\x04"}], STORED)


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_null_variants_are_written_wherever_they_come_from(form: str) -> None:
    """Files from before the column, rows that lack it, nulls of any Arrow form, and what a reader gives of all these."""
    inner = StructType((NestedField(4, "x", INT), NestedField(5, "v", VARIANT)))
    schema = Schema.of(*SCHEMA.fields, NestedField(3, "s", inner), NestedField(6, "l", list_of(7, VARIANT)))
    context, io = write_context(schema, properties={"write.format.default": form}), new_io()
    older = write(replace(context, schema=Schema.of(*SCHEMA.fields[:1])), io, [(0,)])
    batches = [
        pa.RecordBatch.from_pydict({"id": [1, 2], "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))}),
        pa.RecordBatch.from_pydict({"id": [3, 4], "var": WITH_NULL, "l": pa.array([[None, WITH_NULL[1]], None], pa.list_(STORED))}),
        pa.RecordBatch.from_pydict({"id": [5], "var": pa.nulls(1, VARIANT_STORAGE)}),
        pa.RecordBatch.from_pydict({"id": [6], "var": pa.nulls(1)}),
    ]
    writer = PartitionedWriter(context, io, operation_id="batches")
    for batch in batches:
        writer.write(batch)
    true = Variant(NO_NAMES, b"\x04")
    rows = [(0, None, None, None), (1, None, (1, None), None), (2, None, None, None), (3, None, None, [None, true])]
    rows += [(4, true, None, None), (5, None, None, None), (6, None, None, None)]
    files = [*older, *writer.close()]
    assert read(files, schema, io) == rows
    assert read(rewritten(files, schema, io, context), schema, io) == rows


def rewritten(files: list[DataFile], schema: Schema, io: MemoryFileIO, context: WriteContext) -> list[DataFile]:
    """The rows as a reader gives them, as new files."""
    writer = PartitionedWriter(context, io, operation_id="again")
    for file in files:
        for batch in read_task(FileScanTask(file, 1), ReadContext(table_schema=schema, projected=schema), io):
            writer.write_canonical(batch)
    return writer.close()


def test_a_present_variant_without_a_value_is_a_variant_null_and_one_without_metadata_is_corrupt() -> None:
    parts = [pa.array([NO_NAMES, None, NO_NAMES]), pa.array([None, None, b"\x04"])]
    present = pa.StructArray.from_arrays(parts, ["metadata", "value"], mask=pa.array([False, True, False]))
    found = values_of(VARIANT, read_variant(present, "v"))
    assert found == [Variant(NO_NAMES, b"\x00"), None, Variant(NO_NAMES, b"\x04")]
    assert values_of(VARIANT, read_variant(present.slice(1), "v")) == found[1:]
    with pytest.raises(CorruptTableError, match="variant column v: its metadata is null"):
        read_variant(pa.StructArray.from_arrays(parts, ["metadata", "value"]), "v")


@requires_fixtures
def test_trinos_variants_are_all_decoded() -> None:
    assert FIXTURES is not None
    (metadata,) = sorted((FIXTURES / "impala-trino_variant" / "table" / "metadata").glob("*.metadata.json"))[-1:]
    table = table_from_path(str(metadata), _mapped(FIXTURES / "impala-trino_variant"))
    found = scan_table(table).to_pylist()
    name = next(f.name for f in table.schema.fields if f.type == VARIANT)
    shown = {r["descr"]: variant_to_json(Variant(**r[name])) for r in found if r[name] is not None}
    assert shown["int32 42"] == 42
    assert shown["str Alice"] == "Alice"
    assert shown["array [1,2,3]"] == [1, 2, 3]
    assert shown["decimal4 3.14"] == "3.14"


def _mapped(case: Path) -> MappedFileIO:
    recorded = json.loads((case / "expected.json").read_text())
    return MappedFileIO(LocalFileIO(), [(m["recorded_prefix"], str(case / m["local"])) for m in recorded["path_mapping"]])


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_void_partition_field_of_a_variant_is_null_in_every_row(form: str) -> None:
    spec = PartitionSpec(1, (PartitionField((2,), 1000, VOID, "v"), PartitionField((1,), 1001, IDENTITY, "id")))
    io = new_io()
    rows = [(1, Variant(NO_NAMES, b"\x04")), (2, None)]
    files = write(write_context(SCHEMA, spec=spec, properties={"write.format.default": form}), io, rows)
    assert [f.partition for f in files] == [(None, 1), (None, 2)]
    assert read(files, SCHEMA, io, spec=spec) == rows
