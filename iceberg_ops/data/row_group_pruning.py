"""Row groups of a Parquet file that a filter can not match, told by their column statistics.

A row group is shown to the expressions as a small file with metrics, so what holds for pruning files holds here (SCAN-06, SCAN-07):
what is absent or unreadable is unknown, and a group is left out only where no row of it can match. Statistics count only where the
file stores the column in the type and unit that the filter compares in, or a narrower whole number or decimal. Those of uuids are
not used, nor those of byte arrays (text, long decimals) by parquet-mr before 1.10, which compared bytes as signed numbers. Min and
max may be truncated: they enclose the values, and more is not asked of them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow_schema import arrow_type
from iceberg_ops.data.file_columns import FileColumn
from iceberg_ops.data.metrics import value_of
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.expressions.metrics_evaluators import metrics_pruner
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, BoundPredicate, BoundReference, Expression, leaves
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.types import IcebergType, PrimitiveType
from iceberg_ops.spec.values import to_bytes

_BYTE_ARRAYS = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_COUNTS_ONLY = frozenset({"uuid", "geometry", "geography", "variant", "unknown"})


def groups_that_may_match(
    metadata: pq.FileMetaData, columns: Sequence[FileColumn], groups: Sequence[int], where: Expression
) -> list[int]:
    """The row groups among ``groups`` that may hold a row for which the bound expression is true."""
    if where == ALWAYS_TRUE:
        return list(groups)
    references = {leaf.field_id: leaf.term.reference for leaf in leaves(where) if isinstance(leaf, BoundPredicate)}
    found = [(reference, leaf) for reference in references.values() if (leaf := _leaf_of(columns, reference)) is not None]
    may_match = metrics_pruner(where)
    unreliable = _BYTE_ARRAYS if _compares_signed_bytes(metadata.created_by) else frozenset()
    return [g for g in groups if may_match(_as_file(metadata.row_group(g), found, unreliable))]


def runs(groups: Sequence[int]) -> Iterator[list[int]]:
    """Neighbouring row groups together: only within them do positions count on."""
    run: list[int] = []
    for group in groups:
        if run and group != run[-1] + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _leaf_of(columns: Sequence[FileColumn], reference: BoundReference) -> FileColumn | None:
    """The leaf column of that field, outside lists and maps."""
    for column in columns:
        if column.field_id == reference.field_id and not column.children:
            return column
        if pa.types.is_struct(column.type) and (found := _leaf_of(column.children, reference)) is not None:
            return found
    return None


def _compares_signed_bytes(created_by: str | None) -> bool:
    found = re.match(r"parquet-mr version (\d+)\.(\d+)", created_by or "")
    return found is not None and (int(found[1]), int(found[2])) < (1, 10)


def _as_file(
    group: pq.RowGroupMetaData, found: Sequence[tuple[BoundReference, FileColumn]], unreliable: Container[str]
) -> DataFile:
    values, nulls, lower, upper = {}, {}, {}, {}
    for reference, leaf in found:
        chunk = group.column(leaf.leaves[0])
        statistics = chunk.statistics
        values[reference.field_id] = chunk.num_values
        if statistics is None:
            continue
        if statistics.has_null_count:
            nulls[reference.field_id] = statistics.null_count
        if statistics.has_min_max and chunk.physical_type not in unreliable and _stored_as(leaf.type, reference.type):
            low, high = (_bound(reference.type, raw) for raw in (statistics.min_raw, statistics.max_raw))
            if low is not None and high is not None:
                lower[reference.field_id], upper[reference.field_id] = low, high
    return DataFile(
        file_path="", file_format=FileFormat.PARQUET, record_count=group.num_rows, file_size_in_bytes=0, value_counts=values,
        null_value_counts=nulls, lower_bounds=lower, upper_bounds=upper,
    )  # fmt: skip


def _stored_as(stored: pa.DataType, type_: IcebergType) -> bool:
    if isinstance(type_, PrimitiveType) and type_.name in _COUNTS_ONLY:
        return False
    if isinstance(stored, pa.DictionaryType):
        stored = stored.value_type
    wanted = arrow_type(type_)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        return bool(stored.unit == wanted.unit)
    if pa.types.is_decimal(stored) and pa.types.is_decimal(wanted):
        return bool(stored.scale == wanted.scale)
    return bool(stored == wanted) or (pa.types.is_int32(stored) and pa.types.is_int64(wanted))


def _bound(type_: IcebergType, raw: object) -> bytes | None:
    try:
        return to_bytes(type_, value_of(type_, raw))
    except (CorruptTableError, UnicodeDecodeError, ValueError, OverflowError, TypeError):
        return None
