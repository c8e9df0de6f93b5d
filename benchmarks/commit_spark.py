"""Iceberg Java on Spark, as its users run it: one-row INSERTs and the procedure ``expire_snapshots``, in a separate process.

``python -m benchmarks.commit_spark <folder> <appends> <repeats>`` prints a JSON line per work, of the fastest run after the first.
Needs PySpark and the jars of ``make jars``; without them there is no peer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.commit_java import class_path
from benchmarks.meter import measured

TOMORROW = f"TIMESTAMP '{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d %H:%M:%S}'"
"""A procedure accepts only literals."""


def spark_figures(folder: str, *, appends: int, repeats: int) -> Mapping[str, dict[str, Any]]:
    """By work ("appends", "expiry"): seconds ``s``, ``cpu_s`` and ``bytes``. Empty if Spark or the jars are missing."""
    if class_path() is None or find_spec("pyspark") is None:
        return {}
    command = [sys.executable, "-m", "benchmarks.commit_spark", folder, str(appends), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Iceberg Java on Spark failed: {done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"work"')]
    return {figures.pop("work"): figures for figures in found}


def _run(folder: Path, appends: int, repeats: int) -> list[dict[str, Any]]:
    from benchmarks.java_peer import CATALOG, NAMESPACE, SharedLake  # noqa: PLC0415 - measured without what only Spark needs

    folder.mkdir(parents=True, exist_ok=True)
    lake = SharedLake(folder)
    runs: dict[str, list[tuple[float, float, int]]] = {"appends": [], "expiry": []}
    for number in range(repeats + 1):
        name = f"{CATALOG}.{NAMESPACE}.small{number}"
        lake.sql(f"CREATE TABLE {name} (id bigint) USING iceberg")
        metadata = folder / "wh" / NAMESPACE / f"small{number}" / "metadata"

        def insert(name: str = name) -> None:
            for n in range(appends):
                lake.sql(f"INSERT INTO {name} VALUES ({n})")

        def expire(name: str = name) -> None:
            lake.sql(f"CALL {CATALOG}.system.expire_snapshots(table => '{name}', older_than => {TOMORROW}, retain_last => 1)")

        runs["appends"].append(_timed(insert, metadata))
        runs["expiry"].append(_timed(expire, metadata))
        if lake.sql(f"SELECT count(*) FROM {name}.snapshots")[0][0] != 1:
            raise SystemExit("Spark's expiry left snapshots behind")
    lake.close()
    return [
        {"work": work, "s": min(r[0] for r in found[1:]), "cpu_s": min(r[1] for r in found[1:]), "bytes": found[-1][2]}
        for work, found in runs.items()
    ]


def _timed(work: Callable[[], None], metadata: Path) -> tuple[float, float, int]:
    held, found = _size(metadata), measured(work)
    return found.wall_s, found.cpu_s, _size(metadata) - held


def _size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.iterdir() if f.suffix != ".crc") if folder.exists() else 0


if __name__ == "__main__":
    for figures in _run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps(figures), flush=True)
