"""Parquet files that belong to no table, as rows to write: which parts of them make a task, and how to read them.

Columns are matched by name (field ids in such files, if any, belong to another table), text stored in dictionaries stays
in them, and nothing is converted: the writer does that. The code that plans the parts decides whether a file may be read this way.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_sources import arrow_failures
from iceberg_ops.data.arrow.read_ahead import prefetched
from iceberg_ops.data.columns.file_columns import ColumnIds, child_arrow_fields
from iceberg_ops.data.formats.encoding_hints import hints_from
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.formats.parquet_reader import ParquetDataFile, group_offset
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.io.changing_files import ChangingFilesIO
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.spec.name_mapping import create_name_mapping
from iceberg_ops.spec.schema import Schema

_READ_ROWS = 1 << 18
_AHEAD_BYTES = 8 << 20
_MOST_TASK_BYTES, _LEAST_TASK_BYTES = 128 << 20, 16 << 20
"""A task is not made larger than this, if possible, and a second task is not started for less: each ends in a separate file."""
_TASKS_PER_SLOT = 2


@dataclass(frozen=True, slots=True)
class SourcePart:
    """The row groups of a file that begin in ``[start, start + length)``, with a total size of ``size`` bytes."""

    location: str
    start: int
    length: int
    size: int


def source_io() -> FileIO:
    """The FileIO for the files of a source, on any machine that has them."""
    return ChangingFilesIO(load_file_io())


def row_group_parts(location: str, footer: pq.FileMetaData) -> list[SourcePart] | None:
    """A file's row groups, small ones joined up to a task's minimum bytes; None if their offsets do not separate them."""
    offsets = [group_offset(footer.row_group(i)) for i in range(footer.num_row_groups)]
    if any(a >= b for a, b in itertools.pairwise(offsets)):
        return None
    parts: list[SourcePart] = []
    for i in range(footer.num_row_groups):
        group, start = footer.row_group(i), offsets[i]
        size = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
        if not parts or parts[-1].size + size > _LEAST_TASK_BYTES:
            parts.append(SourcePart(location, start, 1, size))
        else:
            last = parts[-1]
            parts[-1] = SourcePart(location, last.start, start - last.start + 1, last.size + size)
    return parts


def in_tasks(parts: Sequence[SourcePart], slots: int) -> list[list[SourcePart]]:
    """The parts in their order, cut into tasks of about the same size."""
    total = sum(p.size for p in parts)
    task_count = max(1, -(-total // _MOST_TASK_BYTES), min(_TASKS_PER_SLOT * slots, total // _LEAST_TASK_BYTES))
    tasks: list[list[SourcePart]] = [[] for _ in range(task_count)]
    before = 0
    for part in parts:
        tasks[min(task_count - 1, (before + part.size // 2) * task_count // max(total, 1))].append(part)
        before += part.size
    return [task for task in tasks if task]


def parts_to_json(parts: Sequence[SourcePart]) -> str:
    """The parts as JSON text, for another process."""
    return json.dumps([asdict(p) for p in parts])


def parts_from_json(text: str) -> list[SourcePart]:
    """The inverse of ``parts_to_json``."""
    return [SourcePart(**entry) for entry in json.loads(text)]


def source_hints(io: FileIO, parts: Sequence[SourcePart], schema: Schema) -> EncodingHints | None:
    """The best encodings for files of ``schema`` made of these parts. Raises DataError that names the file."""
    try:
        return hints_from(io, sorted({p.location for p in parts}), schema, _by_name(schema))
    except CorruptTableError as e:
        raise DataError(f"source: {e}") from None


def read_parts(io: FileIO, parts: Sequence[SourcePart], schema: Schema) -> Generator[pa.RecordBatch]:
    """The rows of the parts, in order, in the files' own types. Raises DataError that names a file which cannot be read."""
    rows = _rows(io, parts, _by_name(schema))
    return prefetched(rows) if sum(p.size for p in parts) > _AHEAD_BYTES else rows


def _rows(io: FileIO, parts: Sequence[SourcePart], ids: ColumnIds) -> Generator[pa.RecordBatch]:
    for part in parts:
        try:
            with arrow_failures(part.location):
                opened = ParquetDataFile(io, part.location, ids)
            try:
                leaves = {n for column in opened.columns for n in column.leaves}
                for _, batch, _ in opened.batches(leaves, part.start, part.length, _READ_ROWS):
                    _check_text(batch, part.location)
                    yield batch
            finally:
                opened.close()
        except (CorruptTableError, pa.ArrowInvalid, OSError) as e:
            raise DataError(f"source {part.location} cannot be read: {e}") from None


def _check_text(batch: pa.RecordBatch, location: str) -> None:
    """Prevents text that no reader can decode: Arrow does not check the bytes of a string column."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _holds_text(column.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as e:
                raise DataError(
                    f"source {location}: column {name!r} is a string, and holds bytes that are not UTF-8: {e}"
                ) from None


def _holds_text(type_: pa.DataType) -> bool:
    if isinstance(type_, pa.DictionaryType):
        return _holds_text(type_.value_type)
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return True
    return any(_holds_text(f.type) for f in child_arrow_fields(type_))


def _by_name(schema: Schema) -> ColumnIds:
    return ColumnIds(create_name_mapping(schema), trust_ids=False)
