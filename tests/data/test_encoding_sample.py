"""The size of small files written together is estimated within a tenth from a sample, never above their present size, and never
fails."""

from __future__ import annotations

import random
from typing import Any

import pytest

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting import encoding_sample
from iceberg_ops.data.rewriting.encoding_sample import merged_bytes
from iceberg_ops.data.rewriting.rewrite import rewrite_group
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from tests.data.files import new_io, write, write_context
from tests.data.test_rewrite import SCHEMA, added, work_of

CONTEXT = ReadContext(table_schema=SCHEMA, projected=SCHEMA, schemas=(SCHEMA,), specs={})


def rows(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    chance = random.Random(first)
    return [(first + i, chance.choice((0.5, 1.5, 2.5)), f"{chance.getrandbits(64):016x}") for i in range(count)]


def files(io: MemoryFileIO, count: int, rows_each: int, **properties: str) -> list[DataFile]:
    context = write_context(SCHEMA, properties={k.replace("_", "-").replace("--", "."): v for k, v in properties.items()})
    return [f for i in range(count) for f in write(context, io, rows(rows_each, i * rows_each), operation_id=f"in{i}")]


def estimated(io: MemoryFileIO, found: list[DataFile], **properties: str) -> int:
    return merged_bytes([FileScanTask(f, 1) for f in found], CONTEXT, write_context(SCHEMA, properties=properties), io)


@pytest.mark.parametrize(("count", "rows_each"), [(200, 50), (20, 2_000), (60, 2_000)])
def test_the_estimate_is_within_a_tenth_of_what_the_rewrite_writes(count: int, rows_each: int) -> None:
    io = new_io()
    found = files(io, count, rows_each)
    (written,) = added(rewrite_group(work_of(io, found, partition=(), target_file_size=1 << 30)))
    assert estimated(io, found) == pytest.approx(written.file_size_in_bytes, rel=0.1)
    assert estimated(io, found) < sum(f.file_size_in_bytes for f in found)


def test_files_of_another_codec_are_estimated_in_the_tables() -> None:
    io = new_io()
    found = files(io, 10, 500, write__parquet__compression_codec="uncompressed")
    (written,) = added(rewrite_group(work_of(io, found, partition=(), target_file_size=1 << 30)))
    assert estimated(io, found) == pytest.approx(written.file_size_in_bytes, rel=0.1)


def test_large_files_count_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    io = new_io()
    small, large = files(io, 10, 200), write(write_context(SCHEMA), io, rows(5_000, 10**6), operation_id="large")
    monkeypatch.setattr(encoding_sample, "_SMALL_BYTES", large[0].file_size_in_bytes - 1)
    assert estimated(io, [*small, *large]) == estimated(io, small) + large[0].file_size_in_bytes


def test_an_estimate_is_never_above_what_the_files_hold() -> None:
    io = new_io()
    found = files(io, 3, 2_000)
    assert estimated(io, found, **{"write.parquet.compression-codec": "uncompressed"}) == sum(f.file_size_in_bytes for f in found)


UNREADABLE = {"missing": None, "broken": b"broken", "empty": b""}


@pytest.mark.parametrize("name", UNREADABLE)
def test_files_that_can_not_be_read_are_left_to_the_work_that_reads_them(name: str) -> None:
    io = new_io()
    found = files(io, 3, 100)
    content = UNREADABLE[name]
    for file in found:
        io.delete(file.file_path)
        if content is not None:
            io.write(file.file_path, content)
    assert estimated(io, found) == sum(f.file_size_in_bytes for f in found)


def test_tables_written_in_another_format_are_not_sampled() -> None:
    io = new_io()
    found = files(io, 3, 100)
    for form in ("avro", "orc"):
        assert estimated(io, found, **{"write.format.default": form}) == sum(f.file_size_in_bytes for f in found)
