"""Tasks and metadata for planning tests."""

from __future__ import annotations

from typing import Any

from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.planning.file_groups import FileGroup, Skipped
from iceberg_ops.planning.rewrite_data_files import MergedBytes, group_tasks
from iceberg_ops.planning.sort_orders import rewrite_order
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY
from tests.builders import BY_REGION, SCHEMA, data_file

MIB = 2**20
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))


def metadata(**changes: Any) -> TableMetadata:
    """A table by region, sorted by id (order 1)."""
    fields: dict[str, Any] = {
        "format_version": 2,
        "table_uuid": "u",
        "location": "/t",
        "last_updated_ms": 0,
        "last_column_id": 3,
        "current_schema_id": 0,
        "schemas": (SCHEMA,),
        "default_spec_id": 0,
        "partition_specs": (BY_REGION,),
        "last_partition_id": 1000,
        "default_sort_order_id": 1,
        "sort_orders": (UNSORTED, BY_ID),
    }
    return TableMetadata(**(fields | changes))


def task(
    name: str,
    mib: float,
    *,
    region: str = "a",
    deletes: tuple[DataFile, ...] = (),
    ids: tuple[int, int] | None = None,
    sequence: int = 1,
    **more: Any,
) -> FileScanTask:
    """A task over a file of ``mib`` MiB and 1,000 rows."""
    more.setdefault("rows", 1000)
    file = data_file(f"/t/{name}.parquet", partition=(region,), size=round(mib * MIB), ids=ids, **more)
    return FileScanTask(file, sequence, sequence, tuple(DeleteFile(d, sequence + 1) for d in deletes))


def grouped(
    tasks: list[FileScanTask],
    options: dict[str, str] | None = None,
    table: TableMetadata | None = None,
    merged_bytes: MergedBytes | None = None,
) -> tuple[tuple[FileGroup, ...], tuple[Skipped, ...]]:
    """Groups and skipped files for a target of 64 MiB unless options say otherwise."""
    table = table or metadata()
    parsed = rewrite_data_files_options({"target-file-size-bytes": str(64 * MIB), **(options or {})}, {})
    spec = table.default_spec_id if parsed.output_spec_id is None else parsed.output_spec_id
    return group_tasks(tasks, parsed, table, order=rewrite_order(parsed, table), output_spec_id=spec, merged_bytes=merged_bytes)


def paths(group: FileGroup) -> list[str]:
    return [t.file_path.removeprefix("/t/").removesuffix(".parquet") for t in group.tasks]
