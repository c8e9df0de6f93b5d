"""Scan planning over 100,000 data files of 10 columns in 20 manifests: this package, PyIceberg and, if its jar exists, Iceberg
Java.

Each returns tasks with path, partition, record count, deletes and residual, and these are read, file by file. Every plan of this
package starts without decoded manifests in memory, in a process that has planned before; Java's plans are warm, in a separate JVM.
Then a million files are planned in a fresh process, with its peak memory, and the start of the command line is measured.

``PLAN_FILES`` changes the number of files, ``ICEBERG_JAR`` names an iceberg-spark-runtime jar (default: the one of ``make jars``;
without one Java is left out), ``PLAN_MILLION=0`` leaves the million out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks.plan_java import java_figures
from benchmarks.plan_table import DAYS, ROWS, make_table
from benchmarks.records import record
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.manifests import CACHE
from iceberg_ops.table.table import Table

FILES = int(os.environ.get("PLAN_FILES", "100000"))
MILLION = os.environ.get("PLAN_MILLION", "1") != "0"
REPEATS = 5
PEER_REPEATS = 1
JAVA_WARM_UP = 10
SMALL_FILES = 40


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        table = make_table(Path(folder) / "t", FILES)
        half = FILES // 2 * ROWS
        java = java_figures(table.metadata_location, half=half, day=DAYS // 2, warm_up=JAVA_WARM_UP, repeats=REPEATS)
        found = [_compared(name, table, where, stats, java.get(name)) for name, (where, stats) in _cases().items()]
        found += _starts(make_table(Path(folder) / "small", SMALL_FILES))
    return [*found, *([_million()] if MILLION else [])]


def _cases() -> dict[str, tuple[str, bool]]:
    """Filters by the name of the work, and whether statistics are read."""
    day = (date(1970, 1, 1) + timedelta(DAYS // 2)).isoformat()
    half = FILES // 2 * ROWS
    return {
        "all files": ("true", False),
        "all files with statistics": ("true", True),
        "filter on a column, one file left": (f"id = {half}", False),
        "filter on a column, half of the files left": (f"id >= {half}", False),
        "filter on a column, all files left": ("id >= 0", False),
        "filter on a partition": (f"day = '{day}'", False),
    }


def _compared(name: str, table: Table, where: str, stats: bool, java: tuple[float, int] | None) -> dict[str, Any]:
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - a peer that is chosen by name

    peer = StaticTable.from_metadata(table.metadata_location)

    def ours() -> int:
        CACHE.clear()
        tasks = plan(table, Scan(where=parse_where(where))).tasks
        for t in tasks:
            f = t.data_file
            _ = f.file_path, f.partition, f.record_count, t.deletes, t.residual, f.lower_bounds[1] if stats else None  # type: ignore[index]
        return len(tasks)

    def theirs() -> int:
        tasks = list((peer.scan() if where == "true" else peer.scan(row_filter=where)).plan_files())
        for t in tasks:
            f = t.file
            _ = f.file_path, f.partition, f.record_count, t.delete_files, t.residual, f.lower_bounds[1] if stats else None
        return len(tasks)

    cpu = time.process_time()
    seconds, files = _best(ours, REPEATS)
    cpu = (time.process_time() - cpu) / (REPEATS + 1)
    peer_seconds, peer_files = _best(theirs, PEER_REPEATS)
    if files != peer_files or (java is not None and java[1] != files):
        raise SystemExit(f"{name}: {files} files, PyIceberg finds {peer_files}, Java {java}")
    bytes_ = sum(f.stat().st_size for f in Path(table.location, "metadata").iterdir())
    more = {} if java is None else {"java_s": round(java[0], 3), "java_ratio": round(java[0] / seconds, 2)}
    name = f"plan {FILES} files: {name}"
    return record(
        name,
        ours_s=seconds,
        peer="pyiceberg",
        peer_s=round(peer_seconds, 3),
        bytes_=bytes_,
        files=files,
        cpu_s=round(cpu, 3),
        **more,
    )


def _best(work: Callable[[], int], repeats: int) -> tuple[float, int]:
    """Seconds of the fastest of ``repeats`` runs (if more than one: after a warm-up run), and their result."""
    seconds, found = [], work() if repeats > 1 else 0
    for _ in range(repeats):
        begun = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds), found


def _starts(table: Table) -> list[dict[str, Any]]:
    python, program = sys.executable, [sys.executable, "-m", "iceberg_ops.cli.main", "files", table.metadata_location]
    commands = {
        "start of python alone": [python, "-c", "pass"],
        "import of iceberg_ops.cli.main": [python, "-c", "import iceberg_ops.cli.main"],
        f"iceberg-ops files, {SMALL_FILES} files": program,
        f"iceberg-ops files --where, {SMALL_FILES} files": [*program, "--where", "id = 5"],
    }
    return [record(name, ours_s=_best(lambda c=c: _called(c), REPEATS)[0]) for name, c in commands.items()]  # type: ignore[misc]


def _called(command: list[str]) -> int:
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=True).returncode


_CHILD = """
import json, resource, sys, time
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.table import Table
location, io = sys.argv[1], LocalFileIO()
table = Table(("bench", "db", "plan"), read_metadata(io, location), location, io)
found = []
for where in sys.argv[2:]:
    begun = time.perf_counter()
    files = len(plan(table, Scan(where=parse_where(where))).tasks)
    seconds = time.perf_counter() - begun
    found.append((files, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
print(json.dumps(found))
"""


def _million() -> dict[str, Any]:
    """All files, then half of them by a column: peak memory after both."""
    files = 1_000_000
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        table = make_table(Path(folder) / "t", files)
        command = [sys.executable, "-c", _CHILD, table.metadata_location, "true", f"id >= {files // 2 * ROWS}"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (every, seconds, _), (half, filtered, peak) = json.loads(shown)
    if (every, half) != (files, files // 2):
        raise SystemExit(f"a million files: planned {every} and {half}")
    return record("plan 1000000 files", ours_s=seconds, filtered_s=round(filtered, 3), peak_memory_bytes=peak)
