"""INSERT INTO: the append job."""

from __future__ import annotations

from iceberg_ops.actions.rows.evaluations import base_held
from iceberg_ops.actions.rows.row_commits import row_fields
from iceberg_ops.actions.rows.row_engine import RowEvaluator
from iceberg_ops.actions.rows.source_commits import commit_source, remember
from iceberg_ops.actions.rows.write_options import options_of, write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Result
from iceberg_ops.commit.operations.append_files import AppendFiles


def append(run: Run, rows: RowEvaluator) -> Result:
    """Append the source's rows; a source without rows commits nothing. Raises the errors of ``write_source`` and the committer."""
    options = options_of(run.job, run.table)
    write_context(run.table, options).check_format()
    with base_held(run):
        written = rows.write_source(run, options)
        if written.files:
            return commit_source(run, AppendFiles(added=tuple(written.files), **row_fields(run)), written)
        return remember(run, written)
