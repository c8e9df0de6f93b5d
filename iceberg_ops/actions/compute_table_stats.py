"""Counts the distinct values of columns at a snapshot, into a Puffin file of theta sketches (Iceberg: ``compute_table_stats``).

The live rows of the snapshot are read once, with deletes applied, in shares of the files, by worker processes or by Spark tasks.
Their sketches are merged here; the result is the same as that of one process. The file is registered with the table; readers that
use it (Spark's cost-based optimizer, Trino) plan better, and no result changes. The rows of a snapshot never change: if its file
already has a sketch of every column, there is nothing to do.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

from iceberg_ops.actions.groups.group_works import even_parts
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result, commit_result
from iceberg_ops.actions.run.staged_files import commit_staged
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import SpreadingRunner
from iceberg_ops.commit.operations.metadata_updates import UpdateStatistics
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.config.table_options import compute_table_stats_options
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.distinct_values import merge_share, share_text, sketch_share, sketched_columns
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.serde.puffins.puffin import THETA_SKETCH, BlobToWrite, write_puffin
from iceberg_ops.serde.puffins.theta_sketch import ThetaSketch
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import BlobMetadata, StatisticsFile
from iceberg_ops.spec.types import NestedField
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.stored_files import is_stored

_SHARES_PER_TASK = 4
_MOST_BYTES_OF_SHARE = 256 * 2**20
"""Progress is reported after each share; a share is repeated if its task is lost."""


def compute_table_stats(run: Run) -> Result:
    """Raises OptionError, SchemaError, NoSuchSnapshotError, CorruptTableError."""
    options = compute_table_stats_options(run.job.options)
    with run.step("plan") as detail:
        scan = Scan(ref=run.job.branch) if options.snapshot_id is None else Scan(snapshot_id=options.snapshot_id)
        planned = plan(run.table, scan) if run.table.metadata.snapshots else None
        if planned is None or planned.snapshot is None:
            return NothingToDo(findings=Findings())
        columns = sketched_columns(planned.schema, options.columns)
        detail.append(f"{counted(len(columns), 'column')} of {counted(len(planned.tasks), 'file')}")
    findings = Findings(metrics={"columns-count": len(columns), "planned-data-files-count": len(planned.tasks)})
    if not columns:
        return NothingToDo(findings=findings)
    if (known := _counted_before(run, planned.snapshot, columns, findings)) is not None:
        return NothingToDo(findings=known)
    if run.job.dry_run:
        return Planned(findings=findings)
    run.outcome.keep(findings)
    with run.lease(planned.snapshot.snapshot_id):
        sketches, rows = _sketches(run, planned, columns)
        values = {f"ndv.{f.name}": round(sketches[f.field_id].estimate) for f in columns}
        findings = replace(findings, metrics={**findings.metrics, "rows-count": rows, **values})
        run.outcome.keep(findings)
        file = _written(run, planned.snapshot, sketches)
        return _registered(run, file, findings)


def _counted_before(run: Run, snapshot: Snapshot, columns: Sequence[NestedField], findings: Findings) -> Findings | None:
    """The results for all ``columns`` in the snapshot's statistics file; None if there is no intact file with all of them."""
    for file in run.table.metadata.statistics:
        if file.snapshot_id != snapshot.snapshot_id or not is_stored(run.table.io, file.statistics_path, file.file_size_in_bytes):
            continue
        counts = {
            blob.fields[0]: count
            for blob in file.blob_metadata
            if blob.type == THETA_SKETCH and len(blob.fields) == 1 and blob.snapshot_id == snapshot.snapshot_id
            if (count := parse_count(blob.properties.get("ndv"))) is not None
        }
        if all(f.field_id in counts for f in columns):
            values = {f"ndv.{f.name}": counts[f.field_id] for f in columns}
            kept = SkippedFile(file_path=file.statistics_path, reason="it already holds these statistics of the snapshot")
            return replace(findings, metrics={**findings.metrics, **values}, skipped=(kept,))
    return None


def _sketches(run: Run, planned: ScanPlan, columns: list[NestedField]) -> tuple[dict[int, ThetaSketch], int]:
    """The sketch of each column, by field id, and the number of rows."""
    sketches = {f.field_id: ThetaSketch() for f in columns}
    context = ReadContext.for_table(run.table.metadata, schema=planned.schema, columns=[f.name for f in columns])
    size = sum(task.data_file.file_size_in_bytes for task in planned.tasks)
    meter = run.meter("counting", len(planned.tasks), size, unit="files")
    rows = 0
    with run.step("run") as detail:
        for answer in _answers(run, planned.tasks, context, size):
            more, files, bytes_ = merge_share(list(sketches.values()), answer)
            rows += more
            meter.advance(files, bytes_)
        detail.append(counted(rows, "row"))
    return sketches, rows


def _answers(run: Run, tasks: Sequence[FileScanTask], context: ReadContext, size: int) -> Iterator[str]:
    """The answers for every share of the files. Few bytes, and a table in memory, are read in this process."""
    properties = run.table.io.properties
    runner = run.runner or LocalRunner()
    here = isinstance(runner, LocalRunner) and (size <= runner.inline_bytes or properties.get("io-impl") == "memory")
    if here or not isinstance(runner, SpreadingRunner):
        yield from (sketch_share(share_text([task], context, properties)) for task in tasks)
        return
    count = min(len(tasks), max(runner.parallelism * _SHARES_PER_TASK, -(-size // _MOST_BYTES_OF_SHARE)))
    shares = (share_text(share, context, properties) for share in even_parts(tasks, count) if share)
    yield from runner.spread(sketch_share, list(shares))


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


def _registered(run: Run, file: StatisticsFile, findings: Findings) -> Result:
    with run.step("commit"):
        statistics = UpdateStatistics(added=(file,), run_key=run.run_key, summary=run.summary)
        done = commit_staged(run, statistics, [file.statistics_path])
    return commit_result(done, findings if done.already_committed else replace(findings, files=(file.statistics_path,)))
