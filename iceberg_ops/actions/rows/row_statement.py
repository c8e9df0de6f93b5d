"""A delete, update or merge on any engine: which files may match, what the engine finds in them, and the single commit.

``changed_rows`` implements merge-on-read and copy-on-write; the engine decides which rows change (``row_engine``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from iceberg_ops.actions.rows.changed_rows import ChangedRows, row_count
from iceberg_ops.actions.rows.merge_checks import repeated_matches
from iceberg_ops.actions.rows.row_commits import commit_rows, nothing_to_do, row_fields
from iceberg_ops.actions.rows.row_engine import RowChanges, RowEvaluator, Statement
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed, NothingToDo
from iceberg_ops.actions.run.staged_files import delete_staged
from iceberg_ops.config.properties import Property, WriteMode
from iceberg_ops.config.row_options import Isolation, WriteOptions
from iceberg_ops.errors import DataError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import FileContent


@dataclass(frozen=True, slots=True)
class StatementKind:
    """The table properties with the defaults of mode and isolation, and whether the statement writes new rows."""

    mode: Property[str]
    isolation: Property[str]
    writes_rows: bool = True
    once_each: bool = False
    """A target row with several matches is an error."""


def planned(run: Run, rows: RowEvaluator, kind: StatementKind) -> Statement:
    """The statement on the run's table. Raises WhereError, OptionError, UnsupportedError."""
    options = WriteOptions.parse(run.job.job, run.job.options, run.table.properties)
    where = ALWAYS_TRUE if run.job.where is None else rows.condition(run, run.job.where, subqueries=True)
    properties, change = run.table.properties, run.job.change
    with run.step("plan"):
        scan_plan = plan(run.table, Scan.of_branch(run.job.branch, where))
    return Statement(
        run=run,
        options=options,
        filter=where,
        scan_plan=scan_plan,
        mode=cast("WriteMode", (change.mode if change else None) or kind.mode.of(properties)),
        isolation=options.isolation or cast("Isolation", kind.isolation.of(properties)),
    )


def change_rows(
    statement: Statement, rows: RowEvaluator, kind: StatementKind, evaluate: Callable[[Statement], RowChanges]
) -> NothingToDo | Committed:
    """Evaluate and commit; nothing is committed if no row changes.

    Raises UnsupportedError, before a row is read, for a file format that cannot be written, DataError for a target row with two
    matches, and the errors of the engine and the committer."""
    run = statement.run
    changed = _changed(statement, rows)
    changed.check_formats(writes_rows=kind.writes_rows)
    changes = evaluate(statement)
    staged = list(changes.files)
    try:
        if kind.once_each and changes.repeated:
            raise DataError(repeated_matches(changes.repeated))
        counts = {summary_keys.DELETED_RECORDS: row_count(changes.matched)}
        if kind.writes_rows:
            counts[summary_keys.ADDED_RECORDS] = sum(f.record_count for f in staged)
        if not changes.matched and not staged:
            return nothing_to_do(run, counts)
        with run.step("write deletes" if statement.mode == "merge-on-read" else "rewrite files"):
            operation = changed.operation(changes.matched, staged, reads_table=changes.reads_table)
    except BaseException as e:
        delete_staged(run, [f.file_path for f in staged], after=e)
        raise
    if statement.mode == "merge-on-read":
        counts[summary_keys.ADDED_DELETE_FILES] = sum(f.content is not FileContent.DATA for f in staged)
    else:
        counts |= {"rewritten-data-files-count": len(changed.touched(changes.matched)), summary_keys.ADDED_DATA_FILES: len(staged)}
    return commit_rows(run, operation, staged, counts)


def _changed(statement: Statement, rows: RowEvaluator) -> ChangedRows:
    return ChangedRows(
        table=statement.run.table,
        scan_plan=statement.scan_plan,
        context=statement.context,
        mode=statement.mode,
        isolation=statement.isolation,
        conflict_filter=statement.filter,
        operation_id=statement.run.operation_id,
        granularity=statement.options.delete_granularity,
        fields=row_fields(statement.run),
        copy=partial(rows.copy, statement),
    )
