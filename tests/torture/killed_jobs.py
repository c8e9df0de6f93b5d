"""More operations to be killed during their work: whole jobs (actions under their own names, statements from Python, imports).

See ``killed_operations`` for the form of a work; this file holds those that use ``run_job`` or commit like a Spark statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.expressions.predicates import lt
from tests.actions.lake import Lake, Row, numbered
from tests.torture.killed_operations import (
    FOUR_DAYS_NS,
    RUN_KEY,
    KilledOperation,
    Work,
    head,
    now_ms,
    write_rows,
)


def action(name: str, **options: Any) -> Work:
    return lambda lake, _: (lake.run(name, now=now_ms, run_key=RUN_KEY, **options), None)[1]


def orphans(lake: Lake, name: str) -> None:
    lake.run("remove_orphan_files", now=lambda: now_ms() + FOUR_DAYS_NS // 10**6)


def delete_statement(lake: Lake, name: str) -> None:
    DeleteRows(where=lt("id", 13), run_key=RUN_KEY, operation_id=name).run(lake.catalog, lake.table)


def merge_on_read(lake: Lake, name: str) -> None:
    """What MERGE commits: rows deleted by position, new rows for them, and vectors merged with the existing ones."""
    table, tasks = lake.table, lake.tasks()[:2]
    found = [(task, np.array([0, 1], np.int64)) for task in tasks]
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), found, operation_id=name)
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        added_data=write_rows(lake, numbered(300, 4), name),
        referenced_data_files=tuple(task.file_path for task in tasks),
        conflict_filter=lt("id", 15),
        starting_snapshot_id=head(lake),
        run_key=RUN_KEY,
        merges_vectors=True,
    )
    commit(lake.catalog, table, operation)


def merge_copy_on_write(lake: Lake, name: str) -> None:
    table, task = lake.table, lake.tasks()[0]
    operation = OverwriteFiles(
        added=write_rows(lake, numbered(300, 4), name),
        removed=(task.data_file,),
        conflict_filter=lt("id", 15),
        isolation="snapshot",
        starting_snapshot_id=head(lake),
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


CHANGED = tuple((i, f"{text}!", region) for i, text, region in (*numbered(3, 4), *numbered(300, 2)))


def row_job(name: str, *, options: dict[str, str] | None = None, rows: Sequence[Row] = (), **more: Any) -> Work:
    """A row operation of lane local; one that takes rows takes ``rows`` from a file beside the table."""

    def work(lake: Lake, _: str) -> None:
        parts = dict(more)
        if name in ("append", "overwrite", "merge", "upsert"):
            path = Path(lake.table.location).parent / "changes.parquet"
            schema = pa.schema([("id", pa.int64()), ("data", pa.string()), ("region", pa.string())])
            pq.write_table(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema), path)
            parts["source"] = Source(format="parquet", paths=[str(path)])
        spec = structs.replace(lake.job(name, **(options or {})), run_key=RUN_KEY, **parts)
        run_job(spec, catalog=lake.catalog, now=now_ms)

    return work


def import_files(lake: Lake, name: str) -> None:
    """The source is beside the table, and exists before the job begins."""
    source = Path(lake.table.location).parent / "imported"
    source.mkdir(exist_ok=True)
    for number in range(2):
        ids, texts, regions = zip(*numbered(400 + 10 * number, 3), strict=True)
        if not (path := source / f"{number}.parquet").exists():
            pq.write_table(pa.table({"id": ids, "data": texts, "region": regions}), path)
    lake.run("add_files", now=now_ms, run_key=RUN_KEY, source_path=str(source))


IN_GROUPS = {"max_file_group_input_files": 2, "min_input_files": 2, "partial-progress.enabled": "true"}

JOBS: dict[str, KilledOperation] = {
    "rewrite_data_files": KilledOperation(action("rewrite_data_files", rewrite_all=True)),
    "rewrite_data_files sorted": KilledOperation(action("rewrite_data_files", rewrite_all=True, strategy="sort", sort_order="id")),
    "rewrite_data_files in groups": KilledOperation(action("rewrite_data_files", **IN_GROUPS), None, in_parts=True),
    "rewrite_position_delete_files": KilledOperation(action("rewrite_position_delete_files", rewrite_all=True), None),
    "convert_equality_deletes": KilledOperation(action("convert_equality_deletes")),
    "rewrite_manifests": KilledOperation(action("rewrite_manifests"), None),
    "expire_snapshots": KilledOperation(action("expire_snapshots", older_than="0s", retain_last=1), None),
    "remove_orphan_files": KilledOperation(orphans, 0),
    "add_files": KilledOperation(import_files),
    "compute_table_stats": KilledOperation(action("compute_table_stats"), 0),
    "compute_partition_stats": KilledOperation(action("compute_partition_stats"), 0),
    "append job": KilledOperation(row_job("append", rows=CHANGED)),
    "append of nothing": KilledOperation(row_job("append"), 0),
    "staged append job": KilledOperation(row_job("append", rows=CHANGED, options={"wap-id": "mine"})),
    "overwrite job": KilledOperation(row_job("overwrite", rows=CHANGED)),
    "overwrite job by filter": KilledOperation(row_job("overwrite", rows=CHANGED, where="id < 5")),
    "delete job": KilledOperation(row_job("delete", where="id < 13", change=RowChange(mode="merge-on-read"))),
    "delete job by copying": KilledOperation(row_job("delete", where="id < 13", change=RowChange(mode="copy-on-write"))),
    "delete statement": KilledOperation(delete_statement),
    "update": KilledOperation(row_job("update", where="id < 13", change=RowChange(mode="merge-on-read", set={"data": "'x'"}))),
    "update by copying": KilledOperation(
        row_job("update", where="id < 13", change=RowChange(mode="copy-on-write", set={"data": "'x'"}))
    ),
    "merge": KilledOperation(
        row_job(
            "merge",
            rows=CHANGED,
            change=RowChange(
                mode="merge-on-read",
                on="target.id = source.id",
                clauses=[
                    MergeClause(when="matched", action="update"),
                    MergeClause(when="not-matched", action="insert"),
                    MergeClause(when="not-matched-by-source", action="delete", condition="target.id > 50"),
                ],
            ),
        )
    ),
    "upsert job": KilledOperation(row_job("upsert", rows=CHANGED, options={"upsert-keys": "id"})),
    "merge on read": KilledOperation(merge_on_read),
    "merge by copying": KilledOperation(merge_copy_on_write),
}
