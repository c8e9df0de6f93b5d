"""Commits: appends of one row, replacing files of a large table, expiry, and a rewriter among fast appenders.

Compared with Iceberg Java in the same run, each through its own API and a SQL catalog on a local disk, after one warm-up run. The
figures are those of the fastest of ``COMMIT_REPEATS`` runs, with no decoded manifest in memory. ``cpu_s`` is a process's CPU time;
on a shared machine it is more reliable than wall time. Each append writes a Parquet file; the large table is metadata only.

Appends and expiry are also compared with Spark's INSERT and procedure, which most Java users run (``COMMIT_SPARK=0``: skipped).

``COMMIT_FILES`` and ``COMMIT_APPENDS`` change the sizes, ``COMMIT_STARVATION_S`` how long the appenders run (0: skipped).
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from benchmarks.commit_java import java_figures
from benchmarks.commit_spark import spark_figures
from benchmarks.plan_table import make_table
from benchmarks.records import record
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from iceberg_ops.table.manifests import CACHE, entries_of, manifests_of
from iceberg_ops.table.table import Table

FILES = int(os.environ.get("COMMIT_FILES", "100000"))
APPENDS = int(os.environ.get("COMMIT_APPENDS", "100"))
REPEATS = int(os.environ.get("COMMIT_REPEATS", "3"))
SPARK = os.environ.get("COMMIT_SPARK", "1") != "0"
STARVATION_S = float(os.environ.get("COMMIT_STARVATION_S", "20"))
APPENDERS = 2
EVERY_S = 0.2
KINDS = {"5": (5, False), "5s": (5, True), "50": (50, False), "100": (100, False)}
"""Percent of the files, and whether they are scattered over all manifests."""
NAME = ("db", "t")
SCHEMA = Schema.of(NestedField(1, "id", LONG))


@dataclass
class _Fastest:
    """Wall and CPU seconds of the fastest run after the first, and the bytes that the last one left behind."""

    seconds: float = math.inf
    cpu: float = math.inf
    bytes_: int = 0

    def time(self, work: Callable[[], Any], metadata: Path, run: int) -> Any:
        gc.collect()
        CACHE.clear()
        held, clock, cpu = _size(metadata), time.perf_counter(), time.process_time()
        done = work()
        clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
        if run:
            self.seconds, self.cpu, self.bytes_ = min(self.seconds, clock), min(self.cpu, cpu), _size(metadata) - held
        return done

    def record(self, name: str, theirs: Mapping[str, Any] | None, peer: str = "iceberg java") -> dict[str, Any]:
        more: dict[str, Any] = {"cpu_s": round(self.cpu, 3)}
        if theirs is None:
            return record(name, ours_s=self.seconds, bytes_=self.bytes_, **more)
        more |= {"peer_cpu_s": round(theirs["cpu_s"], 3), "peer_bytes": theirs["bytes"]}
        more["cpu_ratio"] = round(theirs["cpu_s"] / self.cpu, 2)
        return record(name, ours_s=self.seconds, peer=peer, peer_s=round(theirs["s"], 3), bytes_=self.bytes_, **more)


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="commit-") as folder:
        java, ours = Path(folder, "java"), Path(folder, "ours")
        java.mkdir()
        ours.mkdir()
        large = make_table(Path(folder, "t"), FILES)
        peer = java_figures(str(java), large.metadata_location, appends=APPENDS, files=FILES, kinds=tuple(KINDS), repeats=REPEATS)
        catalog = load_catalog(_catalog_of(str(ours)))
        catalog.create_namespace(NAME[:1])
        on_spark = spark_figures(str(Path(folder, "spark")), appends=APPENDS, repeats=REPEATS) if SPARK else {}
        found = _appends_and_expiry(catalog, peer, on_spark)
        found += [_replace(catalog, large, kind, peer.get(f"replace {kind}")) for kind in KINDS]
    return found + ([_starvation()] if STARVATION_S else [])


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.iterdir()) if folder.exists() else 0


def _catalog_of(folder: str) -> CatalogConfig:
    return CatalogConfig(name="bench", type="sql", properties={"uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder})


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
    return catalog, catalog.create_table(NAME, SCHEMA)


def _append(catalog: Catalog, table: Table, name: str) -> Table:
    return commit(catalog, table, AppendFiles(added=(_file(table, name),))).table


def _append_row(catalog: Catalog, table: Table, number: int) -> Table:
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"append-{number}")
    writer.write(pa.RecordBatch.from_pydict({"id": pa.array([number])}))
    return commit(catalog, table, AppendFiles(added=tuple(writer.close()))).table


def _appends_and_expiry(catalog: Catalog, peer: Mapping[str, Any], on_spark: Mapping[str, Any]) -> list[dict[str, Any]]:
    appending, expiring = _Fastest(), _Fastest()
    for run in range(REPEATS + 1):
        table = catalog.create_table(("db", f"small{run}"), SCHEMA)
        metadata = Path(table.metadata.location, "metadata")

        def append_all(table: Table = table) -> Table:
            for n in range(APPENDS):
                table = _append_row(catalog, table, n)
            return table

        table = appending.time(append_all, metadata, run)
        operation = ExpireSnapshots(older_than_ms=time.time_ns() // 1_000_000 + 1, retain_last=1)
        done = expiring.time(partial(expire, catalog, table, operation), metadata, run)
        if len(done.committed.table.metadata.snapshots) != 1 or done.deletion.left:
            raise SystemExit("expiry left snapshots or files behind")
    works = {
        "appends": (appending, f"{APPENDS} appends of one row"),
        "expiry": (expiring, f"expiry of the snapshots of {APPENDS} appends"),
    }
    found = [fastest.record(name, peer.get(work)) for work, (fastest, name) in works.items()]
    beside = {"appends": "beside Spark's INSERT", "expiry": "beside Spark's procedure"}
    return found + [
        fastest.record(f"{name}, {beside[work]}", on_spark[work], "iceberg java on spark")
        for work, (fastest, name) in works.items()
        if work in on_spark
    ]


def _replace(catalog: Catalog, large: Table, kind: str, theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Replaces the files of the first partitions, or some of every partition: then every manifest is rewritten. Each ten become
    one, as in compaction, with the statistics of one of them and the rows of all."""
    percent, scattered = KINDS[kind]
    files = [e.data_file for m in manifests_of(large, large.metadata.current_snapshot) for e in entries_of(large, m)]
    removed = files[:: 100 // percent] if scattered else files[: FILES * percent // 100]
    tens = [removed[at : at + 10] for at in range(0, len(removed), 10)]
    fastest = _Fastest()
    for run in range(REPEATS + 1):
        name = ("db", f"large_{kind}_{run}")
        # Like other engines: register_table refuses a second name, because jobs on one would delete files of the other.
        cast(Any, catalog)._insert_pointer(name, large.metadata_location)
        table = catalog.load_table(name)
        added = [_joined(ten, f"{kind}-{run}") for ten in tens]

        def replace_all(table: Table = table, added: list[DataFile] = added) -> None:
            commit(catalog, table, RewriteFiles(removed_data=tuple(removed), added_data=tuple(added)))

        fastest.time(replace_all, Path(large.metadata.location, "metadata"), run)
    where = ", in every manifest" if scattered else ""
    return fastest.record(f"replacing {percent} % of {FILES} files{where}", theirs)


def _joined(files: list[DataFile], name: str) -> DataFile:
    """The statistics are those of the first file, as dicts, in the form of a writer."""
    first = pickle.loads(pickle.dumps(files[0]))
    rows = sum(f.record_count for f in files)
    found: DataFile = replace(first, file_path=f"{first.file_path}-{name}.parquet", record_count=rows)
    return found


def _starvation() -> dict[str, Any]:
    """One rewriter replaces the same files again and again while others each append every 0.2 s."""
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
        seconds: list[float] = []
        attempts: list[int] = []
        until = time.monotonic() + STARVATION_S
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
