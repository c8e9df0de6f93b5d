"""Copy-on-write: the rows of some files, written again without those at given positions.

What is read has the deletes of each file applied already. Rows read, dropped and written are counted, and must add up before
anything is committed (``check_counts``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import check_stored
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import VerificationError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
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
    """Every column and, last, the positions; in v3 also the row ids and last changes, which rows that only move keep."""
    lineage = [ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER] if metadata.format_version >= 3 else []
    return ReadContext.for_table(metadata, columns=[*(f.name for f in metadata.schema.fields), *lineage, POS])


def copy_without(
    files: Iterable[tuple[FileScanTask, Positions]], read: ReadContext, io: FileIO, writer: PartitionedWriter, counts: CopyCounts
) -> None:
    """Write the live rows of each task but for its positions. ``read`` has the positions as its last column (``copy_context``).
    Raises CorruptTableError for a null in a required column."""
    stored = Schema(StructType(read.projected.fields[:-1]))
    for task, gone in files:
        for batch in read_task(task, read, io):
            at = batch.num_columns - 1
            keep = ~np.isin(batch.column(at).to_numpy(zero_copy_only=False), gone, assume_unique=True)
            kept = batch.select(list(range(at))).filter(pa.array(keep))
            counts.read += batch.num_rows
            counts.dropped += batch.num_rows - kept.num_rows
            if kept.num_rows:
                writer.write(check_stored(kept, stored, task.file_path))


def check_counts(counts: CopyCounts, *, asked: int, written: int) -> None:
    """Raises VerificationError where rows kept plus rows dropped do not equal rows read, or not all ``asked`` were dropped."""
    if counts.dropped != asked or counts.read - counts.dropped != written:
        raise VerificationError(
            f"copy-on-write: read {counts.read} rows, dropped {counts.dropped} of {asked} matched, wrote {written}: "
            "they do not add up"
        )
