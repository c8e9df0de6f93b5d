"""Excludes row groups of a Parquet file that cannot match a filter, by their column statistics.

The expressions treat a row group like a small file with metrics, so the rules of file pruning apply (SCAN-06, SCAN-07): absent or
unreadable statistics are unknown, and a group is excluded only if no row of it can match. ``data.footer_statistics`` decides which
statistics count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.columns.file_columns import FileColumn
from iceberg_ops.data.formats.footer_statistics import TrustedStatistics
from iceberg_ops.expressions.metrics_evaluators import metrics_pruner
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, BoundPredicate, BoundReference, Expression, leaves
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.types import UNKNOWN
from iceberg_ops.spec.values import to_bytes


def groups_that_may_match(
    metadata: pq.FileMetaData, columns: Sequence[FileColumn], groups: Sequence[int], where: Expression
) -> list[int]:
    """The row groups among ``groups`` that may hold a row for which the bound expression is true."""
    if where == ALWAYS_TRUE:
        return list(groups)
    references = {leaf.field_id: leaf.term.reference for leaf in leaves(where) if isinstance(leaf, BoundPredicate)}
    shown = [reference for reference in references.values() if reference.type != UNKNOWN]
    leaf_columns = [(reference, leaf) for reference in shown if (leaf := _find_leaf(columns, reference)) is not None]
    may_match = metrics_pruner(where)
    trusted = TrustedStatistics.of(metadata.created_by)
    return [g for g in groups if may_match(_as_file(metadata.row_group(g), leaf_columns, trusted))]


def runs(groups: Sequence[int]) -> Iterator[list[int]]:
    """Adjacent row groups together: positions are consecutive only within them."""
    run: list[int] = []
    for group in groups:
        if run and group != run[-1] + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _find_leaf(columns: Sequence[FileColumn], reference: BoundReference) -> FileColumn | None:
    """The leaf column of that field, outside lists and maps."""
    for column in columns:
        if column.field_id == reference.field_id and not column.children:
            return column
        if pa.types.is_struct(column.type) and (child := _find_leaf(column.children, reference)) is not None:
            return child
    return None


def _as_file(
    group: pq.RowGroupMetaData, leaf_columns: Sequence[tuple[BoundReference, FileColumn]], trusted: TrustedStatistics
) -> DataFile:
    values, nulls, lower, upper = {}, {}, {}, {}
    for reference, leaf in leaf_columns:
        chunk = group.column(leaf.leaves[0])
        statistics = chunk.statistics
        values[reference.field_id] = chunk.num_values
        if statistics is None:
            continue
        if statistics.has_null_count:
            nulls[reference.field_id] = statistics.null_count
        if (bounds := trusted.bounds(chunk, leaf.type, reference.type)) is not None:
            lower[reference.field_id], upper[reference.field_id] = (to_bytes(reference.type, value) for value in bounds)
    return DataFile(
        file_path="", file_format=FileFormat.PARQUET, record_count=group.num_rows, file_size_in_bytes=0, value_counts=values,
        null_value_counts=nulls, lower_bounds=lower, upper_bounds=upper,
    )  # fmt: skip
