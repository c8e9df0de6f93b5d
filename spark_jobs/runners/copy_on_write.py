"""Copy-on-write: Arrow rewrites files without the changed rows, on the executors.

Unchanged rows never become Spark rows: each task reads its files with the existing deletes, drops the positions that the
statement matched, and writes the remaining rows. The rows read, dropped and written are counted, and the counts must add up before
anything is committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from iceberg_ops.actions.rows.changed_rows import CopyWork
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting.copy_without import CopyCounts, Positions, check_counts, copy_without, partition_in_spec, take_in
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import IcebergOpsError, error_of_code
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.machine_limits import typed_limits
from iceberg_ops.scan.tasks import FileScanTask, task_from_dict, task_to_dict
from iceberg_ops.serde.json.content_file_json import data_file_from_dict, data_file_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import PartitionSpec
from spark_jobs.runners.changes import task_number
from spark_jobs.runners.staged_leftovers import without_leftovers
from spark_jobs.runners.task_bins import spread
from spark_jobs.runners.task_process import begin_task
from spark_jobs.session import task_slots


def rewrite_without(
    session: SparkSession,
    work: CopyWork,
    read: ReadContext,
    write: WriteContext,
    io_properties: Mapping[str, str],
    operation_id: str,
) -> list[DataFile]:
    """New files with the rows of ``work``, besides those that the operation has staged.

    Raises VerificationError if rows kept plus rows dropped do not equal rows read. After any error, and for discarded attempts
    (retries, speculation), the files written here are deleted.
    """
    if not work.matched:
        return []
    bins = _bins(work, write.spec, max(1, min(len(work.matched), 2 * task_slots(session))))
    run = _rewriter(read.to_json(), write.to_json(), dict(io_properties), operation_id)

    def rewritten() -> list[DataFile]:
        answers = session.sparkContext.parallelize(bins, len(bins)).mapPartitions(run).collect()
        files = [data_file_from_dict(f) for answer in answers for f in answer.get("files", ())]
        for answer in answers:
            if "error" in answer:
                raise error_of_code(*answer["error"])
        counts = CopyCounts(sum(a["read"] for a in answers), sum(a["dropped"] for a in answers))
        check_counts(counts, asked=work.rows_that_go, written=sum(f.record_count for f in files))
        return files

    return without_leftovers(
        session,
        load_file_io(io_properties),
        [write.data_location],
        operation_id,
        rewritten,
        _paths,
        before=_paths(work.staged),
    )


def _paths(files: Sequence[DataFile]) -> list[str]:
    return [f.file_path for f in files]


def _bins(work: CopyWork, spec: PartitionSpec, count: int) -> list[str]:
    """The work of each task. A staged file is added to the task with the fewest copied bytes of its partition, so it adds no
    file."""
    bins = [part for part in spread(work.matched, count, lambda pair: pair[0].data_file.file_size_in_bytes) if part]
    loads = [sum(task.data_file.file_size_in_bytes for task, _ in part) for part in bins]
    new: list[list[DataFile]] = [[] for _ in bins]
    copied: dict[tuple[Any, ...] | None, set[int]] = {}
    for i, part in enumerate(bins):
        for task, _ in part:
            copied.setdefault(partition_in_spec(task.data_file, spec), set()).add(i)
    for file in work.taken_in:
        least = min(copied[partition_in_spec(file, spec)], key=loads.__getitem__)
        new[least].append(file)
        loads[least] += file.file_size_in_bytes
    return [
        json.dumps(
            {
                "files": [(task_to_dict(task), BitMap64(positions).serialize().hex()) for task, positions in part],
                "taken-in": [data_file_to_dict(file) for file in files],
            }
        )
        for part, files in zip(bins, new, strict=True)
    ]


def _rewriter(
    read_json: Mapping[str, Any], write_json: Mapping[str, Any], io_properties: dict[str, str], operation_id: str
) -> Callable[[Iterable[str]], Iterator[dict[str, Any]]]:
    def rewrite(texts: Iterable[str]) -> Iterator[dict[str, Any]]:
        begin_task()
        io = load_file_io(io_properties)
        context = ReadContext.from_json(read_json)
        for text in texts:
            work = json.loads(text)
            write = WriteContext.from_json(write_json)
            writer = PartitionedWriter(write, io, operation_id=operation_id, task_id=task_number())
            try:
                counts = CopyCounts()
                with typed_limits():
                    copy_without(_places(work["files"]), context, io, writer, counts)
                    take_in(map(data_file_from_dict, work["taken-in"]), context, io, writer, counts)
                    files = [data_file_to_dict(f) for f in writer.close()]
                yield {"files": files, "read": counts.read, "dropped": counts.dropped}
            except IcebergOpsError as e:
                writer.abort()
                yield {"error": [e.code, str(e)]}
            except BaseException:
                writer.abort()
                raise

    return rewrite


def _places(files: list[list[Any]]) -> Iterator[tuple[FileScanTask, Positions]]:
    for task, positions_hex in files:
        positions = BitMap64.deserialize(bytes.fromhex(positions_hex))
        yield task_from_dict(task), np.fromiter(positions, dtype=np.int64, count=len(positions))
