"""Copy-on-write: rewrites the rows of some files without those at given positions.

The deletes of each file are already applied to the rows that are read. Rows read, dropped and written are counted, and must add up
before anything is committed (``check_counts``).

The new rows of a statement are first written to separate files, which are small if few rows change. A copy includes the rows of
such files (``taken_in``), so that a statement does not increase the number of small files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.config.options import SMALL_FILE_RATIO
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import WHOLE_BYTES, read_task, tasks_ahead
from iceberg_ops.data.writing.conform import check_stored
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import StructType

Positions = npt.NDArray[np.int64]


@dataclass(slots=True)
class CopyCounts:
    """Rows of a copy."""

    read: int = 0
    dropped: int = 0


def copy_context(metadata: TableMetadata) -> ReadContext:
    """Every column and, last, the positions; in v3 also the row ids and last changes, which moved rows keep."""
    lineage = [ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER] if metadata.format_version >= 3 else []
    return ReadContext.for_table(metadata, columns=[*(f.name for f in metadata.schema.fields), *lineage, POS])


def copy_without(
    files: Iterable[tuple[FileScanTask, Positions]], read: ReadContext, io: FileIO, writer: PartitionedWriter, counts: CopyCounts
) -> None:
    """Write the live rows of each task except those at its positions. The last column of ``read`` is the positions
    (``copy_context``).
    Raises CorruptTableError for a null in a required column."""
    stored, pairs = Schema(StructType(read.projected.fields[:-1])), list(files)
    with tasks_ahead(io, (task for task, _ in pairs), whole=WHOLE_BYTES) as near:
        for task, gone in pairs:
            for batch in read_task(task, read, near):
                at = batch.num_columns - 1
                keep = ~np.isin(batch.column(at).to_numpy(zero_copy_only=False), gone, assume_unique=True)
                kept = batch.select(list(range(at))).filter(pa.array(keep))
                counts.read += batch.num_rows
                counts.dropped += batch.num_rows - kept.num_rows
                if kept.num_rows:
                    writer.write(check_stored(kept, stored, task.file_path))


def take_in(files: Iterable[DataFile], read: ReadContext, io: FileIO, writer: PartitionedWriter, counts: CopyCounts) -> None:
    """Write every row of the uncommitted ``files``, as stored. Raises the errors of ``copy_without``."""
    nothing = np.empty(0, np.int64)
    tasks = ((FileScanTask(file, sequence_number=0), nothing) for file in files)
    copy_without(tasks, read.of_uncommitted_files(), io, writer, counts)


def taken_in(
    new: Iterable[DataFile], copied: Iterable[tuple[FileScanTask, int]], spec: PartitionSpec, target_size: int
) -> list[DataFile]:
    """The ``new`` files, written in ``spec``, whose rows are included in copies: those below three quarters of ``target_size``
    bytes, in a partition for which a copy has rows. ``copied`` are the copied files, each with the number of its deleted rows."""
    places = {partition_in_spec(task.data_file, spec) for task, gone in copied if task.record_count > gone}
    return [f for f in new if f.file_size_in_bytes < SMALL_FILE_RATIO * target_size and partition_in_spec(f, spec) in places]


def partition_in_spec(file: DataFile, spec: PartitionSpec) -> tuple[Any, ...] | None:
    """The partition in ``spec`` that contains all rows of ``file``, with the writer's rule of equality; None if its own spec does
    not determine it."""
    if not spec.fields:
        return ()
    return tuple(map(value_identity, file.partition)) if file.spec_id == spec.spec_id else None


def check_counts(counts: CopyCounts, *, asked: int, written: int) -> None:
    """Raises VerificationError if rows kept plus rows dropped do not equal rows read, or not all ``asked`` rows were dropped."""
    if counts.dropped != asked or counts.read - counts.dropped != written:
        raise VerificationError(
            f"copy-on-write: read {counts.read} rows, dropped {counts.dropped} of {asked} matched, wrote {written}: "
            "they do not add up"
        )
