"""Commits without data: appends of one file, replacing files of a large table, expiry, and a rewriter among fast appenders.

No data file exists: what is measured is reading, writing and swapping metadata, on a local disk through the SQL catalog. ``cpu_s``
is what this process computed; on a machine that others use it says more than the clock. Iceberg Java does not run here.

``COMMIT_FILES`` and ``COMMIT_APPENDS`` change the sizes, ``COMMIT_STARVATION_S`` how long the appenders run (0: not at all).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from dataclasses import replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from benchmarks.plan_table import make_table
from benchmarks.records import record
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.manifests import CACHE, entries_of, manifests_of
from iceberg_ops.table.table import Table

FILES = int(os.environ.get("COMMIT_FILES", "100000"))
APPENDS = int(os.environ.get("COMMIT_APPENDS", "100"))
STARVATION_S = float(os.environ.get("COMMIT_STARVATION_S", "20"))
APPENDERS = 2
EVERY_S = 0.2
PERCENTS = (5, 50, 100)
NAME = ("db", "t")


def run() -> list[dict[str, Any]]:
    found = _appends_and_expiry() + [_replace(percent) for percent in PERCENTS] + [_replace(5, scattered=True)]
    return found + ([_starvation()] if STARVATION_S else [])


def _catalog_of(folder: str) -> CatalogConfig:
    return CatalogConfig(name="bench", type="sql", properties={"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder})


def _timed(work: Any) -> tuple[float, float]:
    """Seconds by the clock and of computing."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, round(time.process_time() - cpu, 3)


def _file(table: Table, name: str) -> DataFile:
    return DataFile(
        file_path=f"{table.metadata.location}/data/{name}.parquet",
        file_format=FileFormat.PARQUET,
        record_count=1,
        file_size_in_bytes=500,
        value_counts={1: 1},
        null_value_counts={1: 0},
        lower_bounds={1: bytes(8)},
        upper_bounds={1: bytes(8)},
    )


def _small_table(config: CatalogConfig) -> tuple[Catalog, Table]:
    catalog = load_catalog(config)
    catalog.create_namespace(NAME[:1])
    return catalog, catalog.create_table(NAME, Schema.of(NestedField(1, "id", LONG)))


def _append(catalog: Catalog, table: Table, name: str) -> Table:
    return commit(catalog, table, AppendFiles(added=(_file(table, name),))).table


def _appends_and_expiry() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="commit-") as folder:
        config = _catalog_of(folder)
        catalog, table = _small_table(config)

        def append_all() -> None:
            now = table
            for n in range(APPENDS):
                now = _append(catalog, now, str(n))

        clock, cpu = _timed(append_all)
        found = [record(f"{APPENDS} appends of one file", ours_s=clock, cpu_s=cpu)]
        until = str(time.time_ns() // 1_000_000 + 1)
        job = JobSpec(job="expire_snapshots", table="bench.db.t", catalog=config, options={"older-than": until, "retain-last": "1"})
        clock, cpu = _timed(lambda: run_job(job))
        left = len(catalog.load_table(NAME).metadata.snapshots)
        return [*found, record(f"expiry of the snapshots of {APPENDS} appends", ours_s=clock, cpu_s=cpu, snapshots_left=left)]


def _large_table(folder: str) -> tuple[Catalog, Table, list[DataFile]]:
    catalog = load_catalog(_catalog_of(folder))
    catalog.create_namespace(NAME[:1])
    table = catalog.register_table(NAME, make_table(Path(folder) / "t", FILES).metadata_location)
    files = [e.data_file for m in manifests_of(table, table.metadata.current_snapshot) for e in entries_of(table, m)]
    return catalog, table, files


def _rewrite(files: list[DataFile], run: int = 0) -> RewriteFiles:
    """Each ten files by one, as compaction does, with the statistics of one of them and the rows of all."""
    added = [
        replace(chunk[0], file_path=f"{chunk[0].file_path}-{run}.parquet", record_count=sum(f.record_count for f in chunk))
        for chunk in (files[at : at + 10] for at in range(0, len(files), 10))
    ]
    return RewriteFiles(removed_data=tuple(files), added_data=tuple(added))


def _replace(percent: int, *, scattered: bool = False) -> dict[str, Any]:
    """The files of the first partitions, or some of every partition: then every manifest is written again."""
    with tempfile.TemporaryDirectory(prefix="commit-") as folder:
        catalog, table, files = _large_table(folder)
        replaced = files[:: 100 // percent] if scattered else files[: FILES * percent // 100]
        operation: Operation = _rewrite(replaced)
        CACHE.clear()
        clock, cpu = _timed(lambda: commit(catalog, table, operation))
        return record(
            f"replacing {percent} % of {FILES} files{', in every manifest' if scattered else ''}", ours_s=clock, cpu_s=cpu
        )


def _starvation() -> dict[str, Any]:
    """One rewriter replaces the same files again and again while others append every 0.2 s each."""
    with tempfile.TemporaryDirectory(prefix="commit-") as folder:
        config = _catalog_of(folder)
        catalog, table = _small_table(config)
        table = commit(catalog, table, AppendFiles(added=tuple(_file(table, f"seed-{n}") for n in range(100)))).table
        context = multiprocessing.get_context("spawn")
        stop, answers = context.Event(), context.Queue()
        others = [context.Process(target=_append_on, args=(config, n, stop, answers), daemon=True) for n in range(APPENDERS)]
        for other in others:
            other.start()
        for _ in others:
            answers.get(timeout=120)
        seconds, attempts, until = [], [], time.monotonic() + STARVATION_S
        mine = [_file(table, f"seed-{n}") for n in range(100)]
        refused = 0
        while time.monotonic() < until:
            operation = RewriteFiles(
                removed_data=tuple(mine),
                added_data=tuple(replace(f, file_path=f"{f.file_path}-{len(seconds)}") for f in mine),
                starting_snapshot_id=table.metadata.current_snapshot_id,
            )
            begun = time.monotonic()
            try:
                done = commit(catalog, table, operation)
            except IcebergOpsError:
                refused += 1
                continue
            seconds.append(time.monotonic() - begun)
            attempts.append(done.attempts)
            table, mine = done.table, list(operation.added_data)
        stop.set()
        appended = sum(answers.get(timeout=60) for _ in others)
        return record(
            f"a rewriter among {APPENDERS} appenders with a pause of {EVERY_S} s each",
            ours_s=sum(seconds) / max(len(seconds), 1),
            committed=len(seconds),
            refused=refused,
            most_attempts=max(attempts, default=0),
            slowest_s=round(max(seconds, default=0), 3),
            appends_meanwhile=appended,
        )


def _append_on(config: CatalogConfig, number: int, stop: Event, answers: Queue[Any]) -> None:
    catalog = load_catalog(config)
    table, count = catalog.load_table(NAME), 0
    answers.put("under way")
    while not stop.wait(EVERY_S):
        table = _append(catalog, table, f"{number}-{count}")
        count += 1
    answers.put(count)
