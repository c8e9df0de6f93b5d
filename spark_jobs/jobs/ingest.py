"""The source of an append or overwrite, read by Spark, and written as data files."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.bad_records import checked_rows
from spark_jobs.jobs.direct_source import direct_parts
from spark_jobs.jobs.distribution import distributed, stays_in_place
from spark_jobs.jobs.schema_merge import merged_schema
from spark_jobs.jobs.source_columns import check_columns_of_files
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.runners.changes import CHANGE_COLUMN, INSERT, retryable_if_changed, write_changes
from spark_jobs.runners.source_parts import write_parts


def check_source(run: SparkRun, *, require_success_file: bool) -> None:
    """Raise OptionError or DataError for files that cannot be read: none, half written, the table's own."""
    source = run.job.source
    if source is not None and source.paths:
        check_paths(run.session, source.paths, run.table, require_success_file=require_success_file, options=source.options)


def check_files(run: SparkRun, rows: DataFrame, state: SourceState) -> None:
    """Raise DataError for Parquet files of the source with columns that ``rows``, the source as Spark reads it, does not
    contain."""
    if run.job.source is not None and run.job.source.format == "parquet":
        with retryable_if_changed(state.check_unchanged):
            check_columns_of_files(rows)


def write_source(run: SparkRun, options: WriteOptions) -> WrittenSource:
    """Read the source and write its rows as files of the table, sorted within files by the table's sort order.

    Parquet that needs no work of Spark is read and written only by Arrow (``direct_source``).
    """
    with run.step("plan"):
        check_source(run, require_success_file=options.require_success_file)
        source = run.job.source
        tables = SqlTables(run) if source is not None and source.format == "sql" else None
        rows = source_rows(run, tables)
        state = SourceState(run, rows)
        schema = merged_schema(run.table.metadata, rows) if options.merge_schema else run.table.schema
        form = run.job.source.format if run.job.source else ""
        checked = checked_rows(rows, schema, form)
        in_place = stays_in_place(run.table, options)
        parts = direct_parts(run.session, run.job.source, rows, schema) if in_place else None
        if parts is None:
            check_files(run, rows, state)
    with run.step("write"):
        context, properties = evolved(write_context(run.table, options, in_table_order=True), schema), run.table.io.properties
        if parts is not None:
            changes = write_parts(run.session, parts, context, properties, run.run.operation_id, state.check_unchanged)
        else:
            placed = distributed(checked, run.table, options).withColumn(CHANGE_COLUMN, F.lit(INSERT))
            changes = write_changes(
                placed,
                context,
                properties,
                run.run.operation_id,
                quarantine=options.quarantine,
                is_repeatable=state.is_repeatable,
                check=state.check_unchanged,
            )
    return WrittenSource(
        schema=schema,
        files=changes.files,
        reads_table=tables is not None and tables.reads_target,
        quarantined=changes.quarantined,
        rows_quarantined=changes.rows_quarantined,
    )


def evolved(context: WriteContext, schema: Schema) -> WriteContext:
    """The context of files with columns of a schema that the table does not have yet."""
    return context if schema is context.schema else replace(context, schema=schema, schemas=(*context.schemas, schema))
