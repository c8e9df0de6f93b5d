"""Writes Parquet files into a table without a row in the JVM: executors read them with Arrow and write them with our writer.

``changes`` handles results, clean-up and errors; the job decides which files may be read this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from iceberg_ops.data.sources.source_parts import (
    SourcePart,
    in_tasks,
    parts_from_json,
    parts_to_json,
    read_parts,
    source_hints,
    source_io,
)
from iceberg_ops.data.writing.write_context import WriteContext
from spark_jobs.runners.changes import Answer, Changes, Task, TaskChanges, gathered_changes, task_answers
from spark_jobs.session import task_slots


def write_parts(
    session: SparkSession,
    parts: Sequence[SourcePart],
    context: WriteContext,
    io_properties: Mapping[str, str],
    operation_id: str,
    check: Callable[[], None] = lambda: None,
) -> Changes:
    """Write all rows of ``parts``. Errors, files and ``check`` are handled as in ``write_changes``; raises DataError for a file
    that cannot be read."""
    task = Task(context.to_json(), dict(io_properties), operation_id)
    tasks = [parts_to_json(group) for group in in_tasks(parts, task_slots(session))]
    spread = session.sparkContext.parallelize(tasks, max(1, len(tasks)))
    return gathered_changes(session, task, spread.mapPartitions(_writer(task)).collect, check=check)


def _writer(task: Task) -> Callable[[Iterable[str]], Iterator[Answer]]:
    def write(texts: Iterable[str]) -> Iterator[Answer]:
        def add_all(changes: TaskChanges) -> None:
            io, schema = source_io(), WriteContext.from_json(task.context).schema
            for text in texts:
                parts = parts_from_json(text)
                changes.encode_as(source_hints(io, parts, schema))
                rows = read_parts(io, parts, schema)
                try:
                    for batch in rows:
                        changes.insert(batch)
                finally:
                    rows.close()

        return iter(task_answers(task, add_all))

    return write
