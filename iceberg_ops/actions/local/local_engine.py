"""Lane local as an engine of row operations: Arrow, in this process.

It evaluates and converts only what certainly gives the same result as Spark. It refuses everything else by name, before anything is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from iceberg_ops.actions.local.delete_rows import matched_positions
from iceberg_ops.actions.local.local_merge import merge_changes
from iceberg_ops.actions.local.local_rows import copied
from iceberg_ops.actions.local.local_update import update_changes
from iceberg_ops.actions.local.local_upsert import write_upserts
from iceberg_ops.actions.local.set_values import refuse_opaque_parts
from iceberg_ops.actions.local.source_files import write_source
from iceberg_ops.actions.rows.changed_rows import CopyWork
from iceberg_ops.actions.rows.row_engine import RowChanges, Statement, WrittenSource, WrittenUpserts
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import TEXT_FORMATS, JobSpec, RowChange
from iceberg_ops.config.lanes import LOCAL
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.writing.upsert_keys import KeyPlan
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import NeedsSparkError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression
from iceberg_ops.expressions.renaming import unqualified
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.types import NestedField

_OPTIONS_OF_SPARK = frozenset({"distribution-mode", "write-tasks", "merge-schema", "bad-records", "quarantine-path"})
"""These options tell Spark how to do the work, or what to do with rows that do not fit."""


class LocalEngine:
    """It holds no resources, so nothing is opened or closed."""

    name = LOCAL
    summary: Mapping[str, str] = {summary_keys.ENGINE_NAME: "iceberg-ops"}

    def check(self, job: JobSpec) -> None:
        """Raises UnsupportedError."""
        source = job.source
        if source is not None and source.format == "sql":
            raise NeedsSparkError.to("a source query")
        if source is not None and source.format not in TEXT_FORMATS and source.options:
            raise NeedsSparkError.to(f"reader option {min(source.options)} of a source of format {source.format}")
        if job.job != "delete" and (surplus := sorted(job.options.keys() & _OPTIONS_OF_SPARK)):
            raise NeedsSparkError.to(f"{job.job} with {surplus[0]}")

    def opened(self, job: JobSpec) -> AbstractContextManager[LocalEvaluator]:
        return nullcontext(LocalEvaluator())


class LocalEvaluator:
    """See ``row_engine.RowEvaluator``. Every call raises UnsupportedError for an expression or conversion that needs Spark."""

    def condition(self, run: Run, text: str, *, subqueries: bool) -> Expression:
        where = unqualified(parse_where(text, subqueries=subqueries), "target", run.table.schema)
        refuse_opaque_parts(bind(run.table.schema, where, case_sensitive=False), f"{run.job.job} where {text}")
        return where

    def write_source(self, run: Run, options: WriteOptions) -> WrittenSource:
        return write_source(run, options)

    def write_upserts(self, run: Run, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
        return write_upserts(run, options, keys, plan)

    def delete_changes(self, statement: Statement) -> RowChanges:
        with statement.run.step("evaluate"):
            return RowChanges(matched=matched_positions(statement.run.table, statement.tasks))

    def update_changes(self, statement: Statement) -> RowChanges:
        return update_changes(statement)

    def merge_changes(self, statement: Statement, change: RowChange) -> RowChanges:
        return merge_changes(statement, change)

    def copy(self, statement: Statement, work: CopyWork, context: WriteContext) -> list[DataFile]:
        return copied(statement.run.table, statement.run.operation_id, work, context)
