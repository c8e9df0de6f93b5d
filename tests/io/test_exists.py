"""Whether a file exists: an error of the store must not count as an answer."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.deletion.bulk import recorded
from iceberg_ops.deletion.held_lease import HeldLease
from iceberg_ops.deletion.leases import Lease
from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.table.integrity import IntegrityCheck
from tests.builders import IDENTIFIER, data_file, make_table, sql_catalog


class Fails:
    """``os.stat`` of the storage fails while ``code`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.code = 0
        self.stat = os.stat
        monkeypatch.setattr(os, "stat", self)

    def __call__(self, path: Any, *rest: Any, **named: Any) -> os.stat_result:
        if self.code:
            raise OSError(self.code, os.strerror(self.code), path)
        return self.stat(path, *rest, **named)


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Fails:
    return Fails(monkeypatch)


def test_what_no_file_can_be_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "link").symlink_to("file")
    io = LocalFileIO()
    names = ["gone", "gone/x", "file/x", "loop", "nowhere", "", "n" * 300, "nul\0"]
    assert [io.exists(f"{tmp_path}/{name}") for name in names] == [False] * len(names)
    assert [list(io.list_prefix(f"{tmp_path}/{name}/x")) for name in names if name] == [[]] * (len(names) - 1)
    assert [io.list_names(f"{tmp_path}/{name}/x") for name in names if name] == [[]] * (len(names) - 1)
    assert io.exists(f"{tmp_path}/file")
    assert io.exists(f"{tmp_path}/link")


@pytest.mark.parametrize("path", ["n" * 300, "nul\0"], ids=["too long", "with a NUL"])
def test_a_table_whose_data_path_can_be_no_folder_is_not_dropped_and_the_error_says_what_to_do(tmp_path: Path, path: str) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file(f"{tmp_path}/wh/{path}/a"),))).table
    moved = commit(catalog, table, UpdateProperties(updates={"write.data.path": f"{tmp_path}/{path}"})).table
    with pytest.raises(TerminalError, match=r"nothing was deleted, because the note .* give the table another folder to write to"):
        catalog.drop_table(table.identifier[1:], purge=True)
    expire(catalog, moved, ExpireSnapshots(older_than_ms=2**60))
    commit(catalog, catalog.load_table(IDENTIFIER), UpdateProperties(removals=("write.data.path",)))
    catalog.drop_table(table.identifier[1:], purge=True)
    assert not catalog.io.exists(table.metadata_location)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_what_may_pass_is_no_answer(tmp_path: Path, fails: Fails, code: int) -> None:
    fails.code = code
    with pytest.raises(CatalogUnavailableError):
        LocalFileIO().exists(f"{tmp_path}/x")


def test_a_folder_that_may_not_be_read_is_no_answer(tmp_path: Path, fails: Fails) -> None:
    fails.code = errno.EACCES
    with pytest.raises(PermissionError):
        LocalFileIO().exists(f"{tmp_path}/x")


def test_a_job_whose_lease_ran_out_does_not_take_a_moments_trouble_for_deleted_files(tmp_path: Path, fails: Fails) -> None:
    io = LocalFileIO()
    catalog = sql_catalog(tmp_path, io)
    catalog.create_namespace(("ns",))
    table = make_table(catalog)
    path = f"{table.location}/data/x.parquet"
    io.write(path, b"x")
    held = HeldLease(lambda: (table, Lease(holder="job", snapshot_id=None, expires_at_ms=0, marks=("x",))), 3_600_000)
    held.begin()
    held._lapsed = True
    fails.code = errno.ESTALE
    with pytest.raises(CatalogUnavailableError):
        held.check_files([path])
    fails.code = 0
    held.check_files([path])
    held.end(give_back=True)


def test_a_deletion_that_was_ended_reports_no_file_as_gone_that_may_be_there(tmp_path: Path, fails: Fails) -> None:
    io, told = LocalFileIO(), list[tuple[list[str], bool]]()
    path = f"{tmp_path}/x"
    io.write(path, b"x")

    def ended(*_: object) -> NoReturn:
        fails.code = errno.ESTALE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(ended, lambda gone, unsure: told.append((list(gone), unsure)))(io, [path])
    assert told == [([], True)]


def test_an_integrity_check_does_not_call_a_file_missing_that_it_could_not_look_at(tmp_path: Path, fails: Fails) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_namespace(("ns",))
    make_table(catalog)
    table = commit(catalog, catalog.load_table(("ns", "t")), UpdateProperties(updates={"a": "1"})).table
    fails.code = errno.EIO
    findings = list(IntegrityCheck(table).findings())
    assert findings
    assert all("does not exist" not in found.detail for found in findings)
