"""kill -9 at an I/O step: a child process does an operation and is killed at its k-th step, before or after it takes effect.

Afterwards the table is readable and the operation is wholly there or not at all; a rerun under the same run key finishes it, once;
and one maintenance run later no file is left that belongs to nothing. The suite takes a few steps of each operation, spread evenly;
``make torture`` takes them all.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expiry import expire
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.data.row_deletes import write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.reachable import reachable_files
from tests.actions.lake import Lake, Row, numbered
from tests.builders import make_table

RUN_KEY = "job/1"
EVERY_STEP = "ICEBERG_OPS_TORTURE" in os.environ
SAMPLED = 3
FOUR_DAYS_NS = 4 * 24 * 3_600_000_000_000


class Steps:
    """Counts I/O steps; kills this process at the ``deadly`` one."""

    def __init__(self, deadly: int | None) -> None:
        self.taken, self.deadly = 0, deadly
        self.lock = threading.Lock()

    def __call__(self) -> None:
        with self.lock:
            if self.taken == self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            self.taken += 1


class CountedIO(LocalFileIO):
    """Steps before each call, and after each that changes something."""

    steps = Steps(None)

    def read(self, location: str) -> bytes:
        self.steps()
        return super().read(location)

    def open_input(self, location: str) -> BinaryIO:
        self.steps()
        return super().open_input(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self.steps()
        super().write(location, data, overwrite=overwrite)
        self.steps()

    def open_output(self, location: str) -> BinaryIO:
        self.steps()
        return super().open_output(location)

    def delete(self, location: str) -> None:
        self.steps()
        super().delete(location)
        self.steps()

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        return [failure for location in locations if (failure := self._try_delete(location)) is not None]

    def list_prefix(self, prefix: str) -> Any:
        self.steps()
        return super().list_prefix(prefix)


class CountedSql(SqlCatalog):
    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        if not isinstance(self.io, CountedIO):
            return super()._swap_pointer(identifier, expected, new)
        self.io.steps()
        done = super()._swap_pointer(identifier, expected, new)
        self.io.steps()
        return done


def open_lake(kind: str, folder: Path, io: LocalFileIO) -> Lake:
    if kind == "filesystem":
        return Lake(FileSystemCatalog("test", io, warehouse=str(folder / "wh")))
    return Lake(CountedSql("test", f"sqlite:///{folder / 'c.db'}", io, warehouse=str(folder / "wh")))


def write_rows(lake: Lake, rows: list[Row], name: str) -> tuple[DataFile, ...]:
    table = lake.table
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=name, task_id="0", fanout=True)
    ids, texts, regions = zip(*rows, strict=True)
    writer.write(pa.RecordBatch.from_pydict({"id": ids, "data": texts, "region": regions}))
    return tuple(writer.close())


def append(lake: Lake, name: str) -> None:
    added = write_rows(lake, numbered(100, 5), name)
    commit(lake.catalog, lake.table, AppendFiles(added=added, run_key=RUN_KEY))


def overwrite(lake: Lake, name: str) -> None:
    table, task = lake.table, lake.tasks()[0]
    operation = OverwriteFiles(
        added=write_rows(lake, numbered(100, 5), name),
        removed=(task.data_file,),
        starting_snapshot_id=table.metadata.current_snapshot_id,
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def delta(lake: Lake, name: str) -> None:
    table, task = lake.table, lake.tasks()[0]
    found = [(task, np.array([0, 2], np.int64))]
    deletes = write_row_deletes(table.io, WriteContext.for_table(table.metadata), found, operation_id=name)
    operation = RowDelta(
        added_deletes=deletes.added,
        removed_deletes=deletes.replaced,
        added_data=write_rows(lake, numbered(200, 2), name),
        referenced_data_files=(task.file_path,),
        starting_snapshot_id=table.metadata.current_snapshot_id,
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def rewrite(lake: Lake, name: str) -> None:
    table, tasks = lake.table, lake.tasks()
    operation = RewriteFiles(
        removed_data=tuple(task.data_file for task in tasks),
        added_data=write_rows(lake, lake.rows(), name),
        starting_snapshot_id=table.metadata.current_snapshot_id,
        run_key=RUN_KEY,
    )
    commit(lake.catalog, table, operation)


def manifests(lake: Lake, name: str) -> None:
    commit(lake.catalog, lake.table, RewriteManifests(run_key=RUN_KEY))


def expiry(lake: Lake, name: str) -> None:
    expire(lake.catalog, lake.table, ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key=RUN_KEY))


def compaction(lake: Lake, name: str) -> None:
    lake.run("rewrite_data_files", now=_now, run_key=RUN_KEY, rewrite_all=True)


def orphans(lake: Lake, name: str) -> None:
    lake.run("remove_orphan_files", now=lambda: _now() + FOUR_DAYS_NS // 10**6)


OPERATIONS: dict[str, tuple[Callable[[Lake, str], None], int]] = {
    "append": (append, 1),
    "overwrite": (overwrite, 1),
    "row delta": (delta, 1),
    "rewrite files": (rewrite, 1),
    "rewrite manifests": (manifests, 1),
    "expire": (expiry, 0),
    "orphan removal": (orphans, 0),
    "rewrite_data_files": (compaction, 1),
}
"""By name: the work, and how many snapshots it makes."""


def in_child(kind: str, folder: Path, operation: Callable[[Lake, str], None], deadly: int | None) -> int | None:
    """Do it in a process of its own; the number of steps it took, None if it was killed."""
    told = folder.parent / "steps"
    pid = os.fork()
    if pid == 0:
        try:
            CountedIO.steps = Steps(deadly)
            link = os.link
            with mock.patch.object(os, "link", lambda *a: (CountedIO.steps(), link(*a))):
                operation(open_lake(kind, folder, CountedIO()), "first")
            told.write_text(str(CountedIO.steps.taken))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    assert os.WEXITSTATUS(status) == 0
    return int(told.read_text())


def history(lake: Lake) -> list[list[Row]]:
    return [lake.rows(Scan(snapshot_id=s.snapshot_id)) for s in lake.table.metadata.snapshots]


def leaked(lake: Lake) -> list[str]:
    """After one maintenance run, a few days later."""
    later = time.time_ns() + FOUR_DAYS_NS
    with mock.patch.object(time, "time_ns", return_value=later):
        lake.run("expire_snapshots", now=_now, older_than="1m", retain_last=1)
        lake.run("remove_orphan_files", now=_now)
    table = lake.table
    known = {*reachable_files(table), f"{table.location}/metadata/version-hint.text"}
    return sorted(lake.paths() - known)


def _now() -> int:
    return time.time_ns() // 1_000_000


def prepare(kind: str, version: int, folder: Path, template: Path) -> Path:
    folder.mkdir()
    lake = open_lake(kind, folder, LocalFileIO())
    lake.catalog.create_namespace(("ns",))
    make_table(lake.catalog, version=version)
    for start in (0, 10, 20):
        lake.append(numbered(start, 5))
    task = lake.tasks()[1]
    lake.delete_positions((task, [1]))
    lake.catalog.io.write(f"{lake.table.location}/data/stray", b"x")
    return Path(shutil.copytree(folder, template))


@pytest.mark.parametrize("version", [2, 3] if EVERY_STEP else [2])
@pytest.mark.parametrize("kind", ["filesystem", "sql"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_anywhere_it_is_wholly_there_or_not_and_a_rerun_finishes_it_once(
    name: str, kind: str, version: int, tmp_path: Path
) -> None:
    operation, snapshots = OPERATIONS[name]
    folder, template = tmp_path / "live", tmp_path / "template"
    prepare(kind, version, folder, template)
    before = open_lake(kind, folder, LocalFileIO()).rows()
    steps = in_child(kind, folder, operation, None)
    assert steps is not None
    done = open_lake(kind, folder, LocalFileIO())
    wanted, made = done.rows(), len(done.table.metadata.snapshots)
    stride = 1 if EVERY_STEP else max(1, steps // SAMPLED)
    offset = 0 if EVERY_STEP else sum(map(ord, name + kind)) % stride
    for step in range(offset, steps, stride):
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        assert in_child(kind, folder, operation, step) is None, f"step {step} was not reached"
        lake = open_lake(kind, folder, LocalFileIO())
        assert lake.rows() in (before, wanted), f"half done at step {step}"
        assert all(rows for rows in history(lake)), f"unreadable at step {step}"
        operation(lake, "again")
        assert (lake.rows(), len(lake.table.metadata.snapshots)) == (wanted, made), f"the rerun after step {step}"
        assert leaked(lake) == [], f"leaked at step {step}"
        assert lake.rows() == wanted
    assert snapshots == 0 or made == 4 + snapshots
