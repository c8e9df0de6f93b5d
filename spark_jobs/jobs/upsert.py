"""The rows and deletes of an upsert on Spark: for each key of the source one row is used."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from iceberg_ops.actions.rows.row_engine import WrittenUpserts
from iceberg_ops.actions.rows.upsert_plan import untyped_order
from iceberg_ops.actions.rows.write_options import write_context
from iceberg_ops.config.job_spec import TEXT_FORMATS
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.data.writing.upsert_keys import KeyPlan
from iceberg_ops.errors import OptionError, SchemaError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.assignment import assign_by_name
from spark_jobs.jobs.bad_records import bad_column
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.ingest import check_files, check_source
from spark_jobs.jobs.repeatable import is_known
from spark_jobs.jobs.source_files import folder_columns
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE, INSERT, write_changes
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, OWN, quoted

_DELETES, _ORDER, _OF_KEY, _RANK, _KEY, _NO_KEY = (
    f"{OWN}{name}" for name in ("deletes", "order", "of_key", "rank", "key", "no_key")
)

_NO_ORDER = "INVALID_ORDERING_TYPE"
"""Spark's error conditions for a column of maps, or of variants."""


def write_upserts(run: SparkRun, options: WriteOptions, keys: Sequence[NestedField], plan: KeyPlan) -> WrittenUpserts:
    """Write the used rows of the source, and the deletes of their keys. Raises DataError for two source rows of one key that
    ``order-by`` does not order, and the errors of reading the source."""
    with run.step("plan"):
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
            write_context(run.table, options),
            run.table.io.properties,
            run.run.operation_id,
            equality=plan,
            is_repeatable=lambda: state.is_repeatable() and is_known(source.filter(deletes)),
            check=state.check_unchanged,
        )
    return WrittenUpserts(
        files=changes.files,
        deletes=changes.equality_deletes,
        keys=sum(f.record_count for f in changes.equality_deletes) // max(1, len(plan.spec_ids)),
        reads_table=tables.reads_target,
    )


def _deletes(rows: DataFrame, text: str | None) -> Column:
    """Whether a row of the source only deletes its key. Raises WhereError like ``condition``; OptionError for text that does not
    parse, or that names an unknown column."""
    if text is None:
        return F.lit(False)
    try:
        return F.coalesce(condition(rows, text, "delete-when"), F.lit(False))
    except WhereError as e:
        if isinstance(e.__cause__, PySparkException):
            raise OptionError(f"upsert: {e}") from e
        raise


def _latest(run: SparkRun, rows: DataFrame, deletes: Column, options: WriteOptions, keys: Sequence[NestedField]) -> DataFrame:
    """One row per key of the source, in the table's columns, with its change; two rows without an order are marked bad.

    Keys are compared as the table stores them: two texts of one uuid, or numbers that become one decimal, are one key.
    """
    for name in options.source_only_columns:
        if name not in rows.columns:
            raise OptionError(f"source-only-columns: {name!r} is not a column of the source ({', '.join(rows.columns)})")
    if options.order_by and options.order_by.lower() not in {c.lower() for c in rows.columns if c != CORRUPT_RECORD_COLUMN}:
        raise OptionError(f"order-by: {options.order_by!r} is not a column of the source ({', '.join(rows.columns)})")
    _check_order(run, rows, options.order_by)
    order = F.col(quoted(options.order_by)) if options.order_by else F.lit(0)
    try:
        marked = rows.withColumns({_DELETES: deletes, _ORDER: order})
    except AnalysisException as e:
        raise OptionError(f"upsert: order-by = {options.order_by!r}: {first_line(e)}") from e
    names = [_source_name(marked, f.name) for f in keys]
    keyed = marked.withColumns(_stored_keys(marked, run.table.schema, options, keys))
    by_key = Window.partitionBy(*[f"{_KEY}{i}" for i in range(len(keys))], _NO_KEY)
    try:
        # rank: rows with the same greatest value are all first, and then more than one is left.
        first = keyed.withColumn(_RANK, F.rank().over(by_key.orderBy(F.col(_ORDER).desc_nulls_last()))).where(F.col(_RANK) == 1)
    except AnalysisException as e:
        if _NO_ORDER not in str(e):
            raise
        kind = marked.schema[_ORDER].dataType.simpleString()
        raise OptionError(f"upsert: order-by = {options.order_by!r}: rows cannot be ordered by a column of type {kind}") from e
    counted = first.withColumn(_OF_KEY, F.count(F.lit(1)).over(by_key))
    kept = [c for c in counted.columns if c != _NO_KEY and not c.startswith(_KEY)]
    return _checked(run, options, counted.select(*map(quoted, kept)), names)


