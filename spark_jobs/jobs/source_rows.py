"""The source rows of append, overwrite, merge and upsert: files, a Spark SQL query over named views, another table.

Text formats are read with the table's own types (``text_source``): a value that does not parse is marked in
``CORRUPT_RECORD_COLUMN`` for the job to refuse or divert (``bad_records``). An error of reading a source becomes
one line that names the path, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from iceberg_ops.actions.local.source_files import source_scan, source_table
from iceberg_ops.config.job_spec import TEXT_FORMATS, Source, require_paths
from iceberg_ops.errors import DataError, OptionError
from spark_jobs.jobs.source_columns import check_columns_of_files, schema_to_read, with_folder_decimals
from spark_jobs.jobs.source_files import past_cache, refuse_listed_twice
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.source_state import check_as_listed, check_listed_alike
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import TARGET, SqlTables, refuse_hidden_view
from spark_jobs.jobs.table_rows import table_rows
from spark_jobs.jobs.text_source import text_rows
from spark_jobs.runners.changes import retryable_if_changed
from spark_jobs.runners.column_names import refuse_own_names


def source_rows(run: SparkRun, tables: SqlTables | None = None, *, strict: bool = False) -> DataFrame:
    """The rows to write. A SQL source may name ``tables``; with ``strict``, a bad record of text fails the read.

    Raises OptionError if the spec names no source or a wrong one, DataError if its data cannot be read, UnsupportedError for
    a column with a name that jobs use; for a repeated column OptionError for a query, DataError for files.
    """
    rows = _rows(run, tables, strict=strict)
    refuse_own_names(rows.columns)
    _refuse_column_twice(rows.columns, run.job.source)
    return rows


def _refuse_column_twice(names: Sequence[str], source: Source | None) -> None:
    """A repeated column name is ambiguous. Names that differ only in case are one name in Spark SQL."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.get(name.lower())
        if first is not None:
            same = f"{name!r} twice" if first == name else f"{first!r} and {name!r}, which are one name in Spark SQL"
            if source is not None and source.format == "sql":
                raise OptionError(f"source query gives column {same}: leave one of them out, or name it otherwise (AS)")
            raise DataError(f"source {', '.join(source.paths if source else ())} has column {same}: rename one of them")
        seen[name.lower()] = name


def _refuse_view_twice(names: Iterable[str]) -> None:
    """Views whose names differ only in case are one in Spark SQL: the second would replace the first."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            raise OptionError(f"source views {first!r} and {name!r} are one name in Spark SQL: rename one of them")


def _rows(run: SparkRun, tables: SqlTables | None, *, strict: bool) -> DataFrame:
    session, source = run.session, run.job.source
    if source is None:
        raise OptionError("the job spec names no source: append, overwrite, merge and upsert need one")
    if source.format == "sql":
        return _query(run, source, tables or SqlTables(run))
    if source.format == "table":
        return _table(run, source)
    paths = require_paths(source)
    try:
        if source.format in TEXT_FORMATS:
            return text_rows(session, source, run.table.schema, strict=strict)
        options = {**source.options, **past_cache()}
        rows = session.read.format(source.format).options(**options).load(paths)
        if (typed := schema_to_read(rows, run.table.schema)) is not None:
            first, rows = rows, session.read.format(source.format).schema(typed).options(**options).load(paths)
            check_listed_alike(first, rows)
        refuse_listed_twice(rows)
        return with_folder_decimals(rows, run.table.schema)
    except AnalysisException as e:
        raise DataError(f"source {', '.join(paths)}: {first_line(e)}") from e


def _table(run: SparkRun, source: Source) -> DataFrame:
    rows = table_rows(run.session, source_table(run.run, source), source_scan(source))
    run.pinned_rows.append(rows)
    return rows


def _query(run: SparkRun, source: Source, tables: SqlTables) -> DataFrame:
    if not source.query:
        raise OptionError("source of format sql has no query")
    _refuse_view_twice(source.views)
    for name, path in source.views.items():
        if name.lower() == TARGET:
            raise OptionError(f"source view {name!r} has the name of the table that is changed: give it another one")
        refuse_hidden_view(run.session, name)
        check_paths(run.session, [path], run.table, require_success_file=False)
        try:
            reader = run.session.read.options(**past_cache())
            rows = reader.parquet(path)
            if (typed := schema_to_read(rows, run.table.schema)) is not None:
                first, rows = rows, reader.schema(typed).parquet(path)
                check_listed_alike(first, rows)
            with retryable_if_changed(partial(check_as_listed, rows)):
                check_columns_of_files(rows)
            refuse_listed_twice(rows)
            with_folder_decimals(rows, run.table.schema).createOrReplaceTempView(name)
        except AnalysisException as e:
            raise DataError(f"view {name} at {path}: {first_line(e)}") from e
    try:
        rows = run.session.sql(tables.in_query(source.query))
    except ParseException as e:
        raise OptionError(f"source query does not parse: {first_line(e)}") from e
    except AnalysisException as e:
        raise OptionError(f"source query: {first_line(e)}") from e
    refuse_listed_twice(rows)
    return rows
