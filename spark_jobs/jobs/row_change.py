"""Delete, update and merge after Spark has said what is to change: files written, deletes written, one commit.

Merge-on-read commits new rows and position deletes (v2) or deletion vectors (v3) as one ``RowDelta``; copy-on-write replaces the
touched files with ``OverwriteFiles``. Both are validated against everything committed since the table was read, and retried by the
committer; on any known failure every staged file is deleted, and on an unknown outcome none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from iceberg_ops.actions.delete_rows import whole_files_match
from iceberg_ops.actions.merge_checks import repeated_matches
from iceberg_ops.actions.write_options import write_context
from iceberg_ops.commit.delete_files import DeleteFiles
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.commit.staged_files import discard
from iceberg_ops.config.properties import Property
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.copy_without import copy_context
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import DataError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, is_exact
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.live_entries import with_other_entries
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import POS, ROW_ID
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.conditions import pruning_filter
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.source_files import refuse_listed_twice
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_commit import commit_staged
from spark_jobs.runners.changes import Changes, retryable_if_changed, write_changes
from spark_jobs.runners.column_names import refuse_own_columns
from spark_jobs.runners.copy_on_write import rewrite_without
from spark_jobs.runners.matched_places import MOST_ROWS, matched_places
from spark_jobs.runners.reading import ROW_ID_COLUMN, live_rows, task_places

Matched = Sequence[tuple[FileScanTask, BitMap64]]
"""Tasks with the positions of their rows that go."""


class RowChangeJob:
    """One statement on one table: the planned files, the mode and isolation in force, and the way to the commit."""

    def __init__(self, run: JobRun, where: str | None, mode: Property[str], isolation: Property[str]) -> None:
        """Plan the files that may match ``where``. Raises WhereError, OptionError."""
        self.run = run
        self.options = WriteOptions.parse(run.job.job, run.job.options, run.table.properties)
        self.tables = SqlTables(run)
        refuse_own_columns(run.table.schema)
        self.filter = pruning_filter(where, run.table.schema, subqueries=True)
        self.isolation = self.options.isolation or isolation.of(run.table.properties)
        change = run.job.change
        self.mode = (change.mode if change else None) or mode.of(run.table.properties)
        with run.step("plan"):
            self.plan: ScanPlan = plan(run.table, Scan(ref=run.job.branch, where=self.filter))
        self.tasks = self._evaluated_by_spark(self.plan.tasks)

    @property
    def schema(self) -> Schema:
        return self.run.table.schema

    def _evaluated_by_spark(self, tasks: Iterable[FileScanTask]) -> list[FileScanTask]:
        """Spark decides which rows match. The reader may drop rows before only where it understands the whole condition."""
        if is_exact(self.filter):
            return list(tasks)
        return [replace(task, residual=ALWAYS_TRUE) for task in tasks]

    def whole_files_match(self) -> bool:
        """Every planned file matches with all its rows, so that deleting them is a matter of metadata."""
        return is_exact(self.filter) and whole_files_match(self.plan)

    @property
    def row_ids(self) -> list[str]:
        """The column of ``rows_to_write`` by which rows keep their ids; v3 tables have it."""
        return [ROW_ID_COLUMN] if self.run.table.metadata.format_version >= 3 else []

    def rows_to_write(self) -> DataFrame:
        """Rows that may match and be written again: all columns, the place of each, and ``row_ids``."""
        return self._rows([*self.schema.fields, *[ROW_ID for _ in self.row_ids]])

    def live_rows(self, columns: Schema) -> DataFrame:
        """Rows that may match, with the place of each."""
        return self._rows(columns.fields)

    def _rows(self, columns: Sequence[NestedField]) -> DataFrame:
        context = ReadContext.for_table(self.run.table.metadata, columns=[*columns, POS])
        return live_rows(self.run.session, self.tasks, context, self.run.table.io.properties)

    def delete_by_metadata(self) -> ActionReport:
        """Drop whole files; no row is read."""
        if not self.plan.tasks:
            return self.run.report("nothing-to-do")
        self.run.metrics.update({"deleted-data-files": len(self.plan.tasks), "metadata-only": 1})
        operation = DeleteFiles(
            filter=self.filter,
            branch=self.run.job.branch,
            run_key=self.run.job.run_key,
            summary=self.run.summary,
            starting_snapshot_id=self._start,
        )
        return commit_staged(self.run, operation, ())

    @property
    def _start(self) -> int | None:
        return self.plan.snapshot.snapshot_id if self.plan.snapshot else None

    def apply(
        self,
        rows: DataFrame,
        *,
        writes_rows: bool,
        check_cardinality: bool = False,
        is_repeatable: Callable[[], bool],
        check: Callable[[], None] = lambda: None,
    ) -> ActionReport:
        """Evaluate ``rows``, write, and commit. ``is_repeatable`` and ``check`` as in ``write_changes``.

        Raises DataError where one target row has two source rows; UnsupportedError, before a row is read, for a format that is not
        written.
        """
        run, io = self.run, self.run.table.io
        check = self._with_files_of_subqueries(rows, is_repeatable, check)
        write = replace(write_context(run.table, self.options), row_lineage=writes_rows and bool(self.row_ids))
        self._check_formats(write, writes_rows=writes_rows)
        with run.step("evaluate"):
            with retryable_if_changed(check):
                found = None if writes_rows else self._matched(rows, is_repeatable)
            if found is not None:
                check()
            changes = found or write_changes(
                rows,
                write,
                io.properties,
                run.files_id,
                writes_rows=writes_rows,
                first_row_ids=self._first_row_ids,
                path_of=lambda place: self.plan.tasks[task_places(self.tasks, io)[place]].file_path,
                is_repeatable=is_repeatable,
                check=check,
            )
        staged = list(changes.files)
        try:
            if check_cardinality and changes.repeated:
                raise DataError(repeated_matches(changes.repeated))
            run.metrics.update({"deleted-records": changes.rows_deleted, "added-records": changes.rows_written})
            if not changes.deleted and not changes.files:
                return run.report("nothing-to-do")
            operation = self._operation(changes, write, staged)
        except BaseException as e:
            discard(self.run.catalog, self.run.table, [f.file_path for f in staged], mark=self.run.operation_id, after=e)
            raise
        return commit_staged(self.run, operation, staged)

    def _with_files_of_subqueries(
        self, rows: DataFrame, is_repeatable: Callable[[], bool], check: Callable[[], None]
    ) -> Callable[[], None]:
        """``check``, and that files stayed as they were that only subqueries read."""
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
        """No subquery says what is changed: rows of a pinned snapshot are the same in every evaluation."""
        return self.tables.relations == 0

    def _matched(self, rows: DataFrame, is_repeatable: Callable[[], bool]) -> Changes | None:
        """What ``rows`` delete, without a Python task; None where that is too much for the driver."""
        if sum(task.data_file.record_count for task in self.tasks) > MOST_ROWS:
            return None
        io = self.run.table.io
        deleted = matched_places(rows, task_places(self.tasks, io), io, self.run.files_id, is_repeatable)
        return None if deleted is None else Changes(deleted=deleted)

    def _check_formats(self, write: WriteContext, *, writes_rows: bool) -> None:
        if writes_rows or self.mode == "copy-on-write":
            write.check_format()
        if self.mode == "merge-on-read":
            check_row_deletes(write)

    def _operation(self, changes: Changes, write: WriteContext, staged: list[DataFile]) -> Operation:
        places = task_places(self.tasks, self.run.table.io)
        matched = [(self.plan.tasks[places[file]], positions) for file, positions in changes.deleted.items()]
        touched = with_other_entries(matched, self.plan.tasks, identity_under(self.run.table.io), BitMap64())
        if self.mode == "merge-on-read":
            return self._row_delta(changes, write, touched, staged)
        return self._overwrite(changes, write, touched, staged)

    def _row_delta(self, changes: Changes, write: WriteContext, touched: Matched, staged: list[DataFile]) -> RowDelta:
        with self.run.step("write deletes"):
            written = write_row_deletes(
                self.run.table.io,
                write,
                [(task, _array(positions)) for task, positions in touched],
                operation_id=self.run.files_id,
                granularity=self.options.delete_granularity,
            )
            staged.extend(written.added)
        self.run.metrics["added-delete-files"] = len(written.added)
        return RowDelta(
            added_data=tuple(changes.files),
            added_deletes=tuple(written.added),
            removed_deletes=tuple(written.replaced),
            referenced_data_files=tuple(task.file_path for task, _ in touched),
            conflict_filter=self.filter,
            isolation=self.isolation,
            reads_table=self.tables.reads_target,
            branch=self.run.job.branch,
            run_key=self.run.job.run_key,
            summary=self.run.summary,
            starting_snapshot_id=self._start,
            merges_vectors=True,
        )

    def _overwrite(self, changes: Changes, write: WriteContext, touched: Matched, staged: list[DataFile]) -> OverwriteFiles:
        write = replace(write, row_lineage=write.format_version >= 3)
        read = copy_context(self.run.table.metadata)
        whole = [(replace(task, residual=ALWAYS_TRUE), positions) for task, positions in touched]
        with self.run.step("rewrite files"):
            io_properties = self.run.table.io.properties
            rewritten = rewrite_without(self.run.session, whole, read, write, io_properties, self.run.files_id, staged)
            staged.extend(rewritten)
        self.run.metrics.update({"rewritten-data-files-count": len(touched), "added-data-files": len(staged)})
        return OverwriteFiles(
            added=tuple(staged),
            removed=tuple(task.data_file for task, _ in touched),
            conflict_filter=self.filter,
            isolation=self.isolation,
            reads_table=self.tables.reads_target,
            branch=self.run.job.branch,
            run_key=self.run.job.run_key,
            summary=self.run.summary,
            starting_snapshot_id=self._start,
        )


def _array(positions: BitMap64) -> npt.NDArray[np.int64]:
    return np.asarray(positions.to_array(), dtype=np.int64)
