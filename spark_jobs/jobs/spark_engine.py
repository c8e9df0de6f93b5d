"""Spark as an engine of row operations (``iceberg_ops.actions.rows.row_engine``).

Each job is evaluated in a session of its own. Errors of Spark become errors of the tree: an error about the rows themselves (a
value that does not fit, a corrupt source file) is bad data, an error while an interrupt was pending is that interrupt, and
an error after Spark had ended is retryable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from iceberg_ops.actions.rows.changed_rows import CopyWork
from iceberg_ops.actions.rows.row_engine import RowChanges, Statement, WrittenSource, WrittenUpserts
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import JobSpec, RowChange
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.rewriting.copy_without import copy_context
from iceberg_ops.data.writing.upsert_keys import KeyPlan
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.expressions.predicates import Expression
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.conditions import pruning_filter
from spark_jobs.jobs.delete import delete_changes
from spark_jobs.jobs.ingest import write_source
from spark_jobs.jobs.interrupts import came_of_interrupt
from spark_jobs.jobs.merge import merge_changes
from spark_jobs.jobs.spark_errors import spark_error
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.update import update_changes
from spark_jobs.jobs.upsert import write_upserts
from spark_jobs.runners.column_names import refuse_own_columns
from spark_jobs.runners.copy_on_write import rewrite_without
from spark_jobs.runners.spark_end import ended_error, has_ended
from spark_jobs.runners.spark_schema import refuse_nested_uuid
from spark_jobs.session import job_session

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """``session``: the program's session, of which jobs use copies."""

    session: SparkSession
    name: str = "spark"

    @property
    def summary(self) -> Mapping[str, str]:
        return {summary_keys.ENGINE_NAME: "spark", summary_keys.ENGINE_VERSION: self.session.version}

    def check(self, job: JobSpec) -> None:
        """Spark's limits depend on the table, so there is nothing to check here."""

    @contextmanager
    def opened(self, job: JobSpec) -> Iterator[SparkEvaluator]:
        is_done = False
        try:
            with job_session(self.session) as session:
                yield SparkEvaluator(session)
                is_done = True
        except Exception as e:
            if not is_done:
                if (typed := _typed(self.session, job, e)) is e:
                    raise
                raise typed from e
            log.warning("%s %s is done, but its session was not closed: %s", job.job, job.table, e)


def _typed(session: SparkSession, job: JobSpec, error: Exception) -> BaseException:
    if outcome_unknown(error) is not None or isinstance(error, KeyboardInterrupt):
        return error
    if came_of_interrupt(error):
        return KeyboardInterrupt()
    if not isinstance(error, IcebergOpsError) and has_ended(session):
        return ended_error(f"{job.job} {job.table}")
    return spark_error(job, error) if isinstance(error, PySparkException | Py4JJavaError) else error


@dataclass(frozen=True, slots=True)
class SparkEvaluator:
    """See ``row_engine.RowEvaluator``. Every call raises UnsupportedError for a table with types or names that Spark does not
    support."""

    session: SparkSession

    def condition(self, run: Run, text: str, *, subqueries: bool) -> Expression:
        return pruning_filter(text, self._spark(run).table.schema, subqueries=subqueries)

    def write_source(self, run: Run, options: WriteOptions) -> WrittenSource:
        return write_source(self._spark(run), options)

    def write_upserts(self, run: Run, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
        return write_upserts(self._spark(run), options, keys, plan)

    def delete_changes(self, statement: Statement) -> RowChanges:
        return delete_changes(self._spark(statement.run), statement)

    def update_changes(self, statement: Statement) -> RowChanges:
        return update_changes(self._spark(statement.run), statement)

    def merge_changes(self, statement: Statement, change: RowChange) -> RowChanges:
        return merge_changes(self._spark(statement.run), statement, change)

    def copy(self, statement: Statement, work: CopyWork, context: WriteContext) -> list[DataFile]:
        run, read = statement.run, copy_context(statement.run.table.metadata)
        return rewrite_without(self.session, work, read, context, run.table.io.properties, run.operation_id)

    def _spark(self, run: Run) -> SparkRun:
        refuse_own_columns(run.table.schema)
        refuse_nested_uuid(run.table.schema)
        return SparkRun(self.session, run)
