"""Eight processes on one table, each with a log of its acknowledged work: all of it is in the table afterwards.

Five add rows, delete and update some of their own, one compacts, one rewrites manifests, one expires snapshots and removes orphans.
The test takes ten seconds here, sixty in ``make torture``.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import CommitFailedError, ValidationError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake
from tests.builders import make_table
from tests.torture.killed_operations import write_rows
from tests.torture.test_kill_nine import SERVER, leaked, open_lake

SECONDS = 60 if "ICEBERG_OPS_TORTURE" in os.environ else 10
WRITERS = 5
FEWEST = 6
"""The least number of operations of each writer, however slow the machine is."""
KEPT = "30s"
"""Younger snapshots and unreferenced files stay: longer than any step of a writer."""


class Log:
    """What was acknowledged to one process: a line per row that was written or deleted."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", buffering=1)

    def __call__(self, what: str, row: int, text: str = "") -> None:
        self.file.write(json.dumps([what, row, text]) + "\n")


def write(lake: Lake, worker: int, log: Log, until: float) -> None:
    """Add rows; delete or update its own rows, by position, in whatever file a compaction has put them."""
    rng, number, mine = random.Random(worker), 0, dict[int, str]()
    while time.monotonic() < until or number < FEWEST:
        number += 1
        if not mine or rng.random() < 0.5:
            row, text = worker * 1_000_000 + number, f"{worker}/{number}"
            added = write_rows(lake, [(row, text, "a")], f"append-{worker}-{number}")
            commit(lake.catalog, lake.table, AppendFiles(added=added, run_key=text))
            mine[row] = text
            log("has", row, text)
            continue
        row = rng.choice(sorted(mine))
        text = "" if rng.random() < 0.5 else f"{worker}/{number}"
        if change(lake, row, text, f"change-{worker}-{number}"):
            log("has" if text else "gone", row, text)
            mine.pop(row)
            if text:
                mine[row] = text


def change(lake: Lake, row: int, text: str, name: str) -> bool:
    """Delete a row, and with ``text`` write it again; returns whether this was acknowledged. A refused change is not retried."""
    table, found = find(lake, row)
    if found is None:
        return False
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), [found], operation_id=name)
    added = write_rows(lake, [(row, text, "a")], name) if text else ()
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        added_data=added,
        referenced_data_files=(found[0].file_path,),
        isolation="snapshot",
        starting_snapshot_id=table.metadata.current_snapshot_id,
        run_key=name,
    )
    try:
        commit(lake.catalog, table, operation)
    except (ValidationError, CommitFailedError):
        table.io.delete_many([f.file_path for f in (*deletes.added, *added)])
        return False
    return True


def find(lake: Lake, row: int) -> tuple[Table, tuple[FileScanTask, Any] | None]:
    table = lake.table
    context = ReadContext.for_table(table.metadata, columns=["id", "_pos"])
    for task in plan(table, Scan()).tasks:
        for batch in read_task(task, context, table.io):
            ids, positions = (column.to_pylist() for column in batch.columns)
            if row in ids:
                return table, (task, np.array([positions[ids.index(row)]], np.int64))
    return table, None


def again_and_again(action: str, pause: float, **options: str) -> Callable[[Lake, int, Log, float], None]:
    def work(lake: Lake, worker: int, log: Log, until: float) -> None:
        turns = 0
        while time.monotonic() < until or turns < FEWEST:
            turns += 1
            report = lake.run(action, now=_now, **options)
            log(action, 0, report.status)
            time.sleep(pause)

    return work


def clean(lake: Lake, worker: int, log: Log, until: float) -> None:
    while time.monotonic() < until:
        log("expire", 0, lake.run("expire_snapshots", now=_now, older_than=KEPT, retain_last=20).status)
        log("orphans", 0, lake.run("remove_orphan_files", now=_now, older_than=KEPT, unsafe_allow_recent=True).status)
        time.sleep(0.5)


MAINTENANCE = {
    "compact": again_and_again("rewrite_data_files", 0.2, min_input_files="2"),
    "manifests": again_and_again("rewrite_manifests", 1.0),
    "clean": clean,
}


def process(kind: str, folder: str, name: str, worker: int) -> None:
    lake = open_lake(kind, Path(folder), LocalFileIO())
    log, until = Log(Path(folder) / f"{name}.log"), time.monotonic() + SECONDS
    (MAINTENANCE.get(name) or write)(lake, worker, log, until)


def _now() -> int:
    return time.time_ns() // 1_000_000


def acknowledged(folder: Path) -> tuple[dict[int, str], int]:
    """The rows that must be in the table, by id, and the number of acknowledgements that they result from."""
    rows: dict[int, str] = {}
    lines = [json.loads(line) for path in sorted(folder.glob("w*.log")) for line in path.read_text().splitlines()]
    for what, row, text in lines:
        rows.pop(row, None)
        if what == "has":
            rows[row] = text
    return rows, len(lines)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), [("filesystem", 2), ("sql", 3)])
def test_all_that_was_acknowledged_is_there(kind: str, version: int, tmp_path: Path) -> None:
    lake = open_lake(kind, tmp_path, LocalFileIO())
    lake.catalog.create_namespace(("ns",))
    make_table(lake.catalog, version=version, properties={"commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200"})
    names = [f"w{i}" for i in range(WRITERS)] + list(MAINTENANCE)
    workers = [SERVER.Process(target=process, args=(kind, str(tmp_path), name, i)) for i, name in enumerate(names)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=SECONDS + 120)
    assert dict(zip(names, [w.exitcode for w in workers], strict=True)) == dict.fromkeys(names, 0)
    rows, acknowledgements = acknowledged(tmp_path)
    print(f"\n{kind}: {acknowledgements} acknowledgements, {len(rows)} rows")
    assert acknowledgements > WRITERS
    assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
    assert (tmp_path / "compact.log").read_text().count('"committed"') or SECONDS < 60, "the compaction never got through"
    assert leaked(lake) == []
    assert sorted((row, text) for row, text, _ in lake.rows()) == sorted(rows.items())
