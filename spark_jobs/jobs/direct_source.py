"""Decides whether a source's rows need no work of Spark, and returns the files that Arrow can read.

Spark has already planned the source, so all its rules about paths, names and types have been applied, and it has refused invalid
input. The rest must be no conversion, or an exact widening, as far as Spark's schema and every file's footer show: the files'
columns are the source's, with the same names, and none has its value from a folder's name; each type is the
table's, or fits into it completely; a required column holds no nulls; no shuffle or sort is needed; no calendar conversion is
needed. In any doubt Spark reads the rows, and reports what is wrong with them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.sources.source_fit import parts_that_fit
from iceberg_ops.data.sources.source_folder import PATTERN
from iceberg_ops.data.sources.source_parts import SourcePart
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import NestedField
from spark_jobs.jobs.source_files import folder_columns
from spark_jobs.runners.native_scan import plain_path
from spark_jobs.runners.spark_schema import spark_schema

_SPARK_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
"""The settings that Arrow's reading corresponds to. Every job's session has these, as Spark's defaults; otherwise Spark reads."""
_FOOTER_THREADS = 8


def direct_parts(session: SparkSession, source: Source | None, rows: DataFrame, schema: Schema) -> list[SourcePart] | None:
    """The parts of a source whose rows, read by Arrow, equal ``rows`` assigned to ``schema``; None: Spark must read it.

    ``rows`` are the source's as Spark reads them, already checked for assignment. Opens every footer.
    """
    if source is None or not _is_plain(session, source) or folder_columns(rows):
        return None
    fields = _matched(rows, schema)
    paths = [plain_path(location.removeprefix("file://")) for location in sorted(rows.inputFiles())] if fields else []
    if not fields or not paths or None in paths:
        return None
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        parts_of_paths = list(pool.map(lambda path: _parts_if_fit(path, fields), [p for p in paths if p is not None]))
    return [part for parts in parts_of_paths if parts is not None for part in parts] if None not in parts_of_paths else None


def _is_plain(session: SparkSession, source: Source) -> bool:
    if source.format != "parquet" or source.options or any(not PATTERN.isdisjoint(path) for path in source.paths):
        return False
    return all(str(session.conf.get(key)).lower() == value.lower() for key, value in _SPARK_SETTINGS.items())


def _matched(rows: DataFrame, schema: Schema) -> dict[str, NestedField]:
    """The table's fields by the source's column names; empty if one of the source's types is not certainly the table's."""
    known = {f.name.lower(): f for f in schema.fields}
    target_types = {f.name.lower(): f.dataType for f in spark_schema(schema).fields}
    columns = {}
    for given in rows.schema.fields:
        lower = given.name.lower()
        if lower not in known or not _widens(given.dataType, target_types[lower]):
            return {}
        columns[given.name] = known[lower]
    return columns


def _widens(given: spark.DataType, target: spark.DataType) -> bool:
    """Whether every value of ``given`` is the same value in ``wanted``. (Nested types must be equal.)"""
    if given == target:
        return True
    if isinstance(given, spark.DecimalType) and isinstance(target, spark.DecimalType):
        return given.scale == target.scale and given.precision <= target.precision
    whole: list[spark.DataType] = [spark.ByteType(), spark.ShortType(), spark.IntegerType(), spark.LongType()]
    if given in whole and target in whole:
        return whole.index(given) < whole.index(target)
    return given == spark.FloatType() and target == spark.DoubleType()


def _parts_if_fit(path: str, fields: dict[str, NestedField]) -> list[SourcePart] | None:
    try:
        return parts_that_fit(path, fields)
    except (DataError, UnsupportedError):
        return None
