"""Evaluates a source that may give other rows in each evaluation only once: its rows are stored in files during the statement.

MERGE joins its source twice, and a row on which the two evaluations disagree would be inserted although it exists. The files are
written like all files of tasks: by Arrow, with names of the attempt, beside the table's data, under the job's lease. A
cache is not sufficient, because Spark computes it again if an executor is lost. The files are deleted when the statement ends;
those of a killed driver are left for remove_orphan_files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.config.properties import DATA_PATH
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.schema import Schema
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.runners.changes import CHANGE_COLUMN, INSERT, Changes, write_changes
from spark_jobs.runners.reading import live_rows
from spark_jobs.runners.spark_schema import iceberg_struct

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StableSource:
    """``rows`` are the same in every evaluation, provided that ``check`` raises nothing after they were read. ``size``: bytes of
    the files that contain them, None if they were not staged."""

    rows: DataFrame
    check: Callable[[], None]
    size: int | None = None


@contextmanager
def evaluated_once(run: SparkRun, rows: DataFrame, state: SourceState) -> Iterator[StableSource]:
    """``rows`` themselves if they are repeatable, else the stored result of one evaluation.

    Raises UnsupportedError for a column of a type that Iceberg does not have, and the errors of evaluating the source.
    """
    if state.is_repeatable():
        yield StableSource(rows, state.check_unchanged)
        return
    with run.step("stage source"):
        columns = _Columns(rows)
        changes = _written(run, columns, state)
        run.outcome.metrics["staged-source-records"] = changes.rows_written
    log.info("the source may give other rows each time, so its %d rows are staged in files", changes.rows_written)
    try:
        size = sum(f.file_size_in_bytes for f in changes.files)
        yield StableSource(columns.read_back(run, changes), lambda: None, size)
    finally:
        CreatedFiles(run.table.io, changes.staged).discard()


class _Columns:
    """A source's columns by number, because their names may be equal, in forms that Iceberg files can store."""

    def __init__(self, rows: DataFrame) -> None:
        self._given = rows.schema.fields
        self._names = [f"c{i}" for i in range(len(self._given))]
        numbered = rows.toDF(*self._names)
        held = [spark.StructField(n, f.dataType) for n, f in zip(self._names, self._given, strict=True) if not _is_void(f)]
        # A row counts even if none of its columns can be stored.
        self.rows = numbered.select(*[f.name for f in held], F.lit(True).alias("row"))
        self.schema = Schema(iceberg_struct(spark.StructType([*held, spark.StructField("row", spark.BooleanType())])))

    def read_back(self, run: SparkRun, changes: Changes) -> DataFrame:
        """The written rows, with the names and types of the source."""
        context = ReadContext(table_schema=self.schema, projected=self.schema, schemas=(self.schema,))
        context = context.select([*self.schema.fields, POS])
        tasks = [FileScanTask(file, 1) for file in changes.files]
        rows = live_rows(run.session, tasks, context, run.table.io.properties)
        columns = []
        for name, f in zip(self._names, self._given, strict=True):
            value = F.lit(None) if _is_void(f) else F.col(name).cast(_nullable(f.dataType))
            columns.append(value.alias(f.name, metadata=f.metadata))
        return rows.select(*columns)


def _written(run: SparkRun, columns: _Columns, state: SourceState) -> Changes:
    table = WriteContext.for_table(run.table.metadata)
    context = WriteContext(
        schema=columns.schema,
        spec=UNPARTITIONED,
        properties={DATA_PATH.name: table.data_location},
        table_location=table.table_location,
    )
    rows = columns.rows.withColumn(CHANGE_COLUMN, F.lit(INSERT))
    return write_changes(
        rows,
        context,
        run.table.io.properties,
        f"{run.run.operation_id}-source",
        is_repeatable=state.is_repeatable,
        check=state.check_unchanged,
    )


def _nullable(type_: spark.DataType) -> spark.DataType:
    """The type with nulls allowed at every level: Spark refuses other casts of rows read from files."""
    if isinstance(type_, spark.StructType):
        return spark.StructType([spark.StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in type_.fields])
    if isinstance(type_, spark.ArrayType):
        return spark.ArrayType(_nullable(type_.elementType), True)
    if isinstance(type_, spark.MapType):
        return spark.MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    return type_


def _is_void(f: spark.StructField) -> bool:
    return isinstance(f.dataType, spark.NullType)
