"""Where the rows of append, overwrite, merge and upsert come from: files, a Spark SQL query over named views, another table.

Text formats are read with the table's own types (``csv_source``, ``json_source``): what does not parse as these is marked in
``CORRUPT_RECORD_COLUMN`` for the job to refuse or divert (``bad_records``), unless reader option ``mode`` says what becomes of it.
An error of reading a source becomes one line that names the path, before anything is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import Source, paths_of
from iceberg_ops.errors import DataError, OptionError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.own_folders import folders_of
from spark_jobs.jobs.csv_source import csv_rows
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.json_source import json_rows
from spark_jobs.jobs.source_columns import check_columns_of_files, schema_to_read, with_folder_decimals
from spark_jobs.jobs.source_files import past_cache
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.source_state import check_listed_alike
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.sql_tables import TARGET, SqlTables, refuse_hidden_view
from spark_jobs.jobs.table_rows import table_rows
from spark_jobs.jobs.text_encoding import refuse_altered_text
from spark_jobs.runners.column_names import CORRUPT_RECORD_COLUMN, refuse_own_names

TEXT_FORMATS = ("csv", "json")
_MODES = ("failfast", "dropmalformed", "permissive")
_OF_LISTING = frozenset({"basepath", "recursivefilelookup"})
"""Options by which more files, or files in other folders, are a source's."""


def source_rows(run: JobRun, tables: SqlTables | None = None) -> DataFrame:
    """The rows to write. A SQL source may name ``tables`` (of a merge); the table's schema types text.

    Raises OptionError where the spec names no source or a wrong one, DataError where its data can not be read, UnsupportedError for
    a column of a name that jobs use; OptionError for a query, and DataError for files, with a column twice.
    """
    rows = _rows(run, tables)
    refuse_own_names(rows.columns)
    _refuse_column_twice(rows.columns, run.job.source)
    return rows


def _refuse_column_twice(names: Sequence[str], source: Source | None) -> None:
    """Nobody can tell which of two columns of one name is meant. Names that differ only in case are one name in Spark SQL."""
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
    """Views whose names differ only in case are one in Spark SQL: the second would take the place of the first."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.lower(), name)
        if first != name:
            raise OptionError(f"source views {first!r} and {name!r} are one name in Spark SQL: rename one of them")


def _rows(run: JobRun, tables: SqlTables | None) -> DataFrame:
    session, source = run.session, run.job.source
    if source is None:
        raise OptionError("the job spec names no source: append, overwrite, merge and upsert need one")
    if source.format == "sql":
        return _query(run, source, tables or SqlTables(run))
    if source.format == "table":
        return _table(run, source)
    paths = paths_of(source)
    try:
        if source.format in TEXT_FORMATS and (tables is not None or _says_what_is_bad(source.options)):
            refuse_altered_text(session, source)
        if source.format in TEXT_FORMATS and not _is_untyped(source.options):
            return _typed_text(session, source, run.table.schema)
        told = {"mode": "FAILFAST", "columnNameOfCorruptRecord": CORRUPT_RECORD_COLUMN}
        options = {**(told if source.format in TEXT_FORMATS else {}), **source.options, **past_cache()}
        rows = session.read.format(source.format).options(**options).load(paths)
        if (typed := schema_to_read(rows, run.table.schema)) is not None:
            first, rows = rows, session.read.format(source.format).schema(typed).options(**options).load(paths)
            check_listed_alike(first, rows)
        return with_folder_decimals(rows, run.table.schema)
    except AnalysisException as e:
        raise DataError(f"source {', '.join(paths)}: {first_line(e)}") from e


def _typed_text(session: SparkSession, source: Source, schema: Schema) -> DataFrame:
    mode = {key.lower(): value.lower() for key, value in source.options.items()}.get("mode")
    if mode is not None and mode not in _MODES:
        raise OptionError(f"source option mode = {mode!r}: must be one of {', '.join(_MODES)}")
    first = _listed(session, source)
    rows = (csv_rows if source.format == "csv" else json_rows)(session, source, schema)
    check_listed_alike(first, rows)  # some of what was found out of the text is of files as they were before
    if mode == "dropmalformed":
        rows = rows.where(F.col(CORRUPT_RECORD_COLUMN).isNull())
    return rows if mode in (None, "failfast") else rows.drop(CORRUPT_RECORD_COLUMN)


def _is_untyped(options: Mapping[str, str]) -> bool:
    """The reader was told how to treat types; it is left to that."""
    return any(key.lower() == "primitivesasstring" for key in options)


def _says_what_is_bad(options: Mapping[str, str]) -> bool:
    return any(key.lower() == "mode" for key in options) or _is_untyped(options)


def _listed(session: SparkSession, source: Source) -> DataFrame:
    """The files of a text source; no byte of them is read."""
    options = {name: value for name, value in source.options.items() if name.lower() in _OF_LISTING}
    return session.read.format("text").options(**options).load(source.paths)


def _table(run: JobRun, source: Source) -> DataFrame:
    if source.table is None or source.catalog is None:
        raise OptionError("source of format table names no table, or no catalog to find it in")
    catalog, name = load_catalog(source.catalog), tuple(source.table.split(".")[1:])
    table = run.outcome.reads.load(lambda: catalog.load_table(name))
    return table_rows(run.session, table, Scan(ref=source.ref, snapshot_id=source.snapshot_id))


def _query(run: JobRun, source: Source, tables: SqlTables) -> DataFrame:
    if not source.query:
        raise OptionError("source of format sql has no query")
    _refuse_view_twice(source.views)
    for name, path in source.views.items():
        if name.lower() == TARGET:
            raise OptionError(f"source view {name!r} has the name of the table that is changed: give it another one")
        refuse_hidden_view(run.session, name)
        check_paths(run.session, [path], folders_of(run.table), require_success_file=False)
        try:
            reader = run.session.read.options(**past_cache())
            rows = reader.parquet(path)
            if (typed := schema_to_read(rows, run.table.schema)) is not None:
                first, rows = rows, reader.schema(typed).parquet(path)
                check_listed_alike(first, rows)
            check_columns_of_files(rows)
            with_folder_decimals(rows, run.table.schema).createOrReplaceTempView(name)
        except AnalysisException as e:
            raise DataError(f"view {name} at {path}: {first_line(e)}") from e
    try:
        return run.session.sql(tables.in_query(source.query))
    except ParseException as e:
        raise OptionError(f"source query does not parse: {first_line(e)}") from e
    except AnalysisException as e:
        raise OptionError(f"source query: {first_line(e)}") from e
