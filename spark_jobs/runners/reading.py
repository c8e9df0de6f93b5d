"""Live rows of a table as a DataFrame, read by Arrow on the executors.

Each Spark partition holds the JSON of a few scan tasks; ``iceberg_ops.data`` reads them with their deletes applied, so schema
evolution, every file format and every kind of delete are right by construction. Two columns say where a row lives: ``_file`` (the
task's index in the plan: small, where a path would be long) and ``_pos`` (row position in its data file).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark

from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.reader import read_task
from iceberg_ops.io.load import load_file_io
from iceberg_ops.scan.tasks import FileScanTask, task_from_dict, task_to_dict
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import StructType
from spark_jobs.runners.spark_schema import spark_schema, to_spark
from spark_jobs.session import task_slots

FILE_COLUMN = "_file"
POSITION_COLUMN = "_pos"
ROW_ID_COLUMN = "_row_id"
_TASK_BYTES = 128 * 1024 * 1024


def live_rows(
    session: SparkSession,
    tasks: Sequence[FileScanTask],
    context: ReadContext,
    io_properties: Mapping[str, str],
) -> DataFrame:
    """The rows of ``tasks`` in the data columns of ``context``, led by ``_file`` (int) and ``_pos`` (long).

    ``context`` must ask the reader for ``_pos`` beside them.
    """
    shape = spark.StructType(
        [
            spark.StructField(FILE_COLUMN, spark.IntegerType()),
            spark.StructField(POSITION_COLUMN, spark.LongType()),
            *spark_schema(Schema(StructType(context.data_fields))).fields,
        ]
    )
    bins = _bins(tasks, task_slots(session))
    frame = session.sparkContext.parallelize([(json.dumps(b),) for b in bins], max(1, len(bins))).toDF("tasks string")
    return frame.mapInArrow(_reader(context.to_json(), dict(io_properties)), shape)


def _bins(tasks: Sequence[FileScanTask], slots: int) -> list[list[tuple[int, dict[str, Any]]]]:
    """Spread tasks over Spark partitions, largest first: at least one per slot where there are that many, none over ~128 MB by
    choice."""
    total = sum(task.data_file.file_size_in_bytes for task in tasks)
    count = min(len(tasks), max(2 * slots, -(-total // _TASK_BYTES)))
    bins: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in range(count)]
    loads = [0] * count
    for index in sorted(range(len(tasks)), key=lambda i: -tasks[i].data_file.file_size_in_bytes):
        least = loads.index(min(loads))
        bins[least].append((index, task_to_dict(tasks[index])))
        loads[least] += tasks[index].data_file.file_size_in_bytes
    return bins


def _reader(context_json: str, io_properties: dict[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        context = ReadContext.from_json(context_json)
        io = load_file_io(io_properties)
        for batch in batches:
            for text in batch.column(0).to_pylist():
                for index, task in json.loads(text):
                    for rows in read_task(task_from_dict(task), context, io):
                        yield _placed(rows, index, context)

    return read


def _placed(rows: pa.RecordBatch, index: int, context: ReadContext) -> pa.RecordBatch:
    columns = to_spark(rows, context.projected)
    names = [FILE_COLUMN, POSITION_COLUMN] + [f.name for f in context.data_fields]
    file_index = (
        pa.array([index], pa.int32()).take(pa.array([0] * rows.num_rows, pa.int32())) if rows.num_rows else pa.array([], pa.int32())
    )
    by_name = dict(zip(columns.schema.names, columns.columns, strict=True))
    arrays = [file_index, by_name[POSITION_COLUMN].cast(pa.int64())] + [by_name[f.name] for f in context.data_fields]
    return pa.RecordBatch.from_arrays(arrays, names=names)
