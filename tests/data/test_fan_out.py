"""Fan-out writing: many partitions at once, in bounded memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.writing.avro_writer import AvroFileWriter
from iceberg_ops.data.writing.writer import PartitionedWriter, split_by_partition
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.data.files import new_io, read, write_context

SCHEMA = Schema.of(NestedField(1, "p", LONG), NestedField(2, "s", STRING))
SPEC = PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "p"),))
ROWS = 2000
KIB = 1 << 10
OPEN_FILE = 40 * KIB
"""What Arrow's writer of an open file holds besides."""


def _batch(partitions: list[int]) -> pa.RecordBatch:
    columns = [pa.array(partitions, pa.int64()), pa.array([f"{i:0100}" for i in range(len(partitions))])]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))


@pytest.mark.parametrize("partitions", [50, 1000], ids=["rows in every partition", "a few rows each"])
def test_what_is_buffered_stays_under_its_bound(partitions: int) -> None:
    bound = 600 * KIB
    store = new_io()
    writer = PartitionedWriter(write_context(SCHEMA, spec=SPEC), store, operation_id="op", most_buffered_bytes=bound)
    before = pa.total_allocated_bytes()
    one = _batch([i % partitions for i in range(ROWS)]).nbytes
    most = 0
    for _ in range(15):
        writer.write(_batch([i % partitions for i in range(ROWS)]))
        most = max(most, pa.total_allocated_bytes() - before)
    files = writer.close()
    assert most < bound + 2 * one + partitions * OPEN_FILE
    assert sum(f.record_count for f in files) == 15 * ROWS
    assert {f.partition for f in files} == {(p,) for p in range(partitions)}


def test_a_rare_partition_does_not_hold_on_to_the_batches_of_others() -> None:
    """One row of each batch goes to a partition that is never written out before the end."""
    writer = PartitionedWriter(write_context(SCHEMA, spec=SPEC), new_io(), operation_id="op", most_buffered_bytes=300 * KIB)
    before = pa.total_allocated_bytes()
    batches = 30
    for i in range(batches):
        writer.write(_batch([i + 1, *([0] * (ROWS - 1))]))
    assert pa.total_allocated_bytes() - before < 1000 * KIB
    assert sum(f.record_count for f in writer.close()) == batches * ROWS


def test_dictionaries_larger_than_a_part_are_left_behind() -> None:
    text = pa.array([f"v{i % 300}" for i in range(ROWS)]).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([pa.array([i % 2 if i < ROWS - 5 else 9 for i in range(ROWS)]), text], ["p", "s"])
    parts = dict(split_by_partition(batch, write_context(SCHEMA, spec=SPEC)))
    assert pa.types.is_dictionary(parts[(0,)].column(1).type)
    assert parts[(9,)].column(1).type == pa.string()
    assert parts[(9,)].column(1).to_pylist() == text.to_pylist()[-5:]


def test_parts_of_mixed_text_forms_come_back_in_order() -> None:
    store = new_io()
    writer = PartitionedWriter(write_context(SCHEMA, spec=SPEC), store, operation_id="op")
    for start in (0, 10):
        text = pa.array([f"v{start + i}" for i in range(10)])
        batch = pa.RecordBatch.from_arrays([pa.array([0] * 9 + [1]), text.dictionary_encode() if start else text], ["p", "s"])
        writer.write(batch)
    rows = read(writer.close(), SCHEMA, store, spec=SPEC)
    assert rows == [(0, f"v{i}") for i in [*range(9), *range(10, 19)]] + [(1, "v9"), (1, "v19")]


def test_avro_files_leave_block_by_block() -> None:
    """Nothing but the last block waits in memory, however large the file."""
    store = new_io()
    context = write_context(SCHEMA, spec=SPEC, properties={"write.format.default": "avro", "write.avro.compression-codec": "none"})
    writer = AvroFileWriter(context, store, "memory://wh/t/data/f.avro", (0,), 1 << 30)
    assert writer.close() is None
    for _ in range(3):
        writer.write(_batch([0] * ROWS))
        assert not writer.is_full
    file = writer.close()
    assert file is not None
    assert file.file_size_in_bytes == len(store.read(file.file_path)) > 3 * ROWS * 100
    assert len(read([file], SCHEMA, store, spec=SPEC)) == file.record_count == 3 * ROWS
