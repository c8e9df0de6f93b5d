"""Checks that data and delete files hold as many rows as manifests record.

Each file is opened. Parquet and ORC give the count in their footers, Avro blocks are counted, a deletion vector is decoded and its
length, magic and checksum are checked. ``iceberg_ops.table.integrity`` checks the rest of a table.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.deletes.deletion_vectors import read_deletion_vector
from iceberg_ops.data.formats.any_format import BATCH_ROWS, open_file
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.table.integrity import Finding


def file_findings(io: FileIO, files: Iterable[DataFile]) -> list[Finding]:
    """One error for each file that cannot be opened, or holds another number of rows than recorded."""
    findings = []
    for file in files:
        try:
            rows = rows_in(io, file)
        except (IcebergOpsError, OSError, ValueError, pa.ArrowException) as e:
            findings.append(Finding("error", "file-reads", file.file_path, " ".join(str(e).split())))
            continue
        if rows != file.record_count:
            findings.append(
                Finding("error", "record-count", file.file_path, f"holds {rows} rows, recorded are {file.record_count}")
            )
    return findings


def rows_in(io: FileIO, file: DataFile) -> int:
    """Rows of a data or delete file, or positions of a deletion vector. Raises CorruptTableError, OSError, ValueError
    (pyarrow's)."""
    if file.is_deletion_vector:
        return len(read_deletion_vector(io, file))
    if file.file_format is FileFormat.AVRO:
        opened = open_file(io, file.file_path, file.file_format, ColumnIds())
        try:
            return sum(batch.num_rows for _, batch, _ in opened.batches(set(), 0, None, BATCH_ROWS))
        finally:
            opened.close()
    with io.open_input(file.file_path) as source:
        if file.file_format is FileFormat.ORC:
            return int(orc.ORCFile(source).nrows)
        return int(pq.ParquetFile(source).metadata.num_rows)
