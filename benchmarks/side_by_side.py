"""The same maintenance by this package and by Iceberg Java: run, measured, and checked for the same rows in the requested files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import duckdb

from benchmarks.java_peer import CATALOG, NAMESPACE, PEER, SharedLake
from benchmarks.lineitem import SCALE
from benchmarks.meter import Measured, measured
from benchmarks.records import record
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.scan.planning import Scan, plan
from spark_jobs.runners.rewrite import SparkRewriteRunner

REPEATS = int(os.environ.get("MAINTENANCE_REPEATS", "3"))
_NUMBERS = itertools.count(os.getpid() * 1000)


@dataclass(frozen=True, slots=True)
class Side:
    """``work`` gets the SQL name of a fresh table of the seed's files; ``warm_ups`` runs are not measured."""

    work: Callable[[str], Any]
    warm_ups: int = 1


@dataclass(frozen=True, slots=True)
class _Outcome:
    runs: Sequence[Measured]
    rows: int
    checksum: int
    files: int
    bytes_: int

    @property
    def seconds(self) -> float:
        return float(median(run.wall_s for run in self.runs))

    @property
    def cpu(self) -> float:
        return float(median(run.cpu_s for run in self.runs))


def ours(lake: SharedLake, table: str, options: Mapping[str, str], *, spark: bool = True) -> Any:
    """This package's rewrite; returns the report."""
    runner = SparkRewriteRunner(lake.session) if spark else None
    return run_job(JobSpec(job="rewrite_data_files", table=table, catalog=lake.config, options=dict(options)), runner=runner)


def theirs(lake: SharedLake, table: str, arguments: str) -> Any:
    """Java's rewrite through its procedure."""
    return lake.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '{table.partition('.')[2]}', {arguments})")


Check = Callable[[SharedLake, str], tuple[int, int]]
"""Rows of a table (by its name in the namespace) and a checksum of them that does not depend on the order."""


def compare(
    lake: SharedLake, line: str, seed: str, our_side: Side, peer_side: Side | None, check: Check | None = None
) -> dict[str, Any]:
    """Both sides alternating; returns the record. Ends the program if they do not leave the same rows, by ``check`` (None: by only
    the data files, to which no delete may still apply)."""
    found = _run(lake, seed, our_side, check or _files_alone)
    peer = _run(lake, seed, peer_side, check or _files_alone) if peer_side is not None else None
    if peer is not None and (found.rows, found.checksum) != (peer.rows, peer.checksum):
        raise SystemExit(f"{line}: {found.rows} rows with checksum {found.checksum}, Java {peer.rows} with {peer.checksum}")
    more: dict[str, Any] = {"scale": SCALE, "rows": found.rows, "files": found.files, "cpu_s": found.cpu}
    more["worker_peak_mib"] = max(run.worker_mib for run in found.runs)
    if peer is not None:
        more |= {"peer_bytes": peer.bytes_, "peer_files": peer.files, "peer_cpu_s": peer.cpu}
        more["cpu_ratio"] = round(peer.cpu / found.cpu, 2) if found.cpu else None
    return record(
        line, ours_s=found.seconds, peer=PEER if peer else None, peer_s=peer.seconds if peer else None, bytes_=found.bytes_, **more
    )


def _run(lake: SharedLake, seed: str, side: Side, check: Check) -> _Outcome:
    runs = []
    for n in range(side.warm_ups + REPEATS):
        name = f"run_{next(_NUMBERS)}"
        table = lake.register(seed, name)
        found = measured(partial(side.work, table))
        if n >= side.warm_ups:
            runs.append(found)
        outcome = _outcome(lake, name, runs, check if n == side.warm_ups + REPEATS - 1 else None)
        forget(lake, seed, name)
    return outcome


def _outcome(lake: SharedLake, name: str, runs: Sequence[Measured], check: Check | None) -> _Outcome:
    tasks = plan(lake.catalog.load_table((NAMESPACE, name)), Scan()).tasks
    rows, checksum = check(lake, name) if check is not None else (0, 0)
    return _Outcome(runs, rows, checksum, len(tasks), sum(task.size_bytes for task in tasks))


def _files_alone(lake: SharedLake, name: str) -> tuple[int, int]:
    tasks = plan(lake.catalog.load_table((NAMESPACE, name)), Scan()).tasks
    if left := sum(len(task.deletes) for task in tasks):
        raise SystemExit(f"{name}: {left} deletes still apply after the rewrite")
    return _checksum([task.file_path.removeprefix("file:") for task in tasks])


def _checksum(paths: Sequence[str]) -> tuple[int, int]:
    """Rows, and the sum of their hashes, which does not depend on the order."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        found = connection.execute(
            f"SELECT count(*), sum(hash(rows)::HUGEINT) FROM read_parquet({list(paths)!r}) AS rows"
        ).fetchone()
    assert found is not None
    return found


def forget(lake: SharedLake, seed: str, name: str) -> None:
    """Drop the table, and delete the files that the seed does not have."""
    identifier = (NAMESPACE, name)
    table = lake.catalog.load_table(identifier)
    kept = {task.file_path for task in plan(lake.catalog.load_table((NAMESPACE, seed)), Scan()).tasks}
    table.io.delete_many(task.file_path for task in plan(table, Scan()).tasks if task.file_path not in kept)
    lake.catalog.drop_table(identifier)
