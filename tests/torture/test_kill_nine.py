"""kill -9 at an I/O step: a child process does an operation and is killed at its k-th step, before or after it takes effect.

The child is forked by a server of its own that runs no threads, because a fork of a test process full of them may hang, and that
has loaded all a child needs (``preloaded``).

Afterwards the table is readable and the operation is complete or absent; a rerun under the same run key finishes it, once; and
after one maintenance run no unreferenced file is left. The suite takes a few steps of each operation, spread evenly; ``make
torture`` takes them all.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateStatistics
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.statistics import StatisticsFile
from iceberg_ops.table.reachable import reachable_files
from tests.actions.lake import Lake, Row, numbered
from tests.builders import make_table
from tests.torture.killed_jobs import JOBS
from tests.torture.killed_operations import FOUR_DAYS_NS, OPERATIONS, head, now_ms, write_rows

EVERY_STEP = "ICEBERG_OPS_TORTURE" in os.environ
SAMPLED = 2
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.torture.preloaded", __name__])
EVERY = {**OPERATIONS, **JOBS}
assert len(EVERY) == len(OPERATIONS) + len(JOBS), "of two works with one name only one is killed"


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
        failures: list[DeleteFailure] = []
        for location in locations:
            self.steps()
            failures += super().delete_many([location])
            self.steps()
        return failures

    def list_prefix(self, prefix: str) -> Any:
        self.steps()
        return super().list_prefix(prefix)

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        self.steps()
        return super().list_folder(location)


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


def in_child(kind: str, folder: Path, name: str, deadly: int | None) -> int | None:
    """Do it in a child process; returns its number of steps, None if it was killed."""
    child = SERVER.Process(target=do, args=(kind, str(folder), name, deadly))
    child.start()
    child.join(timeout=120)
    if child.exitcode == -signal.SIGKILL:
        return None
    assert child.exitcode == 0, f"the child of {name} ended with {child.exitcode}"
    return int(_told(folder).read_text())


def do(kind: str, folder: str, name: str, deadly: int | None) -> None:
    CountedIO.steps = Steps(deadly)
    link = os.link

    def counted_link(*a: Any) -> None:
        CountedIO.steps()
        link(*a)

    with mock.patch.object(os, "link", counted_link):
        EVERY[name].work(open_lake(kind, Path(folder), CountedIO()), "first")
    _told(Path(folder)).write_text(str(CountedIO.steps.taken))


def _told(folder: Path) -> Path:
    return folder.parent / "steps"


def history(lake: Lake) -> list[list[Row]]:
    return [lake.rows(Scan(snapshot_id=s.snapshot_id)) for s in lake.table.metadata.snapshots]


def leaked(lake: Lake) -> list[str]:
    """The unreferenced files after one maintenance run, a few days later."""
    later = time.time_ns() + FOUR_DAYS_NS
    with mock.patch.object(time, "time_ns", return_value=later):
        lake.run("expire_snapshots", now=now_ms, older_than="1m", retain_last=1)
        lake.run("remove_orphan_files", now=now_ms)
    table = lake.table
    known = {*reachable_files(table), f"{table.location}/metadata/version-hint.text"}
    return sorted(lake.paths() - known)


def prepare(kind: str, version: int, folder: Path, template: Path) -> Path:
    """Four small files, one with deletes by position, equality deletes, a branch, statistics, a staged snapshot, an orphan file."""
    folder.mkdir()
    lake = open_lake(kind, folder, LocalFileIO())
    lake.catalog.create_namespace(("ns",))
    make_table(lake.catalog, version=version)
    for start in (0, 10, 20):
        lake.append(numbered(start, 5))
    lake.delete_positions((lake.tasks()[1], [1]))
    lake.delete_ids(12, 22)
    commit(lake.catalog, lake.table, SetRef(ref="audit", snapshot_id=lake.table.metadata.current_snapshot_id or 0))
    lake.append(numbered(30, 5))
    path = f"{lake.table.location}/metadata/first.stats"
    lake.catalog.io.write(path, b"x")
    first = StatisticsFile(snapshot_id=head(lake), statistics_path=path, file_size_in_bytes=1, file_footer_size_in_bytes=1)
    commit(lake.catalog, lake.table, UpdateStatistics(added=(first,)))
    staged = AppendFiles(added=write_rows(lake, numbered(40, 5), "staged"), staged=True, summary={"wap.id": "w"})
    commit(lake.catalog, lake.table, staged)
    lake.append(numbered(50, 5))
    lake.catalog.io.write(f"{lake.table.location}/data/stray", b"x")
    return Path(shutil.copytree(folder, template))


def cases() -> list[tuple[str, str, int]]:
    """(operation, catalog, version): by ``make torture`` each on both catalogs and in both versions, else once."""
    both = (("filesystem", 2), ("sql", 3))
    found: list[tuple[str, str, int]] = []
    for i, (name, operation) in enumerate(EVERY.items()):
        here = [case for case in both if case[0] in operation.catalogs]
        found += [(name, *case) for case in (here if EVERY_STEP else here[i % len(here) :][:1])]
    return found


@pytest.mark.parametrize(("name", "kind", "version"), cases())
def test_killed_anywhere_it_is_wholly_there_or_not_and_a_rerun_finishes_it_once(
    name: str, kind: str, version: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    operation = EVERY[name]
    folder, template = tmp_path / "live", tmp_path / "template"
    prepare(kind, version, folder, template)
    before = state(open_lake(kind, folder, LocalFileIO()))
    snapshots = len(open_lake(kind, folder, LocalFileIO()).table.metadata.snapshots)
    steps = in_child(kind, folder, name, None)
    assert steps is not None
    done = open_lake(kind, folder, LocalFileIO())
    wanted, made = state(done), len(done.table.metadata.snapshots)
    assert operation.snapshots is None or made == snapshots + operation.snapshots
    record_property("steps", steps)
    stride = 1 if EVERY_STEP else max(1, steps // SAMPLED)
    offset = 0 if EVERY_STEP else sum(map(ord, name + kind)) % stride
    for step in range(offset, steps, stride):
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        assert in_child(kind, folder, name, step) is None, f"step {step} was not reached"
        lake = open_lake(kind, folder, LocalFileIO())
        assert operation.in_parts or state(lake) in (before, wanted), f"half done at step {step}"
        assert all(rows for rows in history(lake)), f"unreadable at step {step}"
        operation.work(lake, "again")
        assert state(lake) == wanted, f"the rerun after step {step}"
        assert operation.in_parts or len(lake.table.metadata.snapshots) == made, f"done twice after step {step}"
        assert leaked(lake) == [], f"leaked at step {step}"
        assert lake.rows() == wanted[0]


def state(lake: Lake) -> tuple[Any, ...]:
    """Everything that an operation may change, except ids: rows, rows of the branch, refs, properties, columns, partition spec,
    sort order, location, version, statistics."""
    metadata = lake.table.metadata
    ids = [s.snapshot_id for s in metadata.snapshots]
    audit = lake.rows(Scan(ref="audit")) if "audit" in metadata.refs else None
    properties = {k: v for k, v in metadata.properties.items() if not k.startswith("iceberg-ops.")}
    names = [f.name for f in lake.table.schema.fields]
    return (
        lake.rows(),
        audit,
        sorted(metadata.refs),
        properties,
        names,
        [(f.name, f.transform) for f in metadata.spec.fields],
        metadata.sort_order.fields,
        metadata.location,
        metadata.format_version,
        len(metadata.statistics),
        len(metadata.partition_statistics),
        bool(ids),
    )
