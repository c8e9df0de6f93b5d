"""What append and overwrite share: a source's rows written as data files, and committed with the schema they need.

With ``merge-schema`` the new schema and the rows are one commit: nobody sees the columns without the rows, or rows without their
columns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from msgspec.structs import replace as with_fields
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from iceberg_ops.actions.run_identity import run_of
from iceberg_ops.actions.write_options import write_context
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateSchema
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.remember_run import RememberRun
from iceberg_ops.commit.run_keys import find_run
from iceberg_ops.commit.staged_files import discard
from iceberg_ops.commit.transaction import Transaction
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import OptionError, ValidationError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.same_table import same_table
from spark_jobs.jobs.bad_records import checked_rows
from spark_jobs.jobs.direct_source import direct_parts
from spark_jobs.jobs.distribution import distributed, stays_in_place
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.schema_merge import merged_schema
from spark_jobs.jobs.source_columns import check_columns_of_files
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_commit import commit_staged
from spark_jobs.runners.changes import CHANGE_COLUMN, INSERT, Changes, retryable_if_changed, write_changes
from spark_jobs.runners.source_parts import write_parts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ingested:
    """A source, written and not yet committed; ``schema`` differs from the table's where the source added to it."""

    schema: Schema
    changes: Changes
    reads_target: bool = False
    """The source's query read the table that is changed."""

    @property
    def files(self) -> list[DataFile]:
        return self.changes.files


def check_source(run: JobRun, *, require_success_file: bool) -> None:
    """Raise OptionError or DataError for a source that can not be read as it is: none, half written, the table itself."""
    source = run.job.source
    if source is None:
        return
    if source.table is not None and source.table == run.job.table and source.catalog in (None, run.job.catalog):
        raise OptionError(f"source {source.table} is the target itself: name it as the view target in a query (format sql)")
    if source.paths:
        check_paths(run.session, source.paths, run.table, require_success_file=require_success_file, options=source.options)


def check_files(run: JobRun, rows: DataFrame, state: SourceState) -> None:
    """Raise DataError for Parquet files of the source that have columns ``rows``, the source as Spark reads it, leave out."""
    if run.job.source is not None and run.job.source.format == "parquet":
        with retryable_if_changed(state.check_unchanged):
            check_columns_of_files(rows)


def write_source(run: JobRun, options: WriteOptions) -> Ingested:
    """Read the source and write its rows as files of the table, sorted within files by the table's sort order.

    Parquet that needs nothing of Spark is read and written by Arrow alone (``direct_source``).
    """
    write_context(run.table, options).check_format()
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
            changes = write_parts(run.session, parts, context, properties, run.files_id, state.check_unchanged)
        else:
            placed = distributed(checked, run.table, options).withColumn(CHANGE_COLUMN, F.lit(INSERT))
            changes = write_changes(
                placed,
                context,
                properties,
                run.files_id,
                quarantine=options.quarantine,
                is_repeatable=state.is_repeatable,
                check=state.check_unchanged,
            )
    run.metrics.update({"added-records": changes.rows_written, "added-data-files": len(changes.files)})
    if options.quarantine is not None:
        run.metrics.update({"quarantined-records": changes.rows_quarantined, "quarantine-files": len(changes.quarantined)})
    return Ingested(schema, changes, reads_target=tables is not None and tables.reads_target)


def evolved(context: WriteContext, schema: Schema) -> WriteContext:
    """The context of files that hold columns of a schema the table does not have yet."""
    return context if schema is context.schema else replace(context, schema=schema, schemas=(*context.schemas, schema))


def commit_source(run: JobRun, operation: Operation, ingested: Ingested) -> ActionReport:
    """Commit ``operation``, with the new schema if there is one; the quarantine goes where this run's commit is known not to be."""
    if ingested.schema is not run.table.schema:
        run.metrics["added-columns"] = len(ingested.schema.fields_by_id) - len(run.table.schema.fields_by_id)
        operation = Transaction(
            operations=(UpdateSchema(schema=ingested.schema), operation),
            branch=operation.branch,
            run_key=operation.run_key,
            starting_snapshot_id=operation.starting_snapshot_id,
            summary=operation.summary,
        )
    with _quarantine_of(run, ingested):
        report = commit_staged(run, operation, ingested.files)
    return with_quarantine(report, ingested.changes)


def remember(run: JobRun, ingested: Ingested) -> ActionReport:
    """Nothing is to be committed. Where rows went to the quarantine, the run key is remembered, so that a repeated run does not put
    them there again."""
    done = run_of(run.job)
    if done is None or not ingested.changes.quarantined:
        return with_quarantine(run.report("nothing-to-do"), ingested.changes)
    with _quarantine_of(run, ingested), run.step("remember run key"):
        run.outcome.record(commit(run.catalog, run.table, RememberRun(done=done)))
    return with_quarantine(run.report("nothing-to-do"), ingested.changes)


@contextmanager
def _quarantine_of(run: JobRun, ingested: Ingested) -> Iterator[None]:
    """The quarantine's files are deleted where the block ends without a commit of this run. They stand for rows that are in no
    table: where it is not certain that there is none, they stay."""
    places = [q.file_path for q in ingested.changes.quarantined]
    try:
        yield
    except BaseException as e:
        staged = [f.file_path for f in ingested.files]
        # An interrupt may come between a commit and its record: then the table refers to the rows' files, and they are kept.
        kept = run.outcome.changed or discard(run.catalog, run.table, staged, mark=run.operation_id, after=e).left
        if not kept and (staged or isinstance(e, ValidationError) or _is_not_remembered(run)):
            discard(run.catalog, run.table, places, mark=run.operation_id, after=e)
        raise
    if run.outcome.status == "already-committed":
        discard(run.catalog, run.table, places, mark=run.operation_id)


def _is_not_remembered(run: JobRun) -> bool:
    """Whether the table as it is now certainly has no commit of this run. A run that wrote no file of rows can prove it by its run
    key alone; without one, or where the table cannot be read, it is not certain."""
    done = run_of(run.job)
    if done is None:
        return False
    try:
        now = run.catalog.load_table(run.table.identifier[1:])
        return same_table(run.table, now) and find_run(now, done) is None
    except Exception as e:  # noqa: BLE001 - whatever prevents the proof, the quarantine stays; the job's own error is the one to see
        log.warning("the quarantine of an unfinished run on %s stays: its commit could not be looked up: %s", run.table.name, e)
        return False


def with_quarantine(report: ActionReport, changes: Changes) -> ActionReport:
    """The report with the quarantine files among its failures."""
    return with_fields(report, failures=[*report.failures, *changes.quarantined])
