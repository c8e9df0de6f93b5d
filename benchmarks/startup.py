"""The time of a command that does almost nothing: the fixed cost of every call.

Medians of 15 runs, each in a fresh process, alternating, compared with the targets and with Python alone: ``--help`` 0.15 s, a
usage error 0.5 s, ``inspect snapshots`` of a table with 20 snapshots in a SQL and in a filesystem catalog 0.4 s. The first runs
compile the modules and do not count.
``STARTUP_RUNS`` changes the number of runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.records import record
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField

RUNS = int(os.environ.get("STARTUP_RUNS", "15"))
SNAPSHOTS = 20
_PROGRAM = "import sys; from iceberg_ops.cli.main import main; sys.argv = ['iceberg-ops', *sys.argv[1:]]; main()"


class _Start(NamedTuple):
    """A command line, its exit code, and its target in seconds (None: only for comparison)."""

    arguments: tuple[str, ...]
    code: int
    bar_s: float | None


STARTS = {
    "python alone": _Start((), 0, None),
    "--help": _Start(("--help",), 0, 0.15),
    "run expire_snapshots --help": _Start(("run", "expire_snapshots", "--help"), 0, 0.5),
    "a usage error": _Start(("inspect", "lake.web.events"), 1, 0.5),
    "an unknown command": _Start(("inspekt",), 1, 0.5),
    "inspect snapshots, filesystem catalog": _Start(("inspect", "lake.web.events", "snapshots"), 0, 0.4),
    "inspect snapshots, SQL catalog": _Start(("inspect", "sql.web.events", "snapshots"), 0, 0.4),
}


def run() -> Iterator[dict[str, Any]]:
    """A record for each start; a table of them is printed at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_tables(folder)
        taken: dict[str, list[float]] = {line: [] for line in STARTS}
        for _ in range(RUNS + 1):
            for line, start in STARTS.items():
                taken[line].append(_seconds(start, folder))
    medians = {line: median(seconds[1:]) for line, seconds in taken.items()}
    for line, found in medians.items():
        bar = STARTS[line].bar_s
        yield record(f"start: {line}", ours_s=found, runs=RUNS, bar_s=bar, met=None if bar is None else found < bar)
    print(_beside_the_bars(medians))


def _beside_the_bars(medians: Mapping[str, float]) -> str:
    """A line for each start: seconds, the target, and whether it is met."""
    lines = [f"{'start':40}{'median':>9}{'wanted':>9}"]
    for line, found in medians.items():
        bar = STARTS[line].bar_s
        verdict = "" if bar is None else f"{f'< {bar:.2f} s':>9}  {'met' if found < bar else 'MISSED'}"
        lines.append(f"{line:40}{found:>7.3f} s{verdict}")
    return "\n".join(lines)


def _seconds(start: _Start, folder: Path) -> float:
    """Wall time of one process. Ends the benchmark if the process does not end as expected."""
    program = _PROGRAM if start.arguments else "pass"
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *start.arguments], cwd=folder, env=_environment(folder), capture_output=True, check=False
    )
    took = time.perf_counter() - began
    if done.returncode != start.code:
        raise SystemExit(f"{' '.join(start.arguments)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return took


def _environment(folder: Path) -> dict[str, str]:
    """Modules are compiled once, by the first run, even if Python is told not to write them."""
    root = str(Path(__file__).resolve().parents[1])
    given = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_") and k != "PYTHONDONTWRITEBYTECODE"}
    return given | {"PYTHONPATH": root, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def _make_tables(folder: Path) -> None:
    """The same table in two catalogs."""
    properties = {
        "lake": ("filesystem", {"warehouse": str(folder / "warehouse")}),
        "sql": ("sql", {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder / "sql")}),
    }
    catalogs = [{"name": name, "type": kind, "properties": found} for name, (kind, found) in properties.items()]
    (folder / "catalogs.yml").write_text(json.dumps({"catalogs": catalogs}))
    for name, (kind, found) in properties.items():
        catalog = load_catalog(CatalogConfig(name=name, type=kind, properties=found))
        catalog.create_namespace(("web",))
        table = catalog.create_table(("web", "events"), Schema.of(NestedField(1, "id", LONG)))
        for _ in range(SNAPSHOTS):
            table = commit(catalog, table, AppendFiles(added=())).table
