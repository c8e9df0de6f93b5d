"""A slow committer among fast appenders: one process repeatedly rewrites all files of a table, while others each append a file
every 0.2 s, to the same branch.

Measured are that every rewrite is committed, and the cost of waiting for it: attempts, and the time from the first tried swap to
the successful one. ``STARVATION_REWRITES`` (10), ``STARVATION_APPENDERS`` (2) and ``STARVATION_PERIOD`` (0.2 seconds)
change it; after ``STARVATION_SECONDS`` (180) no new rewrite begins. The benchmark fails unless at the end every appended row is
there exactly once.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from multiprocessing.synchronize import Event
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.records import record
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_batches
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.table import Table

NAME = ("db", "events")
REWRITES = int(os.environ.get("STARVATION_REWRITES", "10"))
APPENDERS = int(os.environ.get("STARVATION_APPENDERS", "2"))
PERIOD = float(os.environ.get("STARVATION_PERIOD", "0.2"))
SECONDS = float(os.environ.get("STARVATION_SECONDS", "180"))
SEED_FILES = 200
ROWS = 1_000
"""The rows of one file."""
BETWEEN = 10_000_000
"""The number of rows an appender may append before its ids overlap the next one's."""


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="starvation-") as folder:
        properties = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"{folder}/wh"}
        config = CatalogConfig(name="bench", type="sql", properties=properties)
        _make_table(config)
        context = multiprocessing.get_context("spawn")
        stop, answers = context.Event(), context.Queue()
        appenders = [context.Process(target=_append, args=(config, i, stop, answers), daemon=True) for i in range(1, APPENDERS + 1)]
        for process in appenders:
            process.start()
        for _ in appenders:
            answers.get(timeout=120)
        reports, failed = _rewrite(config)
        stop.set()
        appended = [answers.get(timeout=120) for _ in appenders]
        for process in appenders:
            process.join()
        _verify(config, {number: len(seconds) for number, seconds in appended})
    waits = [next(s.duration_ms for s in r.steps if s.name == "commit") / 1000 for r in reports] or [0.0]
    return [
        record(
            f"a rewrite of everything among {APPENDERS} appenders every {PERIOD} s",
            ours_s=median(waits),
            rewrites=len(reports) + failed,
            committed=sum(r.status == "committed" for r in reports),
            attempts=[r.attempts for r in reports],
            slowest_commit_s=round(max(waits), 3),
            appends=sum(len(seconds) for _, seconds in appended),
            median_append_s=round(median([s for _, seconds in appended for s in seconds]), 3),
            slowest_append_s=round(max(s for _, seconds in appended for s in seconds), 3),
        )
    ]


def _make_table(config: CatalogConfig) -> None:
    catalog = load_catalog(config)
    catalog.create_namespace(NAME[:1])
    table = catalog.create_table(NAME, Schema.of(NestedField(1, "id", LONG, True)), properties={"format-version": "2"})
    added = tuple(f for i in range(SEED_FILES) for f in _write(table, i * ROWS, f"seed-{i}"))
    commit(catalog, table, AppendFiles(added=added))


def _write(table: Table, first: int, name: str) -> list[Any]:
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=name)
    writer.write(pa.RecordBatch.from_pydict({"id": pa.array(np.arange(first, first + ROWS))}))
    return writer.close()


def _append(config: CatalogConfig, number: int, stop: Event, answers: Any) -> None:
    """Append one file each period; reports how long each commit took."""
    catalog, seconds = load_catalog(config), list[float]()
    table, due = catalog.load_table(NAME), time.monotonic()
    while not stop.is_set():
        added = _write(table, number * BETWEEN + len(seconds) * ROWS, f"append-{number}-{len(seconds)}")
        begun = time.monotonic()
        table = commit(catalog, table, AppendFiles(added=tuple(added))).table
        seconds.append(time.monotonic() - begun)
        if len(seconds) == 3:
            answers.put("under way")
        due = max(due + PERIOD, time.monotonic())
        stop.wait(due - time.monotonic())
    answers.put((number, seconds))


def _rewrite(config: CatalogConfig) -> tuple[list[ActionReport], int]:
    reports, failed, until = list[ActionReport](), 0, time.monotonic() + SECONDS
    while len(reports) + failed < REWRITES and time.monotonic() < until:
        job = JobSpec(job="rewrite_data_files", table="bench.db.events", catalog=config, options={"rewrite-all": "true"})
        try:
            reports.append(run_job(job))
        except IcebergOpsError:
            failed += 1
    return reports, failed


def _verify(config: CatalogConfig, appends: dict[int, int]) -> None:
    table = load_catalog(config).load_table(NAME)
    found = np.sort(np.concatenate([np.asarray(batch.column(0)) for batch in scan_batches(table)]))
    blocks = [np.arange(SEED_FILES * ROWS), *(n * BETWEEN + np.arange(count * ROWS) for n, count in sorted(appends.items()))]
    if not np.array_equal(found, np.concatenate(blocks)):
        raise SystemExit(f"wrong rows: {len(found)} are there, {sum(map(len, blocks))} were acknowledged")
