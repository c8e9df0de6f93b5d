"""Compaction under fire: a full rewrite of a 250 MB table, again and again, while another process deletes rows of the same files
about every second, merge-on-read.

A try counts as committed only if all its groups are. At the end the table is read: every acknowledged delete is in force and every
other row is there, or the benchmark fails. The peer's figure for the same (Iceberg Java 1.11 on Spark commits none of 25, because
its rewrite is refused as soon as a delete of a replaced file came meanwhile) is not measured here.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.records import record
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.reader import read_task, scan_batches
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.expressions.predicates import in_
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, LONG, NestedField

NAME = ("db", "events")
FILES = 16
SECOND = 1.0
AT_A_TIME = 16
"""Rows of one delete."""
MEGABYTES = int(os.environ.get("CONTENTION_MB", "250"))
TRIES = int(os.environ.get("CONTENTION_TRIES", "25"))
DOUBLES = 6
ROWS = MEGABYTES * 1_000_000 // (8 * (DOUBLES + 1)) // FILES * FILES
MODES = [
    ("v2-file-deletes", {"format-version": "2", "write.delete.granularity": "file"}),
    ("v2-partition-deletes", {"format-version": "2", "write.delete.granularity": "partition"}),
    ("v3-deletion-vectors", {"format-version": "3"}),
]


def run() -> list[dict[str, Any]]:
    """One record per way of deleting; the tries are shared out among them."""
    shares = [len(range(i, TRIES, len(MODES))) for i in range(len(MODES))]
    return [_contend(name, properties, tries) for (name, properties), tries in zip(MODES, shares, strict=True) if tries]


def _contend(name: str, properties: dict[str, str], tries: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="contention-") as folder:
        config = _make_table(Path(folder), properties)
        size = load_catalog(config).load_table(NAME).metadata.current_snapshot
        context = multiprocessing.get_context("spawn")
        stop, answers = context.Event(), context.Queue()
        deleter = context.Process(target=_delete_every_second, args=(config, stop, answers), daemon=True)
        deleter.start()
        answers.get(timeout=60)
        figures = _compact(config, tries)
        stop.set()
        deletes: _Deletes = answers.get(timeout=60)
        deleter.join()
        _verify(config, deletes.ids)
        return record(
            f"compaction under deletes every second, {name}",
            ours_s=sum(figures["seconds"]) / tries,
            bytes_=int((size.summary if size else {}).get("total-files-size", 0)),
            tries=tries,
            committed=figures["committed"],
            groups=dict(figures["groups"]),
            carried_over_rows=figures["carried"],
            deletes_acknowledged=deletes.commits,
            deletes_refused=deletes.refused,
            slowest_s=round(max(figures["seconds"]), 3),
            waited_s=round(median(figures["waited"]), 3),
            commit_s=round(median(figures["commit"]), 3),
        )


def _make_table(folder: Path, properties: dict[str, str]) -> CatalogConfig:
    config = CatalogConfig(
        name="bench", type="sql", properties={"uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder / "wh")}
    )
    catalog = load_catalog(config)
    catalog.create_namespace(NAME[:1])
    fields = [NestedField(1, "id", LONG, True), *(NestedField(i + 2, f"x{i}", DOUBLE) for i in range(DOUBLES))]
    table = catalog.create_table(NAME, Schema.of(*fields), properties=properties)
    rng, added = np.random.default_rng(7), []
    for i in range(FILES):
        rows = ROWS // FILES
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"seed-{i}")
        columns = {"id": np.arange(i * rows, (i + 1) * rows), **{f"x{n}": rng.random(rows) for n in range(DOUBLES)}}
        writer.write(pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()}))
        added += writer.close()
    commit(catalog, table, AppendFiles(added=tuple(added)))
    return config


def _compact(config: CatalogConfig, tries: int) -> dict[str, Any]:
    found: dict[str, Any] = {"committed": 0, "carried": 0, "seconds": [], "waited": [], "commit": [], "groups": Counter()}
    for _ in range(tries):
        begun = time.monotonic()
        job = JobSpec(job="rewrite_data_files", table="bench.db.events", catalog=config, options={"rewrite-all": "true"})
        try:
            report = run_job(job)
            found["committed"] += report.status == "committed"
            found["groups"].update(group.status for group in report.groups)
            found["carried"] += report.metrics["carried-over-deletes-count"]
            waited = report.metrics["waited-for-writers-ms"]
            found["waited"].append(waited / 1000)
            found["commit"].append((next(s.duration_ms for s in report.steps if s.name == "commit") - waited) / 1000)
        except IcebergOpsError as e:
            found["groups"][f"failed: {e.code}"] += 1
        found["seconds"].append(time.monotonic() - begun)
    return found


@dataclass
class _Deletes:
    ids: list[int]
    commits: int = 0
    refused: int = 0


def _delete_every_second(config: CatalogConfig, stop: Event, answers: Queue[Any]) -> None:
    """A second process: a few rows from all over the table, in one commit, every second. A refused delete is planned anew and
    counted."""
    catalog = load_catalog(config)
    found, rng = _Deletes([]), np.random.default_rng(11)
    due = time.monotonic()
    while not stop.is_set():
        ids = [int(i) for i in np.arange(AT_A_TIME) * (ROWS // AT_A_TIME) + rng.integers(0, ROWS // AT_A_TIME)]
        while not _delete(catalog, ids, found):
            found.refused += 1
        found.ids += ids
        if len(found.ids) == 3 * AT_A_TIME:
            answers.put("under way")
        due = max(due + SECOND, time.monotonic())
        stop.wait(due - time.monotonic())
    answers.put(found)


def _delete(catalog: Catalog, ids: list[int], found: _Deletes) -> bool:
    table = catalog.load_table(NAME)
    head = table.metadata.current_snapshot_id
    context = ReadContext.for_table(table.metadata, columns=["_pos"])
    chosen = []
    for task in plan(table, Scan(snapshot_id=head, where=in_("id", ids))).tasks:
        positions = [np.asarray(batch.column(0)) for batch in read_task(task, context, table.io)]
        if positions:
            chosen.append((task, np.concatenate(positions)))
    if not chosen:
        return True
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), chosen, operation_id=f"delete-{ids[0]}-{head}")
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        isolation="snapshot",
        referenced_data_files=tuple(task.file_path for task, _ in chosen),
        starting_snapshot_id=head,
    )
    try:
        commit(catalog, table, operation)
    except IcebergOpsError:
        table.io.delete_many([f.file_path for f in deletes.added])
        return False
    found.commits += 1
    return True


def _verify(config: CatalogConfig, deleted: list[int]) -> None:
    table = load_catalog(config).load_table(NAME)
    left = np.ones(ROWS, dtype=bool)
    left[np.array(deleted, np.int64)] = False
    seen = np.zeros(ROWS, dtype=np.int64)
    for batch in scan_batches(table, columns=["id"]):
        np.add.at(seen, np.asarray(batch.column(0)), 1)
    if not np.array_equal(seen, left.astype(np.int64)):
        raise SystemExit(f"wrong rows: {int((seen > left).sum())} came back or doubled, {int((seen < left).sum())} are lost")
