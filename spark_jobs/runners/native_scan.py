"""Reads live rows with Spark's own Parquet reader, for files that it reads exactly as the table format requires.

Spark's vectorised reader keeps rows inside the JVM, prunes columns and shares generated code with the condition, which is about
twice as fast as passing Arrow batches to it. It does not support deletes, defaults, name mappings, promotion or partition values,
so a file is read this way only if its footer shows that none of these matters (``native_footer``): it is Parquet without deletes,
every requested column has its field id and exactly the wanted type, or is missing and therefore NULL. ``reading`` reads every other
file, and every file in doubt.

Spark finds a file's columns by field id, but decodes each with the type of the requested column that has its *name* (ignoring
case), whatever that column's id is. So columns are requested with names that no file column has (``requested_name``), and then each
is decoded with its type in the file.

Filters are not pushed into the Parquet reader (see ``spark_jobs.session``): statistics written by Arrow exclude NaN, which is
the greatest value in Spark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.data.columns.metadata_values import lineage_fields
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import StructType
from spark_jobs.runners.native_footer import footer_fits, is_exact, requested_name
from spark_jobs.runners.spark_schema import spark_schema

_SAFE_PATH = re.compile(r"(?!.*/\.{1,2}/)/(?:[A-Za-z0-9._=-]+/)*[A-Za-z0-9][A-Za-z0-9._=-]*")
"""Paths that Spark returns unchanged; it escapes other characters, removes ``/./`` and ``/../``, and hides files that
begin with ``_`` or a dot."""
_FOOTER_THREADS = 8
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def native_paths(tasks: Sequence[FileScanTask], context: ReadContext, io: FileIO) -> dict[int, str]:
    """Local paths of the tasks Spark's own reader may read, by their index in ``tasks``.

    Opens the footer of every task that is not excluded before. A file that is live several times is not read this way: its rows
    would show their file, but not their entry.
    """
    if not all(is_exact(f) for f in context.data_fields):
        return {}
    candidates = {i: path for i, task in enumerate(tasks) if (path := _plain_file(task, io)) is not None}
    times = Counter(candidates.values())
    candidates = {i: path for i, path in candidates.items() if times[path] == 1}
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        fits = pool.map(lambda i: footer_fits(candidates[i], tasks[i], context), candidates)
        return {i: path for (i, path), fit in zip(candidates.items(), fits, strict=True) if fit}


def native_rows(
    session: SparkSession, paths: Sequence[str], context: ReadContext, file: str, position: str, row_id: str
) -> DataFrame:
    """The rows of ``paths`` in the data columns of ``context``, preceded by ``file`` (the path, see ``spark_file_path``),
    ``position``, and ``row_id`` if the context requests row ids: NULL if the file does not store it."""
    lineage = lineage_fields(context.projected)
    fields = (*lineage, *context.data_fields)
    shape = spark_schema(Schema(StructType(fields)))
    by_id = spark.StructType(
        [
            spark.StructField(requested_name(f), column.dataType, True, {"parquet.field.id": f.field_id})
            for f, column in zip(fields, shape.fields, strict=True)
        ]
    )
    options = {"recursiveFileLookup": "true", "datetimeRebaseMode": "CORRECTED", "ignoreCorruptFiles": "false"}
    with _listed_here(session):
        rows = session.read.schema(by_id).options(**options, ignoreMissingFiles="false").parquet(*paths)
    return rows.select(
        rows.metadataColumn("_metadata").getField("file_path").alias(file),
        rows.metadataColumn("_metadata").getField("row_index").alias(position),
        *[F.col(requested_name(f)).alias(row_id) for f in lineage],
        *[F.col(requested_name(f)).alias(f.name) for f in context.data_fields],
    )


def spark_file_path(path: str) -> str:
    """Spark's value of ``_metadata.file_path`` for a local path from ``native_paths``."""
    return f"file:{path}"


def plain_path(path: str | None) -> str | None:
    """A local path, if it names the same file for Spark and Arrow."""
    return path if path is not None and _SAFE_PATH.fullmatch(path) else None


@contextmanager
def _listed_here(session: SparkSession) -> Iterator[None]:
    """Spark would list more than 32 paths in a job with one task for each; checking known files here is far cheaper."""
    before = session.conf.get(_LISTING)
    session.conf.set(_LISTING, str(2**31 - 1))
    try:
        yield
    finally:
        session.conf.set(_LISTING, before or "32")


def _plain_file(task: FileScanTask, io: FileIO) -> str | None:
    if task.deletes or not task.is_whole_file or task.data_file.file_format is not FileFormat.PARQUET:
        return None
    return plain_path(io.local_path(task.file_path))
