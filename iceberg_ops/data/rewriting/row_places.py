"""Finds the new places of the rows of a rewritten group, after the rewrite.

A rewrite without conflict never needs this, so it records nothing: files are immutable, tasks name the deletes that were applied,
and a sort can be repeated from its keys alone (``external_sort``). The result is checked against the written files: always the
counts, and for a sort the keys of every new row in their order. Raises VerificationError if they do not agree, CorruptTableError if
a file is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.columns.sort_keys import comparable, extract_column
from iceberg_ops.data.deletes.position_deletes import deleted_positions
from iceberg_ops.data.reading.reader import ReadCounts, read_task
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.rewriting.rewrite import READ_ROWS, key_ids, keys_of_work, ordered
from iceberg_ops.data.sorting.key_sample import key_columns
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import split_by_partition
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask, task_from_json
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.schema import Schema

Positions = npt.NDArray[np.int64]


def rows_not_copied(work: GroupWork, io: FileIO) -> list[tuple[DataFile, Positions]]:
    """The work's input files in the order they were read, each with the positions that deletes had removed (ascending)."""
    context = ReadContext.from_json(work.read).select([POS])
    return [(task.data_file, dead_positions(task, context, io)) for task in map(task_from_json, work.tasks)]


def places_of_rows(work: GroupWork, result: GroupResult, io: FileIO) -> npt.NDArray[np.integer[Any]] | None:
    """The new place of each copied row, counted over the new files in the order of ``result.added``; None: rows kept their order.

    Four bytes a row (eight beyond two billion rows)."""
    added = [data_file_from_dict(f) for f in result.added]
    write = WriteContext.from_json(work.write)
    is_split = work.partition is None and bool(write.spec.fields)
    if not work.is_sorted and not is_split:
        return None
    read = _key_context(work, write)
    rows = ordered(work, keys_of_work(work, read.projected, io), _numbered(work, read, io))
    if is_split:
        sources = _by_partition(rows, replace(write, schema=read.projected, row_lineage=False), added)
    else:
        checked = _like_the_new_files(rows, _new_rows(added, read, io), read.projected, key_ids(work, read.projected), work)
        sources = [np.asarray(batch.column(batch.num_columns - 1)) for batch in checked]
    return _inverted(sources, result, work)


def dead_positions(task: FileScanTask, context: ReadContext, io: FileIO) -> Positions:
    """Ascending positions of the rows that the task's deletes remove; ``context`` has ``_pos`` as its only column.

    Raises VerificationError if the file does not have as many rows as recorded."""
    if not any(d.is_equality for d in task.deletes):
        deleted = deleted_positions(io, task.deletes, task.file_path)
        return deleted[deleted < task.record_count]
    counts = ReadCounts()
    gone = np.ones(task.record_count, dtype=bool)
    live = [np.asarray(batch.column(0)) for batch in read_task(task, context, io, counts=counts)]
    if counts.physical != task.record_count:
        raise VerificationError(
            f"data file {task.file_path} holds {counts.physical} rows, but its manifest records {task.record_count}"
        )
    for positions in live:
        gone[positions] = False
    return np.flatnonzero(gone).astype(np.int64)


def _key_context(work: GroupWork, write: WriteContext) -> ReadContext:
    """Reads the top-level columns that determine order and partition, in the order in which the rewrite read them."""
    read = ReadContext.from_json(work.read)
    ids = key_ids(work, read.projected) if work.is_sorted else []
    if work.partition is None:
        ids += [f.source_id for f in write.spec.fields]
    return key_columns(read, ids)


def _numbered(work: GroupWork, read: ReadContext, io: FileIO) -> Iterator[pa.RecordBatch]:
    """The rows as they were read, with their number as the last column."""
    number = 0
    for task in map(task_from_json, work.tasks):
        for batch in read_task(task, read, io, batch_rows=READ_ROWS, keep_dictionaries=True):
            yield batch.append_column("row number", pa.array(np.arange(number, number + batch.num_rows)))
            number += batch.num_rows


def _new_rows(added: Sequence[DataFile], read: ReadContext, io: FileIO) -> Iterator[pa.RecordBatch]:
    for file in added:
        yield from read_task(FileScanTask(file, 0), read, io, batch_rows=READ_ROWS)


def _like_the_new_files(
    rows: Iterator[pa.RecordBatch], written: Iterator[pa.RecordBatch], schema: Schema, ids: Sequence[int], work: GroupWork
) -> Iterator[pa.RecordBatch]:
    """``rows``, verified to have the same keys as the written rows at the same place."""
    there = pa.RecordBatch.from_pylist([])
    for batch in rows:
        start = 0
        while start < batch.num_rows:
            if not there.num_rows:
                there = next(written, there)
            size = min(there.num_rows, batch.num_rows - start)
            if not size or not _same_keys(batch.slice(start, size), there.slice(0, size), schema, ids):
                raise VerificationError(f"group {work.group_id}: the order of its rows cannot be found out again")
            there = there.slice(size)
            start += size
        yield batch


def _same_keys(a: pa.RecordBatch, b: pa.RecordBatch, schema: Schema, ids: Sequence[int]) -> bool:
    for field_id in ids:
        left, right = (_decoded(extract_column(batch, schema, field_id)[0]) for batch in (a, b))
        if not left.is_null().equals(right.is_null()) or not comparable(left).equals(comparable(right)):
            return False
    return True


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _by_partition(rows: Iterator[pa.RecordBatch], context: WriteContext, added: Sequence[DataFile]) -> list[Positions]:
    """Row numbers in the order of the new files, which hold one partition after the other."""
    by_partition: dict[tuple[Any, ...], list[Positions]] = {tuple(map(value_identity, f.partition)): [] for f in added}
    for batch in rows:
        for partition, part in split_by_partition(batch, context):
            key = tuple(map(value_identity, partition))
            if key not in by_partition:
                raise VerificationError(f"no new file has partition {partition}")
            by_partition[key].append(np.asarray(part.column(part.num_columns - 1)))
    counts = _rows_by_partition(added)
    for key, parts in by_partition.items():
        if sum(map(len, parts)) != counts[key]:
            raise VerificationError(f"the new files of partition {key} hold {counts[key]} rows, {sum(map(len, parts))} were read")
    return [part for parts in by_partition.values() for part in parts]


def _rows_by_partition(added: Sequence[DataFile]) -> Mapping[tuple[Any, ...], int]:
    counts: dict[tuple[Any, ...], int] = {}
    for f in added:
        key = tuple(map(value_identity, f.partition))
        counts[key] = counts.get(key, 0) + f.record_count
    return counts


def _inverted(sources: Sequence[Positions], result: GroupResult, work: GroupWork) -> npt.NDArray[np.integer[Any]]:
    """Converts the old row of each new place to the new place of each old row."""
    total = sum(map(len, sources))
    if total != result.rows_out:
        raise VerificationError(f"group {work.group_id}: {total} rows read again, {result.rows_out} were written")
    places: npt.NDArray[np.integer[Any]] = np.empty(total, np.int32 if total < 2**31 else np.int64)
    done = 0
    for rows in sources:
        places[rows] = np.arange(done, done + len(rows))
        done += len(rows)
    return places
