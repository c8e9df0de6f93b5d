"""Equality deletes that do not fit in memory at once remove the same rows as few do (DEL-EQ-01..06)."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.deletes import delete_keys
from iceberg_ops.data.reading.reader import ReadCounts, read_task
from iceberg_ops.data.writing.delete_files import write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField
from tests.data.files import batch_of, new_io, read, rows_of, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING), NestedField(3, "n", INT))
ROWS = [(i, None if i % 5 == 0 else f"c{i % 7}", None if i % 2 else i % 11) for i in range(500)]


def keys(io: FileIO, ids: tuple[int, ...], rows: list[tuple[Any, ...]], name: str, files: int = 4) -> list[DeleteFile]:
    """The rows' keys in several delete files."""
    context = write_context(SCHEMA, version=2)
    written = [
        f
        for n in range(files)
        for f in write_equality_deletes(io, context, ids, [batch_of(SCHEMA, rows[n::files])], operation_id=f"{name}{n}")
    ]
    return [DeleteFile(f, 2) for f in written]


def counted(file: DataFile, io: FileIO, deletes: list[DeleteFile]) -> tuple[list[tuple[Any, ...]], ReadCounts]:
    counts = ReadCounts()
    task = FileScanTask(file, 1, deletes=tuple(deletes))
    context = ReadContext(table_schema=SCHEMA, projected=SCHEMA)
    return rows_of(SCHEMA, read_task(task, context, io, batch_rows=37, counts=counts)), counts


CASES = {
    "one number": [((1,), [(i, "x", 0) for i in range(100, 300)])],
    "text with null": [((2,), [(0, None, 0), (0, "c1", 0), (0, "c3", 0), (0, "no such city", 0)])],
    "two columns, null equals null": [((2, 3), [(0, None, None), (0, "c1", 4), (0, "c2", None), (0, "c2", 3)])],
    "keys in several files": [((1,), [(i % 40, "x", 0) for i in range(200)])],
    "sets of different columns": [((1,), [(i, "x", 0) for i in range(60)]), ((2, 3), [(0, "c4", 2), (0, None, None)])],
    "no row has them": [((1,), [(i, "x", 0) for i in range(1000, 1100)])],
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("limit", [1, 200], ids=["a part for each batch", "some sets fit"])
def test_as_many_keys_as_memory_does_not_hold_delete_the_same_rows(
    case: list[tuple[tuple[int, ...], list[tuple[Any, ...]]]], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for at_once in (delete_keys.AT_ONCE_BYTES, limit):
        monkeypatch.setattr(delete_keys, "AT_ONCE_BYTES", at_once)
        io = new_io()  # a store of its own: nothing is known of its files
        (file,) = write(write_context(SCHEMA), io, ROWS)
        deletes = [d for n, (ids, rows) in enumerate(case) for d in keys(io, ids, rows, f"set{n}-")]
        positions = write_position_deletes(io, write_context(SCHEMA, version=2), {file: range(110, 130)}, operation_id="p")
        found.append(counted(file, io, [*deletes, *(DeleteFile(f, 2) for f in positions)]))
    whole, in_parts = found
    assert in_parts == whole
    assert whole[1].physical == len(ROWS)
    assert whole[1].deleted == whole[1].deleted_by_equality + 20 == len(ROWS) - len(whole[0])


def test_parts_of_a_data_file_find_their_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_keys, "AT_ONCE_BYTES", 1)
    io = new_io()
    writer = PartitionedWriter(
        write_context(SCHEMA, properties={"write.parquet.row-group-size-bytes": "1000"}), io, operation_id="op"
    )
    for first in range(0, len(ROWS), 100):
        writer.write(batch_of(SCHEMA, ROWS[first : first + 100]))
    (file,) = writer.close()
    assert file.split_offsets is not None
    starts = [*file.split_offsets, file.file_size_in_bytes]
    assert len(starts) > 3
    deletes = tuple(keys(io, (1,), [(i, "x", 0) for i in range(0, 500, 3)], "e"))
    context = ReadContext(table_schema=SCHEMA, projected=SCHEMA)
    live: list[tuple[Any, ...]] = []
    for start, end in itertools.pairwise(starts):
        task = FileScanTask(file, 1, deletes=deletes, start=start, length=end - start)
        live += rows_of(SCHEMA, read_task(task, context, io))
    assert live == [r for r in ROWS if r[0] % 3]


def test_sets_used_last_are_kept_and_together_not_larger_than_one_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_keys, "AT_ONCE_BYTES", 1000)
    kept = delete_keys._Kept()
    monkeypatch.setattr(delete_keys, "_KEPT", kept)
    io = new_io()
    (file,) = write(write_context(SCHEMA), io, ROWS)
    for n in range(5):
        deletes = keys(io, (1,), [(n * 50 + i, "x", 0) for i in range(50)], f"set{n}-")
        assert len(read([file], SCHEMA, io, deletes=deletes)) == 450
        assert kept._bytes() <= 1000
    assert len(kept._entries) == 2


_POOLS: list[pa.MemoryPool] = []
"""A pool must outlive what was allocated from it."""
NUMBERS = Schema.of(NestedField(1, "id", LONG))


def test_memory_does_not_grow_with_the_number_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    io = LocalFileIO()
    context = replace(write_context(NUMBERS, version=2), table_location=str(tmp_path))
    ids = np.random.default_rng(1).integers(1 << 60, size=1_250_000)
    writer = PartitionedWriter(context, io, operation_id="data")
    writer.write(pa.RecordBatch.from_pydict({"id": ids[:50_000]}))
    (file,) = writer.close()
    deletes = []
    for n in range(12):  # every other row's key, and a million keys of no row
        chosen = np.concatenate([ids[2 * n : 50_000 : 24], ids[50_000 + n :: 12]])
        batch = pa.RecordBatch.from_pydict({"id": chosen})
        found = write_equality_deletes(io, context, (1,), [batch], operation_id=f"keys{n}")
        deletes += [DeleteFile(f, 2) for f in found]
    peaks = []
    for at_once in (delete_keys.AT_ONCE_BYTES, 1 << 19):
        monkeypatch.setattr(delete_keys, "AT_ONCE_BYTES", at_once)
        monkeypatch.setattr(delete_keys, "_KEPT", delete_keys._Kept())
        rows, peak = _rows_and_peak(FileScanTask(file, 1, deletes=tuple(deletes)), io)
        assert rows == 25_000
        peaks.append(peak)
    whole, in_parts = peaks
    assert in_parts < whole / 3, peaks
    assert in_parts < 32 << 20, peaks


def _rows_and_peak(task: FileScanTask, io: FileIO) -> tuple[int, int]:
    """Live rows, and the most bytes that Arrow and numpy held."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        rows = sum(b.num_rows for b in read_task(task, ReadContext(table_schema=NUMBERS, projected=NUMBERS), io))
        return rows, int(pool.max_memory()) + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
