"""Count the distinct values of columns at a snapshot, into a Puffin file of theta sketches (Iceberg: ``compute_table_stats``).

The live rows of the snapshot are read once, deletes applied. The file is registered with the table; readers that use it (Spark's
cost-based optimizer, Trino) plan better, and no result changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from iceberg_ops.actions.context import Run
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateStatistics
from iceberg_ops.config.table_options import compute_stats_options
from iceberg_ops.data.distinct_values import add_values, sketched_columns
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.reader import read_task
from iceberg_ops.errors import BadInputError
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.serde.puffin import THETA_SKETCH, BlobToWrite, write_puffin
from iceberg_ops.serde.theta_sketch import ThetaSketch
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import BlobMetadata, StatisticsFile
from iceberg_ops.spec.types import NestedField
from iceberg_ops.table.metadata_files import metadata_folder


def compute_table_stats(run: Run) -> None:
    """Fill ``run.outcome``. Raises OptionError, SchemaError, NoSuchSnapshotError, CorruptTableError."""
    options = compute_stats_options("compute_table_stats", run.job.options)
    with run.step("plan") as detail:
        scan = Scan(ref=run.job.branch) if options.snapshot_id is None else Scan(snapshot_id=options.snapshot_id)
        planned = plan(run.table, scan) if run.table.metadata.snapshots else None
        if planned is None or planned.snapshot is None:
            return
        columns = sketched_columns(planned.schema, options.columns)
        detail.append(f"{len(columns)} columns of {len(planned.tasks)} files")
    run.outcome.metrics |= {"columns-count": len(columns), "planned-data-files-count": len(planned.tasks)}
    if not columns:
        return
    run.outcome.status = "planned"
    if run.job.dry_run:
        return
    with run.lease(planned.snapshot.snapshot_id) as renew:
        sketches = _sketches(run, planned, columns, renew)
        file = _written(run, planned.snapshot, sketches)
        _register(run, file)


def _sketches(run: Run, planned: ScanPlan, columns: list[NestedField], renew: Callable[[], None]) -> dict[int, ThetaSketch]:
    found = {f.field_id: ThetaSketch() for f in columns}
    context = ReadContext.for_table(run.table.metadata, schema=planned.schema, columns=[f.name for f in columns])
    rows = 0
    with run.step("run") as detail:
        for task in planned.tasks:
            renew()
            for batch in read_task(task, context, run.table.io):
                rows += batch.num_rows
                for f, column in zip(columns, batch.columns, strict=True):
                    add_values(found[f.field_id], f, column)
        detail.append(f"{rows} rows")
    run.outcome.metrics["rows-count"] = rows
    run.outcome.metrics |= {f"ndv.{f.name}": round(found[f.field_id].estimate) for f in columns}
    return found


def _written(run: Run, snapshot: Snapshot, sketches: dict[int, ThetaSketch]) -> StatisticsFile:
    blobs = [
        BlobToWrite(
            type=THETA_SKETCH,
            data=sketch.to_bytes(),
            fields=(field_id,),
            snapshot_id=snapshot.snapshot_id,
            sequence_number=snapshot.sequence_number,
            compression_codec="zstd",
            properties={"ndv": str(round(sketch.estimate))},
        )
        for field_id, sketch in sketches.items()
    ]
    data, placed, footer_size = write_puffin(blobs, {"created-by": "iceberg-ops"})
    location = f"{metadata_folder(run.table.metadata)}/{snapshot.snapshot_id}-{run.operation_id}-{uuid.uuid4()}.stats"
    run.table.io.write(location, data)
    return StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=location,
        file_size_in_bytes=len(data),
        file_footer_size_in_bytes=footer_size,
        blob_metadata=tuple(
            BlobMetadata(
                type=b.type,
                snapshot_id=b.snapshot_id,
                sequence_number=b.sequence_number,
                fields=b.fields,
                properties=b.properties,
            )
            for b in placed
        ),
    )


def _register(run: Run, file: StatisticsFile) -> None:
    with run.step("commit"):
        try:
            committed = commit(run.catalog, run.table, UpdateStatistics(added=(file,), run_key=run.run_key))
        except BadInputError:
            run.table.io.delete(file.statistics_path)
            raise
    run.outcome.attempts, run.outcome.table = committed.attempts, committed.table
    run.outcome.status = "already-committed" if committed.already_committed else "committed"
    run.outcome.files.append(file.statistics_path)