def _check_order(run: SparkRun, rows: DataFrame, name: str | None) -> None:
    """Raise OptionError if rows of text are ordered by values of folder names that are text, too (see ``check_order``)."""
    source, column_names = run.job.source, {f.name.lower() for f in run.table.schema.fields}
    if source is None or name is None or source.format not in TEXT_FORMATS or name.lower() in column_names:
        return
    if name.lower() in folder_columns(rows):
        raise untyped_order(name, "its values are text in names of folders", "order by a column of the files")


def _stored_keys(rows: DataFrame, schema: Schema, options: WriteOptions, keys: Sequence[NestedField]) -> dict[str, Column]:
    """The key columns as they are stored, and ``_NO_KEY``: the problem of a key that cannot be stored. Such a row is not compared
    with other rows: it would be dropped for one of them, or replace it."""
    given = rows.drop(_DELETES, _ORDER, CORRUPT_RECORD_COLUMN, *options.source_only_columns)
    assigned = {column.field.field_id: column for column in assign_by_name(given, schema)}
    key_columns, wrong = {}, []
    for i, f in enumerate(keys):
        column = assigned[f.field_id]
        is_uuid = getattr(f.type, "name", "") == "uuid"
        key_columns[f"{_KEY}{i}"] = F.lower(F.replace(column.value, F.lit("-"))) if is_uuid else column.value
        wrong += [] if column.wrong is None else [column.wrong]
    shown = F.to_json(F.struct(*[F.col(quoted(c)) for c in given.columns]))
    unread = F.col(f"{CORRUPT_RECORD_COLUMN}.record") if CORRUPT_RECORD_COLUMN in rows.columns else F.lit(None).cast("string")
    key_columns[_NO_KEY] = F.coalesce(
        unread, F.when(F.coalesce(*wrong).isNotNull(), shown) if wrong else F.lit(None).cast("string")
    )
    return key_columns


def _checked(run: SparkRun, options: WriteOptions, rows: DataFrame, names: list[str]) -> DataFrame:
    ordered = f"with the same greatest {options.order_by!r}" if options.order_by else "(order-by says which one counts)"
    key = F.concat_ws(", ", *[F.coalesce(F.col(quoted(n)).cast("string"), F.lit("NULL")) for n in names])
    twice = F.when(F.col(_OF_KEY) > 1, F.concat(F.col(_OF_KEY), F.lit(" source rows of key ("), key, F.lit(f") {ordered}")))
    reserved = (_DELETES, _ORDER, _OF_KEY, _RANK, *options.source_only_columns)
    source = rows.drop(*reserved)
    assigned = assign_by_name(source.drop(CORRUPT_RECORD_COLUMN), run.table.schema)
    lower = {n.lower() for n in names}
    of_keys = [c.wrong for c in assigned if c.wrong is not None and c.field.name.lower() in lower]
    # A row that only deletes needs only its key.
    others = [F.when(~F.col(_DELETES), c.wrong) for c in assigned if c.wrong is not None and c.field.name.lower() not in lower]
    reasons = [*of_keys, twice, *others]
    bad = bad_column(rows, source.columns, reasons, "")
    change = F.when(F.col(_DELETES), F.lit(DELETE)).otherwise(F.lit(INSERT)).alias(CHANGE_COLUMN)
    return rows.select(*[c.value.alias(c.field.name) for c in assigned], *([] if bad is None else [bad]), change)


def _source_name(rows: DataFrame, name: str) -> str:
    matching = [c for c in rows.columns if c.lower() == name.lower()]
    if not matching:
        raise SchemaError(f"upsert key {name!r} is not a column of the source ({', '.join(rows.columns)})")
    return matching[0]
