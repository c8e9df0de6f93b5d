"""The result of a delete, update or merge, evaluated by Spark: places of the deleted rows, and files of the new ones.

``iceberg_ops.actions`` plans, and commits in either write mode. After any known failure every written file is
deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, is_exact
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import POS, ROW_ID
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.source_files import refuse_listed_twice
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.runners.changes import Changes, retryable_if_changed, write_changes
from spark_jobs.runners.matched_places import MOST_ROWS, matched_places
from spark_jobs.runners.reading import ROW_ID_COLUMN, live_rows, task_places


class StatementRows:
    """The rows of one statement, and their changes. ``tables`` are those that its SQL text names."""

    def __init__(self, run: SparkRun, statement: Statement) -> None:
        self.run = run
        self.statement = statement
        self.tables = SqlTables(run)
        self.tasks = self._evaluated_by_spark()

    @property
    def schema(self) -> Schema:
        return self.statement.schema

    def _evaluated_by_spark(self) -> list[FileScanTask]:
        """Spark decides which rows match. The reader may drop rows earlier only if it understands the whole condition."""
        if is_exact(self.statement.filter):
            return self.statement.tasks
        return [replace(task, residual=ALWAYS_TRUE) for task in self.statement.tasks]

    @property
    def row_ids(self) -> list[str]:
        """The column of ``rows_to_write`` with which rows keep their ids; v3 tables have it."""
        return [ROW_ID_COLUMN] if self.statement.keeps_row_ids else []

    def rows_to_write(self) -> DataFrame:
        """Rows that may match and be rewritten: all columns, the place of each, and ``row_ids``."""
        return self._rows([*self.schema.fields, *[ROW_ID for _ in self.row_ids]])

    def live_rows(self, columns: Schema) -> DataFrame:
        """Rows that may match, with the place of each."""
        return self._rows(columns.fields)

    def _rows(self, columns: Sequence[NestedField]) -> DataFrame:
        context = ReadContext.for_table(self.run.table.metadata, columns=[*columns, POS])
        return live_rows(self.run.session, self.tasks, context, self.run.table.io.properties)

    def changes(
        self,
        rows: DataFrame,
        *,
        writes_rows: bool,
        is_repeatable: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
    ) -> RowChanges:
        """Evaluate ``rows`` and write the new ones. ``is_repeatable`` and ``check`` as in ``write_changes``."""
        run, io, statement = self.run, self.run.table.io, self.statement
        check = self._with_files_of_subqueries(rows, is_repeatable, check)
        with run.step("evaluate"):
            with retryable_if_changed(check):
                matched = None if writes_rows else self._matched(rows, is_repeatable)
            if matched is not None:
                check()
            changes = matched or write_changes(
                rows,
                statement.context_of_new_rows if writes_rows else statement.context,
                io.properties,
                run.run.operation_id,
                writes_rows=writes_rows,
                first_row_ids=self._first_row_ids,
                path_of=lambda place: statement.tasks[task_places(self.tasks, io)[place]].file_path,
                is_repeatable=is_repeatable,
                check=check,
            )
        places = task_places(self.tasks, io)
        return RowChanges(
            matched=[(statement.tasks[places[file]], positions) for file, positions in changes.deleted.items()],
            files=changes.files,
            reads_table=self.tables.reads_target,
            repeated=changes.repeated,
        )

    def _with_files_of_subqueries(
        self, rows: DataFrame, is_repeatable: Callable[[], bool], check: Callable[[], None]
    ) -> Callable[[], None]:
        """``check``, and a check that files read only by subqueries stay unchanged."""
        if is_repeatable():
            return check
        refuse_listed_twice(rows, only_subqueries=True)
        state = SourceState(self.run, rows, besides=task_places(self.tasks, self.run.table.io).keys())

        def check_all() -> None:
            check()
            state.check_unchanged()

        return check_all

    @property
    def _first_row_ids(self) -> dict[str, int]:
        firsts = [task.data_file.first_row_id for task in self.tasks]
        places = task_places(self.tasks, self.run.table.io) if self.row_ids else {}
        return {place: first for place, i in places.items() if (first := firsts[i]) is not None}

    def depends_on_own_rows(self) -> bool:
        """No subquery affects the change: rows of a pinned snapshot are the same in every evaluation."""
        return self.tables.relations == 0

    def _matched(self, rows: DataFrame, is_repeatable: Callable[[], bool]) -> Changes | None:
        """The positions that ``rows`` delete, without a Python task; None if they are too many for the driver."""
        if sum(task.data_file.record_count for task in self.tasks) > MOST_ROWS:
            return None
        io = self.run.table.io
        deleted = matched_places(rows, task_places(self.tasks, io), io, self.run.run.operation_id, is_repeatable)
        return None if deleted is None else Changes(deleted=deleted)
