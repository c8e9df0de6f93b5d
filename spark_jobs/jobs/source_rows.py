"""Where the rows of append, overwrite, merge and upsert come from: files, a Spark SQL query over named views, another table.

Text formats are read with the table's own types where ``schema`` is given: what does not parse as these is marked in
``CORRUPT_RECORD_COLUMN`` for the job to refuse or divert (``bad_records``). A source that can not be read is the writer's mistake
or the world's: it becomes one line that names the path, before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, OptionError, SchemaError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.source_columns import check_columns_of_files, types_of_text_folders
from spark_jobs.jobs.source_paths import check_paths
from spark_jobs.jobs.spark_errors import first_line
from spark_jobs.jobs.sql_tables import TARGET, SqlTables
from spark_jobs.jobs.table_rows import table_rows
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.spark_schema import spark_schema

CORRUPT_RECORD_COLUMN = f"{OWN}corrupt_record"
TEXT_FORMATS = ("csv", "json")
_NO_COLUMN = f"{OWN}no_column"


def source_rows(run: JobRun, tables: SqlTables | None = None, *, schema: Schema | None = None) -> DataFrame:
    """The rows to write. A SQL source may name ``tables``; ``schema`` (the table's) types text.

    Raises OptionError where the spec names no source or a wrong one, DataError where its data can not be read.
    """
    session, source = run.session, run.job.source
    if source is None:
        raise OptionError("the job spec names no source: append, overwrite, merge and upsert need one")
    if source.format == "sql":
        return _query(run, source, tables or SqlTables(run))
    if source.format == "table":
        return _table(session, source)
    if not source.paths:
        raise OptionError(f"source of format {source.format} names no paths")
    try:
        if schema is not None and source.format in TEXT_FORMATS and not _is_untyped(source.options):
            return _typed_text(session, source, schema)
        told = {"mode": "FAILFAST", "columnNameOfCorruptRecord": CORRUPT_RECORD_COLUMN}
        options = {**told, **source.options} if source.format in TEXT_FORMATS else source.options
        rows = session.read.format(source.format).options(**options).load(source.paths)
        if source.format not in TEXT_FORMATS and (typed := types_of_text_folders(rows, run.table.schema)) is not None:
            rows = session.read.format(source.format).schema(typed).options(**options).load(source.paths)
        return rows
    except AnalysisException as e:
        raise DataError(f"source {', '.join(source.paths)}: {first_line(e)}") from e


def _is_untyped(options: Mapping[str, str]) -> bool:
    """The reader was told how to treat types or bad rows; it is left to that."""
    return any(key.lower() in ("mode", "primitivesasstring") for key in options)


def _typed_text(session: SparkSession, source: Source, schema: Schema) -> DataFrame:
    """CSV columns are the header's, without one the table's in order; JSON columns are those found in the records."""
    # A name that the caller chose for what does not parse would hide it from the job.
    given = {k: v for k, v in source.options.items() if k.lower() != "columnnameofcorruptrecord"}
    given["columnNameOfCorruptRecord"] = CORRUPT_RECORD_COLUMN
    found = [f for f in _seen(session, source, given, schema).fields if f.name != CORRUPT_RECORD_COLUMN]
    header = {k.lower(): v for k, v in source.options.items()}.get("header", "false").lower() == "true"
    if source.format == "csv" and not header:
        if len(found) != len(schema.fields):
            raise SchemaError(
                f"source {', '.join(source.paths)} has {len(found)} columns, the table {len(schema.fields)}: "
                "CSV without header=true is taken by position"
            )
        found = [spark.StructField(f.name, spark.StringType()) for f in schema.fields]
    wanted = {f.name.lower(): f.dataType for f in spark_schema(schema).fields}
    types = [spark.StructField(f.name, _readable(source.format, wanted.get(f.name.lower(), f.dataType), f), True) for f in found]
    # Spark refuses to read what is wrong with a record and nothing else of it.
    is_unread = not types
    types = types or [spark.StructField(_NO_COLUMN, spark.StringType(), True)]
    shape = spark.StructType([*types, spark.StructField(CORRUPT_RECORD_COLUMN, spark.StringType(), True)])
    options = {"mode": "PERMISSIVE", **given}
    if header:
        # Files of one source may order their columns differently; a name at another place must not be read as the first file's.
        options.setdefault("enforceSchema", "false")
    rows = session.read.format(source.format).schema(shape).options(**options).load(source.paths)
    return rows.select(F.coalesce(CORRUPT_RECORD_COLUMN, _NO_COLUMN).alias(CORRUPT_RECORD_COLUMN)) if is_unread else rows


def _seen(session: SparkSession, source: Source, options: Mapping[str, str], schema: Schema) -> spark.StructType:
    """What Spark finds in the source by itself: JSON is read once for it, of CSV the first line; ``inferSchema`` reads CSV as a
    whole only where there is a column that the table does not type."""

    def found(options: Mapping[str, str]) -> spark.StructType:
        return session.read.format(source.format).options(**options).load(source.paths).schema

    without = {key: value for key, value in options.items() if key.lower() != "inferschema"}
    if source.format != "csv" or len(without) == len(options):
        return found(options)
    named, known = found(without), {f.name.lower() for f in schema.fields}
    by_position = {k.lower(): v for k, v in options.items()}.get("header", "false").lower() != "true"
    return named if by_position or all(name.lower() in known for name in named.names) else found(options)


def _readable(form: str, wanted: spark.DataType, seen: spark.StructField) -> spark.DataType:
    nested = isinstance(wanted, spark.StructType | spark.ArrayType | spark.MapType)
    return seen.dataType if form == "csv" and nested else wanted


def _table(session: SparkSession, source: Source) -> DataFrame:
    if source.table is None or source.catalog is None:
        raise OptionError("source of format table names no table, or no catalog to find it in")
    table = load_catalog(source.catalog).load_table(tuple(source.table.split(".")[1:]))
    return table_rows(session, table, Scan(ref=source.ref, snapshot_id=source.snapshot_id))


def _query(run: JobRun, source: Source, tables: SqlTables) -> DataFrame:
    if not source.query:
        raise OptionError("source of format sql has no query")
    for name, path in source.views.items():
        if name.lower() == TARGET:
            raise OptionError(f"source view {name!r} has the name of the table that is changed: give it another one")
        check_paths(run.session, [path], run.table.location, require_success_file=False)
        try:
            rows = run.session.read.parquet(path)
            check_columns_of_files(rows)
            rows.createOrReplaceTempView(name)
        except AnalysisException as e:
            raise DataError(f"view {name} at {path}: {first_line(e)}") from e
    try:
        return run.session.sql(tables.in_query(source.query))
    except ParseException as e:
        raise OptionError(f"source query does not parse: {first_line(e)}") from e
    except AnalysisException as e:
        raise OptionError(f"source query: {first_line(e)}") from e
