"""The input of readers: one data file with the deletes that apply to it and the residual filter.

Tasks are values that travel: to worker processes and Spark executors as JSON (`task_to_json`), never as live objects. ``planning``
finds the files, ``delete_index`` matches deletes, iceberg_ops.data reads.

The rule: a task holds everything a reader needs besides schema and specs. A row of the file is in the scan exactly if no delete of
the task removes it and the residual is true for it (spec: "Scan Planning").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import DataError
from iceberg_ops.expressions.json import expression_from_json, expression_to_json
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.serde.json.content_file_json import data_file_from_dict, data_file_to_dict
from iceberg_ops.spec.content_files import DataFile, FileContent


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A delete file or deletion vector with its data sequence number."""

    data_file: DataFile
    sequence_number: int

    @property
    def file_path(self) -> str:
        return self.data_file.file_path

    @property
    def is_equality(self) -> bool:
        return self.data_file.content is FileContent.EQUALITY_DELETES

    @property
    def is_deletion_vector(self) -> bool:
        return self.data_file.is_deletion_vector


@dataclass(frozen=True, slots=True)
class FileScanTask:
    """One data file, or the part of it whose row groups start in ``[start, start + length)`` bytes (``length`` None: to the end).

    ``sequence_number`` is the data sequence number. ``deletes`` are those that may remove rows of this file. ``residual`` is the
    filter that remains to be tested row by row: an unbound or bound expression over the table's columns. ``file_sequence_number``
    is None if the manifest does not record it.
    """

    data_file: DataFile
    sequence_number: int
    file_sequence_number: int | None = None
    deletes: tuple[DeleteFile, ...] = ()
    residual: Expression = ALWAYS_TRUE
    start: int = 0
    length: int | None = None

    @property
    def file_path(self) -> str:
        return self.data_file.file_path

    @property
    def spec_id(self) -> int:
        return self.data_file.spec_id

    @property
    def record_count(self) -> int:
        """Rows of the whole file before any delete."""
        return self.data_file.record_count

    @property
    def is_whole_file(self) -> bool:
        return self.start == 0 and (self.length is None or self.length >= self.data_file.file_size_in_bytes)

    @property
    def data_bytes(self) -> int:
        """Bytes of data this task reads."""
        return self.data_file.file_size_in_bytes - self.start if self.length is None else self.length

    @property
    def size_bytes(self) -> int:
        """Bytes this task reads, its deletes included (Java: FileScanTask.sizeBytes)."""
        return self.data_bytes + sum(d.data_file.stored_bytes for d in self.deletes)


def task_to_dict(task: FileScanTask) -> dict[str, Any]:
    """A JSON-ready mapping; absent optional parts are left out."""
    out: dict[str, Any] = {"data-file": data_file_to_dict(task.data_file), "sequence-number": task.sequence_number}
    if task.file_sequence_number is not None:
        out["file-sequence-number"] = task.file_sequence_number
    if task.deletes:
        out["deletes"] = [{"file": data_file_to_dict(d.data_file), "sequence-number": d.sequence_number} for d in task.deletes]
    if task.residual != ALWAYS_TRUE:
        out["residual"] = expression_to_json(task.residual)
    if task.start:
        out["start"] = task.start
    if task.length is not None:
        out["length"] = task.length
    return out


def task_from_dict(document: Mapping[str, Any]) -> FileScanTask:
    """The inverse of ``task_to_dict``. Raises DataError for an invalid task."""
    try:
        residual = document.get("residual")
        return FileScanTask(
            data_file_from_dict(document["data-file"]),
            document["sequence-number"],
            document.get("file-sequence-number"),
            tuple(DeleteFile(data_file_from_dict(d["file"]), d["sequence-number"]) for d in document.get("deletes", ())),
            ALWAYS_TRUE if residual is None else expression_from_json(residual),
            document.get("start", 0),
            document.get("length"),
        )
    except (KeyError, TypeError, AttributeError) as e:
        raise DataError(f"not a scan task: {type(e).__name__} {e}") from None


def task_to_json(task: FileScanTask) -> bytes:
    """The task as JSON, for shipping to another process of the same version."""
    return json.dumps(task_to_dict(task), separators=(",", ":")).encode()


def task_from_json(data: bytes | str) -> FileScanTask:
    """The inverse of ``task_to_json``. Raises DataError."""
    try:
        document = json.loads(data)
    except ValueError as e:
        raise DataError(f"not a scan task: {e}") from None
    return task_from_dict(document)
