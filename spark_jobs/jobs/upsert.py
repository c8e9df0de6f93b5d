"""Upsert (CDC): rows replace those of the same key, or only delete them, without reading the table.

Per source row one equality delete and (unless it only deletes) one new row, in one row delta. The deletes apply to older data only,
so the new rows stand. What others commit meanwhile is older or newer as a whole, so it is no conflict: the last commit of a key
wins, as with Iceberg's Flink writer. Rows in a partition spec that the deletes do not reach are one, and then the upsert is
evaluated again. Readers pay for such deletes until ``convert_equality_deletes`` or a rewrite.

Which columns are the key, and in which partition specs its deletes are written, is ``actions.upsert_plan``'s.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from iceberg_ops.actions.upsert_plan import key_columns, key_plan
from iceberg_ops.actions.write_options import write_context
from iceberg_ops.commit.history import base_of
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.delete_files import delete_format
from iceberg_ops.errors import OptionError, SchemaError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.assignment import assign_by_name
from spark_jobs.jobs.bad_records import bad_column
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.ingest import check_files, check_source
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.repeatable import is_known
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_commit import commit_staged
from spark_jobs.jobs.statement import run_statement
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE, INSERT, write_changes
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted

_DELETES, _ORDER, _OF_KEY, _RANK, _KEY, _NO_KEY = (
    f"{OWN}{name}" for name in ("deletes", "order", "of_key", "rank", "key", "no_key")
)


def run(run: JobRun) -> ActionReport:
    """Upsert the source.

    Raises DataError for two source rows of one key that ``order-by`` does not tell apart; UnsupportedError, before the source is
    read, for a format that is not written.
    """
    options = WriteOptions.parse("upsert", run.job.options, run.table.properties)
    context = write_context(run.table, options)
    context.check_format()
    delete_format(context)
    return run_statement(run, lambda now: _evaluate(now, options))


def _evaluate(run: JobRun, options: WriteOptions) -> ActionReport:
    """One evaluation on the table as the run has it. It is refused where rows came in a partition spec that its deletes do not
    reach."""
    context = write_context(run.table, options)
    keys = key_columns(run.table.schema, options.upsert_keys)
    base = base_of(run.table.metadata, run.job.branch)
    with run.step("plan"):
        plan = key_plan(run.table, base, keys)
        check_source(run, require_success_file=options.require_success_file)
        tables = SqlTables(run)
        source = source_rows(run, tables)
        state = SourceState(run, source)
        check_files(run, source, state)
        deletes = _deletes(source, options.delete_when)
        rows = _latest(run, source, deletes, options, keys)
    with run.step("write"):
        changes = write_changes(
            rows,
            context,
            run.table.io.properties,
            run.files_id,
            equality=plan,
            is_repeatable=lambda: state.is_repeatable() and is_known(source.filter(deletes)),
            check=state.check_unchanged,
        )
    run.metrics.update(
        {
            "added-records": changes.rows_written,
            "added-data-files": len(changes.files),
            "upserted-keys": sum(f.record_count for f in changes.equality_deletes) // max(1, len(plan.spec_ids)),
            "added-delete-files": len(changes.equality_deletes),
        }
    )
    if not changes.staged:
        return run.report("nothing-to-do")
    operation = RowDelta(
        added_data=tuple(changes.files),
        added_deletes=tuple(changes.equality_deletes),
        # The last commit of a key wins, whatever came before it; but not where the rows were made of the table's own.
        isolation=options.isolation if tables.reads_target else None,
        reads_table=tables.reads_target,
        upserts=True,
        branch=run.job.branch,
        run_key=run.job.run_key,
        summary=run.summary,
        starting_snapshot_id=None if base is None else base.snapshot_id,
    )
    return commit_staged(run, operation, (*changes.files, *changes.equality_deletes))


def _deletes(rows: DataFrame, text: str | None) -> Column:
    """Whether a row of the source only deletes its key. Raises WhereError like ``condition``; OptionError for one that does not
    parse, or names what is not there."""
    if text is None:
        return F.lit(False)
    try:
        return F.coalesce(condition(rows, text, "delete-when"), F.lit(False))
    except WhereError as e:
        if isinstance(e.__cause__, PySparkException):
            raise OptionError(f"upsert: {e}") from e
        raise


def _latest(run: JobRun, rows: DataFrame, deletes: Column, options: WriteOptions, keys: list[NestedField]) -> DataFrame:
    """One row per key of the source, in the table's columns, with its change; two that can not be told apart are marked bad.

    Keys are compared as the table stores them: two texts of one uuid, or numbers that become one decimal, are one key.
    """
    left_out = {name.lower() for name in options.source_only_columns}
    if key := next((f.name for f in keys if f.name.lower() in left_out), None):
        raise OptionError(f"source-only-columns: {key!r} is a key of the upsert, and a key is stored")
    for name in options.source_only_columns:
        if name not in rows.columns:
            raise OptionError(f"source-only-columns: {name!r} is not a column of the source ({', '.join(rows.columns)})")
    if options.order_by and options.order_by.lower() not in {c.lower() for c in rows.columns if c != CORRUPT_RECORD_COLUMN}:
        raise OptionError(f"order-by: {options.order_by!r} is not a column of the source ({', '.join(rows.columns)})")
    order = F.col(quoted(options.order_by)) if options.order_by else F.lit(0)
    try:
        marked = rows.withColumns({_DELETES: deletes, _ORDER: order})
    except AnalysisException as e:
        raise OptionError(f"upsert: order-by = {options.order_by!r}: {first_line(e)}") from e
    names = [_source_name(marked, f.name) for f in keys]
    keyed = marked.withColumns(_stored_keys(marked, run.table.schema, options, keys))
    by_key = Window.partitionBy(*[f"{_KEY}{i}" for i in range(len(keys))], _NO_KEY)
    # rank: rows with the same greatest value are all first, and then more than one is left.
    first = keyed.withColumn(_RANK, F.rank().over(by_key.orderBy(F.col(_ORDER).desc_nulls_last()))).where(F.col(_RANK) == 1)
    counted = first.withColumn(_OF_KEY, F.count(F.lit(1)).over(by_key))
    kept = [c for c in counted.columns if c != _NO_KEY and not c.startswith(_KEY)]
    return _checked(run, options, counted.select(*map(quoted, kept)), names)


def _stored_keys(rows: DataFrame, schema: Schema, options: WriteOptions, keys: list[NestedField]) -> dict[str, Column]:
    """The key columns as they are stored, and ``_NO_KEY``: what is wrong with a key that can not be stored. Such a row is no other
    row's rival: it would be dropped for it, or take its place."""
    given = rows.drop(_DELETES, _ORDER, CORRUPT_RECORD_COLUMN, *options.source_only_columns)
    assigned = {column.field.field_id: column for column in assign_by_name(given, schema)}
    found, wrong = {}, []
    for i, f in enumerate(keys):
        column = assigned[f.field_id]
        is_uuid = getattr(f.type, "name", "") == "uuid"
        found[f"{_KEY}{i}"] = F.lower(F.replace(column.value, F.lit("-"))) if is_uuid else column.value
        wrong += [] if column.wrong is None else [column.wrong]
    shown = F.to_json(F.struct(*[F.col(quoted(c)) for c in given.columns]))
    unread = F.col(f"{CORRUPT_RECORD_COLUMN}.record") if CORRUPT_RECORD_COLUMN in rows.columns else F.lit(None).cast("string")
    found[_NO_KEY] = F.coalesce(unread, F.when(F.coalesce(*wrong).isNotNull(), shown) if wrong else F.lit(None).cast("string"))
    return found


