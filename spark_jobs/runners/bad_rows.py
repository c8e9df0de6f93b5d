"""Handles rows that do not fit (``BAD_COLUMN``): the first one fails the task, or all go to a file of the quarantine.

A quarantine file is JSON lines: file, row, reason and record of each. It belongs to the task attempt and is named by ``file_names``
in a folder of the operation, so that a repeated attempt writes another one and those of a failed job are found and deleted.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import pyarrow as pa

from iceberg_ops.data.writing.file_names import FileNames
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.errors import DataError
from iceberg_ops.io.file_io import FileIO, discard_output
from spark_jobs.runners.column_names import OWN

BAD_COLUMN = f"{OWN}bad"
_SHOWN = 300


class BadChangeError(DataError):
    """A new row of a statement does not fit. ``place`` is the ``FILE_COLUMN`` of the table's row, for which the driver knows the
    file."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place


class BadRows:
    """One task attempt's bad rows. ``folder`` None: bad rows are not allowed."""

    def __init__(self, folder: str | None, io: FileIO, operation_id: str, task_id: str) -> None:
        self._folder, self._io = folder, io
        self._created = CreatedFiles(io)
        self.location = f"{folder}/{operation_id}/{FileNames(task_id, operation_id).next('.jsonl')}"
        self.count = 0
        self.first = ""
        self._output: BinaryIO | None = None

    def remove_bad(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` without its bad rows. Raises DataError for the first one if there is no quarantine."""
        bad = batch.column(BAD_COLUMN)
        if bad.null_count == len(bad):
            return batch
        for row in bad.drop_null().to_pylist():
            self._divert(row)
        return batch.filter(bad.is_null())

    def _divert(self, row: dict[str, Any]) -> None:
        if self._folder is None and row.get("place") is not None:
            raise BadChangeError(row["place"], f"row {row['row']}: {row['reason']}")
        if self._folder is None:
            raise DataError(describe(row))
        if self._output is None:
            self._output = self._io.open_output(self.location)
            self.first = describe(row)
        self._output.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self.count += 1

    def close(self) -> None:
        """Complete the file."""
        if self._output is not None:
            self._output.close()
            self._created.created(self.location)

    def abort(self) -> None:
        """Discard the file, complete or not."""
        if self._output is not None:
            discard_output(self._output)
        self._created.discard()


def describe(row: dict[str, Any]) -> str:
    """A bad row on one line."""
    place = f"source {row['file']}" if row["file"] else "source"
    place += f", row {row['row']}" if row["row"] is not None else ""
    record = " ".join((row["record"] or "").split())
    return f"{place}: {row['reason']}: {record if len(record) <= _SHOWN else record[:_SHOWN] + '...'}"
