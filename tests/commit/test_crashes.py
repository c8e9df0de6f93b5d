"""A process that dies at any step of a commit: the table is readable, the operation is complete or absent, and a rerun with the
same run key finishes it once; the next expiry deletes the files of a dead one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.sql import SqlCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire, resume_expiry
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import CommitStateUnknownError, IncompleteError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.manifests import ManifestEntry
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.reachable import reachable_files
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_paths, make_table

EU = ("eu",)


class Died(BaseException):
    """Not an Exception: nothing that handles errors may see a killed process's end."""


class Mortal(LocalFileIO):
    """Dies before (even) or after (odd) its n-th write or delete; ``left`` None: never."""

    left: int | None = None

    def _step(self, action: Callable[[], Any]) -> Any:
        if self.left is not None:
            if self.left == 0:
                raise Died
            if self.left == 1:
                self.left = 0
                action()
                raise Died
            self.left -= 2
        return action()

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._step(lambda: LocalFileIO.write(self, location, data, overwrite=overwrite))

    def delete(self, location: str) -> None:
        self._step(lambda: LocalFileIO.delete(self, location))

    def delete_many(self, locations: Any) -> Any:
        return self._step(lambda: LocalFileIO.delete_many(self, list(locations)))


class MortalSql(SqlCatalog):
    """Dies around the swap, too."""

    def _swap_pointer(self, identifier: tuple[str, ...], expected: str, new: str) -> bool:
        swap = super()._swap_pointer
        step = self.io._step if isinstance(self.io, Mortal) else lambda action: action()
        return bool(step(lambda: swap(identifier, expected, new)))


def open_catalog(kind: str, folder: Path, io: LocalFileIO) -> Any:
    if kind == "filesystem":
        return FileSystemCatalog("c", io, warehouse=str(folder / "wh"), sleep=lambda _: None)
    return MortalSql("c", f"sqlite:///{folder / 'c.db'}", io, warehouse=str(folder / "wh"), sleep=lambda _: None)


def entries(table: Table) -> list[ManifestEntry]:
    return [e for m in manifests_of(table, table.metadata.current_snapshot) for e in entries_of(table, m)]


OPERATIONS: dict[str, tuple[Callable[[Table], Any], set[str]]] = {
    "append": (lambda t: AppendFiles(added=(data_file("n", partition=EU),), run_key="job/1"), {"a", "b", "n"}),
    "delete": (lambda t: DeleteFiles(paths=("a",), run_key="job/1"), {"b"}),
    "rewrite": (
        lambda t: RewriteFiles(
            removed_data=(data_file("a", partition=EU), data_file("b", partition=EU)),
            added_data=(data_file("n", rows=20, partition=EU),),
            starting_snapshot_id=t.metadata.current_snapshot_id,
            run_key="job/1",
        ),
        {"n"},
    ),
    "rewrite manifests": (lambda t: RewriteManifests(run_key="job/1"), {"a", "b"}),
    "properties": (lambda t: UpdateProperties(updates={"x": "1"}, run_key="job/1"), {"a", "b"}),
    "transaction": (
        lambda t: Transaction(
            operations=(AppendFiles(added=(data_file("n", partition=EU),)), DeleteFiles(paths=("a",))), run_key="job/1"
        ),
        {"b", "n"},
    ),
}


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_wherever_a_commit_dies_it_is_wholly_there_or_not_and_a_rerun_finishes_it_once(
    name: str, kind: str, tmp_path: Path
) -> None:
    make, wanted = OPERATIONS[name]
    deaths = 0
    for step in range(200):
        io = Mortal()
        folder = tmp_path / str(step)
        folder.mkdir()
        catalog = open_catalog(kind, folder, io)
        catalog.create_namespace(("ns",))
        table = make_table(catalog, partitioned=True)
        table = commit(catalog, table, AppendFiles(added=(data_file("a", partition=EU), data_file("b", partition=EU)))).table
        before = table.metadata
        operation = make(table)
        io.left = step
        try:
            commit(catalog, table, operation)
        except (Died, CommitStateUnknownError):
            # An unknown outcome: whatever ends an attempt between its swap and the answer is one, also what no handler should see.
            deaths += 1
        survived = io.left is not None and io.left > 1
        healthy = open_catalog(kind, folder, LocalFileIO())
        now = healthy.load_table(IDENTIFIER)
        assert entries(now)
        assert live_paths(now) in ({"a", "b"}, wanted)
        done = commit(healthy, now, make(table))
        assert live_paths(done.table) == wanted
        added = len(done.table.metadata.snapshots) - len(before.snapshots)
        assert added == {"properties": 0, "transaction": 2}.get(name, 1)
        if survived:
            break
    assert deaths >= (3 if name == "properties" else 6)


@pytest.mark.parametrize("kind", ["filesystem", "sql"])
def test_wherever_an_expiry_dies_the_next_one_deletes_what_it_left(kind: str, tmp_path: Path) -> None:
    deaths = 0
    for step in range(200):
        io = Mortal()
        folder = tmp_path / str(step)
        folder.mkdir()
        catalog = open_catalog(kind, folder, io)
        catalog.create_namespace(("ns",))
        table = make_table(catalog, partitioned=True)
        paths = [f"{table.location}/data/{n}" for n in "abc"]
        for path in paths:
            io.write(path, b"x")
            table = commit(catalog, table, AppendFiles(added=(data_file(path, partition=EU),))).table
        table = commit(catalog, table, DeleteFiles(paths=(paths[0],))).table
        operation = ExpireSnapshots(older_than_ms=2**60, retain_last=1, run_key="expire/1")
        io.left = step
        try:
            expire(catalog, table, operation)
        except (Died, CommitStateUnknownError, IncompleteError):
            # What ends an attempt between its swap and the answer is an unknown outcome, and says later that something has expired.
            deaths += 1
        survived = io.left is not None and io.left > 1
        healthy = open_catalog(kind, folder, LocalFileIO())
        now = healthy.load_table(IDENTIFIER)
        assert live_paths(now) == set(paths[1:])
        assert all(healthy.io.exists(p) for p in paths[1:])
        expire(healthy, now, operation)
        resume_expiry(healthy, now, now_ms=2**60)
        now = healthy.load_table(IDENTIFIER)
        assert len(now.metadata.snapshots) == 1
        known = set(reachable_files(now)) | {f"{now.location}/metadata/version-hint.text"}
        left = [i.location for i in healthy.io.list_prefix(now.location) if i.location not in known]
        assert [p for p in left if not p.endswith("metadata.json") and "/iceberg-ops/deletions/" not in p] == []
        if survived:
            break
    assert deaths >= 4