def _checked(run: JobRun, options: WriteOptions, rows: DataFrame, names: list[str]) -> DataFrame:
    ordered = f"with the same greatest {options.order_by!r}" if options.order_by else "(order-by says which one counts)"
    key = F.concat_ws(", ", *[F.coalesce(F.col(quoted(n)).cast("string"), F.lit("NULL")) for n in names])
    twice = F.when(F.col(_OF_KEY) > 1, F.concat(F.col(_OF_KEY), F.lit(" source rows of key ("), key, F.lit(f") {ordered}")))
    own = (_DELETES, _ORDER, _OF_KEY, _RANK, *options.source_only_columns)
    source = rows.drop(*own)
    assigned = assign_by_name(source.drop(CORRUPT_RECORD_COLUMN), run.table.schema)
    lower = {n.lower() for n in names}
    of_keys = [c.wrong for c in assigned if c.wrong is not None and c.field.name.lower() in lower]
    # A row that only deletes needs no more than its key.
    others = [F.when(~F.col(_DELETES), c.wrong) for c in assigned if c.wrong is not None and c.field.name.lower() not in lower]
    reasons = [*of_keys, twice, *others]
    bad = bad_column(rows, source.columns, reasons, "")
    change = F.when(F.col(_DELETES), F.lit(DELETE)).otherwise(F.lit(INSERT)).alias(CHANGE_COLUMN)
    return rows.select(*[c.value.alias(c.field.name) for c in assigned], *([] if bad is None else [bad]), change)


def _source_name(rows: DataFrame, name: str) -> str:
    found = [c for c in rows.columns if c.lower() == name.lower()]
    if not found:
        raise SchemaError(f"upsert key {name!r} is not a column of the source ({', '.join(rows.columns)})")
    return found[0]
