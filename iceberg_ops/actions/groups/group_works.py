"""Converts planned file groups to units of work that runners can ship.

A bin-pack group is cut into one unit of work per output file, each with whole input files of about the same total size: the outputs
are then of even size too, and one large group keeps every worker busy. A sort or z-order group stays one unit of work, because its
rows must be sorted together; a runner may do it in stages, with one range per output file. Works are named ``<group>/<part>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyarrow import RecordBatch

from iceberg_ops.config.options import RewriteDataFilesOptions, SizeOptions
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting.encoding_sample import merged_bytes
from iceberg_ops.data.rewriting.group_work import GroupWork
from iceberg_ops.data.rewriting.rewrite import keys_of_work, ordered
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.output_sizes import expected_output_files, output_target_size, write_max_file_size
from iceberg_ops.planning.rewrite_data_files import MergedBytes
from iceberg_ops.planning.sort_orders import RewriteOrder, rewrite_order
from iceberg_ops.scan.tasks import FileScanTask, task_to_json
from iceberg_ops.serde.json.content_file_json import partition_to_json
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table


def group_of_work(work_id: str) -> str:
    """The group a work belongs to."""
    return work_id.partition("/")[0]


def make_group_works(
    groups: Iterable[FileGroup], metadata: TableMetadata, io: FileIO, *, order: RewriteOrder, sizes: SizeOptions, operation_id: str
) -> list[GroupWork]:
    """Works for all groups, in order, with task ids that keep their file names apart."""
    read = _read_context(metadata).to_json()
    tasks_of_groups: list[GroupWork] = []
    for group in groups:
        parts = even_parts(group.tasks, group.expected_output_files) if order.strategy == "binpack" else [group.tasks]
        write = _write_context(metadata, group.output_spec_id, order.sort_order_id).to_json()
        for i, tasks in enumerate(parts, 1):
            work = GroupWork(
                group_id=f"{group.group_id}/{i}",
                tasks=_texts(tasks),
                read=read,
                write=write,
                io_properties=io.properties,
                target_file_size=group.target_file_size if len(parts) < 2 else _target_of_part(group, tasks, sizes),
                operation_id=operation_id,
                task_id=f"{len(tasks_of_groups):05d}",
                partition=None if group.partition is None else tuple(partition_to_json(group.partition)),
                spec_id=group.output_spec_id,
                ranges=group.expected_output_files,
                range_file_size=write_max_file_size(sizes),
                **_order_fields(order),
            )
            tasks_of_groups.append(work)
    return tasks_of_groups


def merged_bytes_estimator(table: Table, options: RewriteDataFilesOptions) -> MergedBytes:
    """Estimates the size of the table's tasks in the output spec, from a sample of their rows (``data.encoding_sample``)."""

    metadata, order = table.metadata, rewrite_order(options, table.metadata)
    spec_id = metadata.default_spec_id if options.output_spec_id is None else options.output_spec_id

    def estimate(tasks: Sequence[FileScanTask]) -> int:
        read, write = _read_context(metadata), _write_context(metadata, spec_id, order.sort_order_id)

        def reorder(sampled: Sequence[FileScanTask], rows: Iterable[RecordBatch]) -> Iterable[RecordBatch]:
            work = GroupWork(
                group_id="sample", tasks=_texts(sampled), read=read.to_json(), write=write.to_json(),
                io_properties=dict(table.io.properties), target_file_size=0, operation_id="sample", **_order_fields(order),
            )  # fmt: skip
            return ordered(work, keys_of_work(work, read.projected, table.io), rows)

        return merged_bytes(tasks, read, write, table.io, None if order.strategy == "binpack" else reorder)

    return estimate


def _texts(tasks: Iterable[FileScanTask]) -> tuple[str, ...]:
    return tuple(task_to_json(_without_statistics(task)).decode() for task in tasks)


def _order_fields(order: RewriteOrder) -> dict[str, Any]:
    """The fields of a work that define the order of its rows."""
    return {
        "sort_order": None if order.sort_order is None else sort_order_to_dict(order.sort_order),
        "zorder_columns": order.zorder_columns,
        "curve": order.strategy if order.zorder_columns else "zorder",
    }


def _read_context(metadata: TableMetadata) -> ReadContext:
    if metadata.format_version < 3:
        return ReadContext.for_table(metadata)
    columns = [f.name for f in metadata.schema.fields]
    return ReadContext.for_table(metadata, columns=[*columns, ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name])


def _write_context(metadata: TableMetadata, spec_id: int, sort_order_id: int = 0) -> WriteContext:
    lineage = metadata.format_version >= 3
    return WriteContext.for_table(metadata, spec_id=spec_id, sort_order_id=sort_order_id or None, row_lineage=lineage)


def _without_statistics(task: FileScanTask) -> FileScanTask:
    """A reader of a whole file does not need its bounds and counts, which are most of a task's text."""
    bare = replace(
        task.data_file, column_sizes=None, value_counts=None, null_value_counts=None, nan_value_counts=None,
        lower_bounds=None, upper_bounds=None,
    )  # fmt: skip
    return replace(task, data_file=bare)


def _target_of_part(group: FileGroup, tasks: Sequence[FileScanTask], sizes: SizeOptions) -> int:
    """A part that should become one file may grow to the write maximum, so that a low estimate leaves no tiny second file; a part
    with a large input file is cut evenly."""
    size = round(sum(task.data_bytes for task in tasks) * group.estimated_bytes / max(group.input_bytes, 1))
    return write_max_file_size(sizes) if expected_output_files(size, sizes) < 2 else output_target_size(size, sizes)


def even_parts(tasks: Sequence[FileScanTask], parts: int) -> list[Sequence[FileScanTask]]:
    """Cut tasks, in order, into at most ``parts`` runs of about the same size in bytes; none is empty."""
    total = sum(task.data_bytes for task in tasks)
    runs: list[list[FileScanTask]] = []
    seen = 0
    for task in tasks:
        due = min(parts - 1, (seen + task.data_bytes // 2) * parts // max(total, 1))
        if not runs or due > len(runs) - 1:
            runs.append([])
        runs[-1].append(task)
        seen += task.data_bytes
    return list(runs)
