"""Where the rows of append, overwrite and merge come from: files, or a Spark SQL query over named views.

A source that can not be read is the writer's mistake or the world's: it becomes one line that names the path, before anything is
written.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, OptionError

CORRUPT_RECORD_COLUMN = "_corrupt_record"


def source_rows(session: SparkSession, source: Source | None, target: DataFrame | None = None) -> DataFrame:
    """The rows to write. ``target`` is offered to a SQL source as the view ``target``.

    Raises OptionError where the spec names no source or a wrong one, DataError where its data can not be read.
    """
    if source is None:
        raise OptionError("the job spec names no source: append, overwrite and merge need one")
    if source.format == "sql":
        return _query(session, source, target)
    if not source.paths:
        raise OptionError(f"source of format {source.format} names no paths")
    options = {"mode": "FAILFAST", **source.options} if source.format in ("csv", "json") else source.options
    try:
        return session.read.format(source.format).options(**options).load(source.paths)
    except AnalysisException as e:
        raise DataError(f"source {', '.join(source.paths)}: {first_line(e)}") from e


def _query(session: SparkSession, source: Source, target: DataFrame | None) -> DataFrame:
    if not source.query:
        raise OptionError("source of format sql has no query")
    for name, path in source.views.items():
        try:
            session.read.parquet(path).createOrReplaceTempView(name)
        except AnalysisException as e:
            raise DataError(f"view {name} at {path}: {first_line(e)}") from e
    if target is not None:
        target.createOrReplaceTempView("target")
    try:
        return session.sql(source.query)
    except ParseException as e:
        raise OptionError(f"source query does not parse: {first_line(e)}") from e
    except AnalysisException as e:
        raise OptionError(f"source query: {first_line(e)}") from e


def first_line(error: BaseException) -> str:
    """What a Spark error says, on one line, without its plan dump."""
    text = str(error).strip() or type(error).__name__
    return " ".join(text.split("\n\n")[0].split("JVM stacktrace")[0].split())[:500]
