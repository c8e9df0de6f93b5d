"""Metadata columns of read rows (spec: "Reserved Field IDs", "Row Lineage").

A stored ``_row_id`` or ``_last_updated_sequence_number`` is returned unchanged; null inherits from the file. A file without
``first_row_id`` has no lineage: both columns are null (LINEAGE-06). For an uncommitted file the stored values are returned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow.arrow_schema import arrow_field
from iceberg_ops.data.arrow.arrow_values import repeated
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import (
    CHANGE_ORDINAL_ID,
    CHANGE_TYPE_ID,
    COMMIT_SNAPSHOT_ID_ID,
    DELETED_ID,
    FILE_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    PARTITION_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField, StructType

_OF_CHANGES = (CHANGE_TYPE_ID, CHANGE_ORDINAL_ID, COMMIT_SNAPSHOT_ID_ID)
_LINEAGE = (ROW_ID_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID)


def check_can_be_scanned(projected: Schema) -> None:
    """Raise UnsupportedError for a metadata column that no row of a table has."""
    for f in projected.fields:
        if f.field_id in _OF_CHANGES:
            raise _only_of_changes(f)


def lineage_fields(projected: Schema) -> tuple[NestedField, ...]:
    """The requested row lineage columns: the only metadata columns that files may hold."""
    return tuple(f for f in projected.fields if f.field_id in _LINEAGE)


def with_metadata_columns(
    data: pa.RecordBatch, stored: pa.RecordBatch, positions: npt.NDArray[np.int64], task: FileScanTask, context: ReadContext
) -> pa.RecordBatch:
    """``data`` with the metadata columns among ``context.projected`` inserted at their positions; ``stored`` are the file's lineage
    columns."""
    arrays, fields = [], []
    taken = 0
    lineage = {f.field_id: i for i, f in enumerate(lineage_fields(context.projected))}
    data_ids = {f.field_id for f in context.data_fields}
    for f in context.projected.fields:
        if f.field_id in data_ids:
            arrays.append(data.column(taken))
            fields.append(data.schema.field(taken))
            taken += 1
            continue
        stored_lineage = stored.column(lineage[f.field_id]) if f.field_id in lineage else None
        arrays.append(_column(f, positions, task, context, stored_lineage))
        fields.append(arrow_field(f))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _column(
    f: NestedField, positions: npt.NDArray[np.int64], task: FileScanTask, context: ReadContext, stored: pa.Array | None
) -> pa.Array:
    if context.is_of_uncommitted_files and f.field_id in _LINEAGE:
        return stored
    first = task.data_file.first_row_id
    if first is None and f.field_id in _LINEAGE:
        return pa.nulls(len(positions), pa.int64())
    if f.field_id == ROW_ID_ID:
        return pc.coalesce(stored, pa.array(positions + (first or 0)))
    if f.field_id == LAST_UPDATED_SEQUENCE_NUMBER_ID:
        return pc.coalesce(stored, pa.scalar(task.sequence_number, pa.int64()))
    if f.field_id == POS_ID:
        return pa.array(positions, pa.int64())
    return repeated(f.type, _constant(f, task, context), len(positions))


def _constant(f: NestedField, task: FileScanTask, context: ReadContext) -> Any:
    if f.field_id == FILE_ID:
        return task.file_path
    if f.field_id == SPEC_ID_ID:
        return task.spec_id
    if f.field_id == DELETED_ID:
        return False
    if f.field_id == PARTITION_ID and isinstance(f.type, StructType):
        return context.partitions.values(task.spec_id, task.data_file.partition)
    raise _only_of_changes(f)


def _only_of_changes(f: NestedField) -> UnsupportedError:
    return UnsupportedError(f"not supported: metadata column {f.name} in a scan, because only changelog reads have it")
