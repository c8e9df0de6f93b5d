"""Live rows of a table as a DataFrame, with the place of each.

Files that Spark's own reader reads exactly are left to it (``native_scan``). Arrow reads the others on the executors: each
Spark partition contains the JSON of a few scan tasks; ``iceberg_ops.data`` reads them with their deletes applied, so schema
evolution, every file format and every kind of delete are correct by construction.

Two columns give the place of a row: ``FILE_COLUMN`` (text that ``task_places`` maps to a task: its index in the plan, or the
path if Spark read the file) and ``POSITION_COLUMN`` (row position in its data file). If row ids are requested, there is a third,
``ROW_ID_COLUMN`` (see ``row_ids``). No table can have a column with one of these names; ``_file`` and ``_pos`` may be a table's
own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from iceberg_ops.data.columns.metadata_values import lineage_fields
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, tasks_ahead
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.scan.tasks import FileScanTask, task_from_dict, task_to_dict
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import StructType
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.native_scan import native_paths, native_rows, spark_file_path
from spark_jobs.runners.spark_schema import spark_schema, to_spark
from spark_jobs.runners.task_bins import spread
from spark_jobs.runners.task_process import begin_task
from spark_jobs.session import task_slots

FILE_COLUMN = f"{OWN}file"
POSITION_COLUMN = f"{OWN}pos"
ROW_ID_COLUMN = f"{OWN}row_id"
_TASK_BYTES = 128 * 1024 * 1024


def live_rows(
    session: SparkSession,
    tasks: Sequence[FileScanTask],
    context: ReadContext,
    io_properties: Mapping[str, str],
) -> DataFrame:
    """The rows of ``tasks`` in the data columns of ``context``, preceded by ``FILE_COLUMN`` (text) and ``POSITION_COLUMN`` (long).

    ``context`` must also request the field ``POS``; if it requests ``ROW_ID`` as well, ``ROW_ID_COLUMN`` comes third.
    Rows that a task's residual excludes may or may not be included.
    """
    native = native_paths(tasks, context, load_file_io(io_properties))
    others = [(i, task) for i, task in enumerate(tasks) if i not in native]
    if not native:
        return _arrow_rows(session, others, context, io_properties)
    rows = native_rows(session, list(native.values()), context, FILE_COLUMN, POSITION_COLUMN, ROW_ID_COLUMN)
    return rows.unionAll(_arrow_rows(session, others, context, io_properties)) if others else rows


def task_places(tasks: Sequence[FileScanTask], io: FileIO) -> dict[str, int]:
    """Index in ``tasks`` by the ``FILE_COLUMN`` of ``live_rows``."""
    by_place = {str(i): i for i in range(len(tasks))}
    for i, task in enumerate(tasks):
        if (path := io.local_path(task.file_path)) is not None:
            by_place[spark_file_path(path)] = i
    return by_place


def _arrow_rows(
    session: SparkSession, tasks: Sequence[tuple[int, FileScanTask]], context: ReadContext, io_properties: Mapping[str, str]
) -> DataFrame:
    shape = spark.StructType(
        [
            spark.StructField(FILE_COLUMN, spark.StringType()),
            spark.StructField(POSITION_COLUMN, spark.LongType()),
            *[spark.StructField(ROW_ID_COLUMN, spark.LongType()) for _ in lineage_fields(context.projected)],
            *spark_schema(Schema(StructType(context.data_fields))).fields,
        ]
    )
    bins = _bins(tasks, task_slots(session))
    texts = session.sparkContext.parallelize([(json.dumps(b),) for b in bins], max(1, len(bins)))
    return session.createDataFrame(texts, "tasks string").mapInArrow(_reader(context.to_json(), dict(io_properties)), shape)


def _bins(tasks: Sequence[tuple[int, FileScanTask]], slots: int) -> list[list[tuple[int, dict[str, Any]]]]:
    """Distribute tasks over Spark partitions, largest first: at least one per slot if there are that many, none over ~128 MB if
    possible."""
    total = sum(task.data_file.file_size_in_bytes for _, task in tasks)
    count = min(len(tasks), max(2 * slots, -(-total // _TASK_BYTES)))
    bins = spread(tasks, count, lambda pair: pair[1].data_file.file_size_in_bytes)
    return [[(index, task_to_dict(task)) for index, task in part] for part in bins]


def _reader(
    context_json: Mapping[str, Any], io_properties: dict[str, str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = ReadContext.from_json(context_json)
        io = load_file_io(io_properties)
        for batch in batches:
            for text in batch.column(0).to_pylist():
                placed = [(index, task_from_dict(task)) for index, task in json.loads(text)]
                with tasks_ahead(io, (task for _, task in placed)) as near:
                    for index, task in placed:
                        for rows in read_task(task, context, near):
                            yield _placed(rows, index, context)

    return read


def _placed(rows: pa.RecordBatch, index: int, context: ReadContext) -> pa.RecordBatch:
    columns = to_spark(rows, context.projected)
    lineage, data = lineage_fields(context.projected), context.data_fields
    place = pa.repeat(pa.scalar(str(index)), rows.num_rows)
    names = [FILE_COLUMN, POSITION_COLUMN, *[ROW_ID_COLUMN for _ in lineage], *[f.name for f in data]]
    arrays = [place, columns[POS.field_id], *[columns[f.field_id] for f in (*lineage, *data)]]
    return pa.RecordBatch.from_arrays(arrays, names=names)
