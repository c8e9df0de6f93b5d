"""How rows are distributed to tasks for writing (table property ``write.distribution-mode``).

``none`` leaves rows in their tasks; ``hash`` brings the rows of a partition together; ``range`` also distributes the sort order
over the tasks. If the property is unset, a sorted table uses range and a partitioned one hash, as Iceberg
documents it. The distribution determines the number of files and their overlap, never their order: each
task sorts its own rows (``data.sorted_writer``), by the table's order and not by Spark's.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from iceberg_ops.config.properties import DISTRIBUTION_MODE
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortOrder
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import IcebergType
from iceberg_ops.table.table import Table
from spark_jobs.runners.column_names import quoted


def distributed(rows: DataFrame, table: Table, options: WriteOptions) -> DataFrame:
    """``rows`` (with the table's columns by name) distributed for writing."""
    # A column with a write default instead of a source value is equal in every row: it does not help distribution.
    schema = table.schema.select([f.name for f in table.schema.fields if f.name in rows.columns])
    keys = partition_keys(schema, table.metadata.spec)
    sorts = sort_columns(schema, table.metadata.sort_order)
    mode = _mode(table, options, keys, sorts)
    tasks = options.write_tasks
    if mode == "range" and (keys or sorts):
        spread = [*keys, *sorts]
        return rows.repartitionByRange(tasks, *spread) if tasks else rows.repartitionByRange(*spread)
    if mode == "hash" and keys:
        return rows.repartition(tasks, *keys) if tasks else rows.repartition(*keys)
    return rows.repartition(tasks) if tasks else rows


def stays_in_place(table: Table, options: WriteOptions) -> bool:
    """Whether ``distributed`` certainly leaves rows unchanged, whatever columns they have."""
    keys, sorts = partition_keys(table.schema, table.metadata.spec), sort_columns(table.schema, table.metadata.sort_order)
    return not options.write_tasks and ((not keys and not sorts) or _mode(table, options, keys, sorts) == "none")


def _mode(table: Table, options: WriteOptions, keys: list[Column], sorts: list[Column]) -> str:
    stated = options.distribution_mode or DISTRIBUTION_MODE.maybe(table.properties)
    return stated or ("range" if sorts else "hash" if keys else "none")


def partition_keys(schema: Schema, spec: PartitionSpec) -> list[Column]:
    """Columns that differ whenever partitions do. For a bucket the source value itself is used: it keeps rows
    together and distributes them as well as the bucket number."""
    keys = []
    for f in spec.fields:
        if not f.transform.is_void:
            source = schema.fields_by_id.get(f.source_id)
            if source is not None:
                keys.append(_transformed(_column(schema, f.source_id), f.transform, source.type))
    return keys


def sort_columns(schema: Schema, order: SortOrder) -> list[Column]:
    """Spark sort expressions that distribute rows along the table's sort order. Buckets use their source values."""
    columns = []
    for f in order.fields:
        source = schema.fields_by_id.get(f.source_id)
        if source is None:
            continue
        column = _transformed(_column(schema, f.source_id), f.transform, source.type)
        first = f.null_order is NullOrder.NULLS_FIRST
        if f.direction is SortDirection.ASC:
            columns.append(column.asc_nulls_first() if first else column.asc_nulls_last())
        else:
            columns.append(column.desc_nulls_first() if first else column.desc_nulls_last())
    return columns


def _column(schema: Schema, field_id: int) -> Column:
    name, parent = schema.fields_by_id[field_id].name, schema.parents[field_id]
    return F.col(quoted(name)) if parent is None else _column(schema, parent).getField(name)


def _transformed(column: Column, transform: Transform, source: IcebergType) -> Column:
    name = getattr(source, "name", "")
    if transform.name in ("year", "month", "day") and name != "time":
        return {"year": F.year(column), "month": F.year(column) * 12 + F.month(column), "day": F.to_date(column)}[transform.name]
    if transform.name == "hour":
        return F.date_trunc("hour", column)
    if transform.name == "truncate" and transform.parameter:
        width = F.lit(transform.parameter)
        if name == "string":
            return F.substring(column, 1, transform.parameter)
        if name in ("int", "long"):
            # The least numbers have no multiple of the width below them: they are their own key.
            return F.coalesce(F.try_subtract(column, F.pmod(column, width)), column)
    return column
