"""Rows of Iceberg tables that a job reads besides the changed table: a source table, or one named in SQL text."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.table.table import Table
from spark_jobs.runners.column_names import refuse_own_columns
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, live_rows
from spark_jobs.runners.spark_schema import refuse_nested_uuid


def table_rows(session: SparkSession, table: Table, scan: Scan) -> DataFrame:
    """Live rows of a snapshot, in its read schema. Raises RefError, UnsupportedError."""
    planned = plan(table, scan)
    schema = planned.schema
    refuse_own_columns(schema)
    refuse_nested_uuid(schema)
    context = ReadContext.for_table(table.metadata, schema=schema, columns=[*schema.fields, POS])
    return live_rows(session, planned.tasks, context, table.io.properties).drop(FILE_COLUMN, POSITION_COLUMN)
