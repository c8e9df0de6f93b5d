"""Upsert (CDC): rows replace those of the same key, or only delete them, without reading the table.

Per key of the source it writes one equality delete and, unless the key is only deleted, one new row, in one row delta. The deletes
apply only to older data, so the new rows stay. Another commit is either older or newer as a whole, so it is not a conflict: the
last commit of a key wins, as with Iceberg's Flink writer. Rows in a partition spec that the deletes do not reach are a conflict,
and then the upsert is re-evaluated. Readers have to apply such deletes until ``convert_equality_deletes`` or a rewrite.

``upsert_plan`` decides the key columns, and the partition specs in which the deletes are written.
"""

from __future__ import annotations

from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.row_commits import commit_rows, nothing_to_do, row_fields
from iceberg_ops.actions.rows.row_engine import RowEvaluator
from iceberg_ops.actions.rows.upsert_plan import check_order, key_columns, key_plan
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Result
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.writing.delete_files import delete_format
from iceberg_ops.errors import OptionError
from iceberg_ops.spec import summary_keys


def upsert(run: Run, rows: RowEvaluator) -> Result:
    """Upsert the source.

    Raises, before the source is read, UnsupportedError for a file format that cannot be written, OptionError for a key that cannot
    be stored and for an ``order-by`` column of unknown type; and the errors of ``write_upserts`` and the committer.
    """
    options = WriteOptions.parse("upsert", run.job.options, run.table.properties)
    context = write_context(run.table, options)
    context.check_format()
    delete_format(context)
    return run_statement(run, lambda now: _evaluate(now, rows, options))


def _evaluate(run: Run, rows: RowEvaluator, options: WriteOptions) -> Result:
    base = base_snapshot(run.table.metadata, run.job.branch)
    keys = key_columns(run.table.schema, options.upsert_keys)
    left_out = {name.lower() for name in options.source_only_columns}
    if key := next((f.name for f in keys if f.name.lower() in left_out), None):
        raise OptionError(f"source-only-columns: {key!r} is a key of the upsert, and a key is stored")
    check_order(run.job.source, options.order_by, run.table.schema)
    written = rows.write_upserts(run, options, keys, key_plan(run.table, base, keys))
    counts = {
        summary_keys.ADDED_RECORDS: sum(f.record_count for f in written.files),
        summary_keys.ADDED_DATA_FILES: len(written.files),
        "upserted-keys": written.keys,
        summary_keys.ADDED_DELETE_FILES: len(written.deletes),
    }
    if not written.files and not written.deletes:
        return nothing_to_do(run, counts)
    operation = RowDelta(
        added_data=tuple(written.files),
        added_deletes=tuple(written.deletes),
        # The last commit of a key wins, whatever came before; except if the rows were made from the table's own rows.
        isolation=options.isolation if written.reads_table else None,
        reads_table=written.reads_table,
        upserts=True,
        starting_snapshot_id=None if base is None else base.snapshot_id,
        **row_fields(run),
    )
    return commit_rows(run, operation, (*written.files, *written.deletes), counts)
